"""The digits before a digit: which positions have them, what they add, and that masking does not show them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.embed.digit_ngram import Before, Embed
from numjax.errors import UsageError
from numjax.pipeline.masking import spread
from numjax.types import Tokens

SYMBOLS = tuple((10 + digit, digit) for digit in range(10))


def make_part(**options) -> Embed:
    return build("embed", dict(name="digit_ngram", **options), dim=4, digit_symbols=SYMBOLS, marks=(("[:7]", 3),))


def test_a_digit_knows_the_digits_before_it_in_its_number():
    (producer,) = make_part().producers()
    ids = np.int32([11, 12, 1, 13, 14, 15, 16, 3])  # 1 2, a word, 3 4 5 6, and a limb of 7
    assert producer.compute(ids).tolist() == [
        *([0, 0, 0], [2, 0, 0], [0, 0, 0], [0, 0, 0]),
        *([4, 0, 0], [5, 4, 0], [6, 5, 4], [7, 6, 5]),
    ]


def test_it_adds_a_vector_for_each_of_them(rng):
    part = make_part(before=2)
    (producer,) = part.producers()
    ids = rng.integers(1, 20, (3, 12)).astype(np.int32)
    channel = np.stack([producer.compute(row) for row in ids])
    tokens = Tokens(ids, *(np.zeros_like(ids) for _ in range(2)), channels={"digits_before": channel})
    vectors = rng.standard_normal((2, 10, 4)).astype(np.float32)
    x = np.asarray(part.apply({"params": {"vectors": vectors}}, tokens))
    digit_of = dict(SYMBOLS) | {3: 7}
    n_added = 0
    for row, values in zip(ids.tolist(), x, strict=True):
        for t, value in enumerate(values):
            expected, j = np.zeros(4), 1
            while row[t] in digit_of and j <= min(2, t) and row[t - j] in digit_of:
                expected += vectors[j - 1, digit_of[row[t - j]]]
                j += 1
            n_added += j - 1
            np.testing.assert_allclose(value, expected, atol=1e-6)
    assert n_added > 5


def test_masking_a_digit_hides_it_from_the_digits_behind_it_too():
    hidden = np.asarray([True, False, False, False, True, False, False])
    position = np.int32([0, 1, 2, 3, 4, 0, 1])  # two examples: the second does not see the first
    assert spread(hidden, position, 2).tolist() == [True, True, True, False, True, False, False]
    assert spread(hidden, position, 0).tolist() == hidden.tolist() and hidden.sum() == 2
    (producer,) = make_part(before=5).producers()
    assert producer.channel.of_ids and producer.channel.reach == 5


def test_a_given_digit_knows_those_behind_it_and_a_written_one_does_not(rng):
    marks = (("[:7]", 3), ("[.]", 4), ("[SEP]", 5))
    part = build("embed", dict(name="digit_ngram", behind=2), dim=4, digit_symbols=SYMBOLS, marks=marks)
    before, behind = part.producers()
    assert part.wants_channels(dict(behind=2)) == ("digits_before", "digits_behind")
    assert behind.channel.ahead == 2 and behind.channel.of_ids and behind.channel.reach == 0
    digit_of = dict(SYMBOLS) | {3: 7, 4: 10}  # the point is the eleventh
    n_given = 0
    for ids in rng.integers(3, 20, (40, 16)).astype(np.int32):
        values, end = behind.compute(ids), [*ids.tolist(), 5].index(5) if 5 in ids else 0
        for t, row in enumerate(values.tolist()):
            run = []
            for token in ids[t:end].tolist():
                if token not in digit_of:
                    break
                run.append(1 + digit_of[token])
            assert row == [*run[1:3], 0, 0][:2]
        n_given += bool(values.any())
        np.testing.assert_array_equal(behind.step((), jnp.asarray(ids), None)[1], np.zeros((16, 2)))
    assert n_given > 5
    ids = np.int32([[11, 4, 12, 5, 11]])
    channels = {"digits_before": before.compute(ids[0])[None], "digits_behind": behind.compute(ids[0])[None]}
    tokens = Tokens(ids, *(np.zeros_like(ids) for _ in range(2)), channels=channels)
    params = {
        "vectors": rng.standard_normal((3, 11, 4)).astype(np.float32),
        "behind_vectors": rng.standard_normal((2, 11, 4)).astype(np.float32),
    }
    x = np.asarray(part.apply({"params": params}, tokens))[0]
    v, w = params["vectors"], params["behind_vectors"]
    expected = [w[0, 10] + w[1, 2], v[0, 1] + w[0, 2], v[0, 10] + v[1, 1], np.zeros(4), np.zeros(4)]
    np.testing.assert_allclose(x, expected, atol=1e-6)


def test_masking_a_digit_hides_it_from_those_before_it_that_know_it():
    hidden = np.asarray([False, False, True, False, False, True, False])
    position = np.int32([0, 1, 2, 3, 0, 1, 2])  # two examples: the first does not see the second
    assert spread(hidden, position, 0, 2).tolist() == [True, True, True, False, True, True, False]
    assert spread(hidden, position, 1, 1).tolist() == [False, True, True, True, True, True, True]


def test_equal_producers_make_one_channel():
    assert Before(SYMBOLS, 3) == Before(SYMBOLS, 3) and Before(SYMBOLS, 3) != Before(SYMBOLS, 2)


@pytest.mark.parametrize(("option", "least", "value"), [("before", 1, 0), ("before", 1, 9), ("behind", 0, -1)])
def test_bad_options_give_one_line(option, least, value):
    with pytest.raises(UsageError, match=f"digit_ngram: {option} must be from {least} to 8, not {value}"):
        make_part(**{option: value}).producers()
    with pytest.raises(UsageError, match="no token of this vocabulary is a digit: split its digits"):
        build("embed", dict(name="digit_ngram"), dim=4).producers()
