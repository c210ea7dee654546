"""FoNE: the phases of its paper, and numbers that its head returns exactly."""

from __future__ import annotations

from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.configs import numgpt
from numjax.errors import UsageError
from numjax.heads import fone
from numjax.nn import fourier
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut, Targets, Tokens
from tests import drawn
from tests.swapped import train_with_changes

PUBLISHED = {
    ("18", 3, 0): [(0.309017, -0.951057), (0.425779, 0.904827), (0.993611, 0.112856)],
    ("4.17", 2, 2): [(-0.309017, -0.951057), (0.481754, 0.876307), (-0.867071, 0.498185), (0.965872, 0.259021)],
}
NUMBERS = ["0", "-0", "7", "-7", "0.001", "-123.4567", "999999999", "100000", "0.0001", "123456789.1234"]


@pytest.mark.parametrize(("text", "integer", "fraction"), list(PUBLISHED))
def test_phases_are_those_of_the_paper(text, integer, fraction):
    part = build("embed", dict(name="fone", integer=integer, fraction=fraction, signed=False))
    phases = part.apply({}, to_numeral([Decimal(text)], 20))[0].reshape(-1, 2)
    np.testing.assert_allclose(phases, PUBLISHED[text, integer, fraction], rtol=0, atol=6e-7)


@pytest.mark.parametrize("bases", [(10,), (2, 5), (16, 10), (7, 13)])
def test_a_phase_is_the_remainder_by_its_period(bases, rng):
    """Compares with exact decimals: the remainder of a large number in float32 would be noise."""
    values = [Decimal(int(rng.integers(0, 10**13))).scaleb(-4) for _ in range(200)]
    all_phases = np.asarray(fourier.phases(to_numeral(values, 20), 9, 4, bases))
    for value, phases in zip(values, all_phases, strict=True):
        periods = [[base * Decimal(10) ** k for base in bases] for k in range(-4, 9)]
        expected = [[float(value % period / period) for period in row] for row in periods]
        np.testing.assert_allclose(phases, expected, atol=1e-6)


def test_the_bases_2_and_5_have_the_published_periods():
    """2, 5, 20, 50, … 20000, 50000 for five digits: the features of 18, in float64."""
    part = build("embed", dict(name="fone", integer=5, fraction=0, signed=False, bases="2+5"))
    features = part.apply({}, to_numeral([Decimal(18)], 20))[0].reshape(-1, 2)
    angles = 2 * np.pi * 18 / np.asarray([2, 5, 20, 50, 200, 500, 2000, 5000, 20000, 50000])
    np.testing.assert_allclose(features, np.stack([np.cos(angles), np.sin(angles)], -1), atol=2e-6)


@pytest.mark.parametrize("bases", ["2", "9", "3+6", "1+10", "0", "2+", "ten", "", "2.5+4"])
def test_bases_that_do_not_tell_digits_apart_are_refused(bases):
    with pytest.raises(UsageError, match="bases="):
        fourier.parse_bases(bases)
    with pytest.raises(UsageError, match="bases="):
        build("embed", dict(name="fone", bases=bases)).apply({}, to_numeral([Decimal(0)], 20))


def test_zero_and_both_signs_have_different_vectors():
    part = build("embed", dict(name="fone"))
    zero, plus, minus = part.apply({}, to_numeral([Decimal(0), Decimal(5), Decimal(-5)], 20))
    assert len({tuple(np.round(x, 4).tolist()) for x in (zero, plus, minus)}) == 3 and np.abs(zero).max() == 1
    with pytest.raises(UsageError, match="27 features do not fit dim=8"):
        build("embed", dict(name="fone", dim=8)).apply({}, to_numeral([Decimal(0)], 20))


def test_digits_at_other_places_are_ignored():
    """A number beyond the places, which the range says, has the vector of its other digits."""
    part = build("embed", dict(name="fone", integer=3, fraction=1))
    beyond, other = ["1007", "-2000.5", "0.04"], ["7", "-0.5", "0"]
    assert not any(part.number_range.holds(Decimal(text)) for text in beyond)
    vectors = [part.apply({}, to_numeral(list(map(Decimal, texts)), 20)) for texts in (beyond, other)]
    np.testing.assert_array_equal(*vectors)


def make_head(**options):
    return build("heads", dict(name="fone") | options, **(drawn.CONTEXT | {"width": 32, "digits": 20}))


def test_no_distribution_is_stated_of_more_places_than_a_numeral_keeps():
    """Several strings of digits would be written as one number, whose mass would be that of one of them."""
    head = make_head(integer=20)
    for ask in (
        lambda: head.number_log_mass(None, None),
        lambda: head.find_quantiles(jnp.zeros((24, 10)), None, None, jnp.zeros(1)),
    ):
        with pytest.raises(UsageError, match=r"fone: numbers have 24 places, and 20 .*set config\.data\.digits=24"):
            ask()


CODES = fourier.code_digits((10,))


def make_perfect_output(texts: list[str], projected: bool = True) -> tuple[fone.Head, HeadOut]:
    """Returns a head, and an output in which it is certain of these numbers."""
    head = make_head(projected=projected)
    numerals = to_numeral([Decimal(text) for text in texts], 20)
    h = np.zeros((len(texts), 32), np.float32)
    for row, text in enumerate(texts):
        sign, digits, exponent = Decimal(text).as_tuple()
        for i, digit in enumerate(reversed(digits)):
            digit_index = i + int(exponent) + head.fraction
            if 0 <= digit_index < head.places:
                h[row, 2 * digit_index : 2 * digit_index + 2] = CODES[:, digit]
        h[row, [2 * p for p in range(head.places) if not h[row, 2 * p : 2 * p + 2].any()]] = 1
        h[row, 2 * head.places] = -1 if sign else 1
    inputs, _ = drawn.draw_tokens(np.random.default_rng(0), len(texts), 8)
    params = head.init(jax.random.key(0), h[:, None], inputs, np.zeros((drawn.VOCAB, 32), np.float32))["params"]
    params["number_scale"] = params["number_scale"] * 100
    if projected:
        params["number_kernel"] = jnp.eye(32)[:, : 2 * head.places + 1]
    # The norm subtracts the mean: the dimensions after the 27 features balance it.
    h[:, 27:] = -h[:, :27].sum(1, keepdims=True) / 5
    out = head.apply({"params": params}, h, inputs, np.zeros((drawn.VOCAB, 32), np.float32))
    del numerals
    return head, out


@pytest.mark.parametrize("projected", [True, False])
def test_a_certain_head_returns_every_number(projected, rng):
    texts = NUMBERS + [str(Decimal(int(rng.integers(-(10**13), 10**13))).scaleb(-4)) for _ in range(60)]
    head, out = make_perfect_output(texts, projected)
    numeral, estimate = jax.jit(lambda hidden: head.number(out._replace(hidden=hidden), None))(out.hidden)
    assert estimate is None
    assert to_decimals(numeral) == [Decimal(text) for text in texts]
    assert [d.is_signed() for d in to_decimals(numeral)] == [Decimal(text).is_signed() for text in texts]
    assert all(head.represents(Decimal(text)) for text in texts)
    assert not any(head.represents(Decimal(text)) for text in ("1e9", "0.00001", "-1e-5", "1e20"))
    parts = head.number_log_prob(out, to_numeral([Decimal(text) for text in texts], 20))
    assert all(float(part.min()) > -0.05 for part in parts.values()), "a certain number is likely"


def test_the_likelihood_is_that_of_every_digit_by_itself(rng):
    head = make_head(integer=2, fraction=1)
    h = rng.standard_normal((3, 12, 32)).astype(np.float32)
    inputs, _ = drawn.draw_tokens(rng, 3, 12)
    table = rng.standard_normal((drawn.VOCAB, 32)).astype(np.float32)
    params = drawn.draw_params(head, rng, h, inputs, table)
    out = head.apply({"params": params}, h, inputs, table)
    total = np.zeros((3, 12))
    for value in range(-999, 1000):
        numerals = to_numeral([Decimal(value).scaleb(-1)] * 36, 20)
        parts = head.number_log_prob(out, jax.tree.map(lambda x: x.reshape(3, 12, *x.shape[1:]), numerals))
        total += np.exp(np.asarray(parts["digits"] + parts["sign"], np.float64))
    minus_zero = to_numeral([Decimal("-0")] * 36, 20)
    parts = head.number_log_prob(out, jax.tree.map(lambda x: x.reshape(3, 12, *x.shape[1:]), minus_zero))
    total += np.exp(np.asarray(parts["digits"] + parts["sign"], np.float64))
    np.testing.assert_allclose(total, 1, rtol=1e-4)


def test_a_digit_is_likely_if_its_pair_points_its_way(rng):
    """softmax over j of h_i · (cos 2πj/10, sin 2πj/10), with h_i the i-th pair of the normed hidden state."""
    head = make_head(integer=2, fraction=1, projected=False, signed=False)
    h = rng.standard_normal((4, 32))
    inputs, _ = drawn.draw_tokens(rng, 4, 12)
    table = np.zeros((drawn.VOCAB, 32), np.float32)
    hidden = h.astype(np.float32)
    params = head.init(jax.random.key(0), hidden[:, None], inputs, table)["params"]
    out = head.apply({"params": params}, hidden, inputs, table)
    values = ["0", "0.7", "34.5", "98.1"]
    pairs = ((h - h.mean(-1, keepdims=True)) / h.std(-1, keepdims=True))[:, :6].reshape(4, 3, 2)
    angles = 2 * np.pi * np.arange(10) / 10
    logits = pairs @ np.stack([np.cos(angles), np.sin(angles)])
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    digits = [[int(Decimal(text).scaleb(1)) // 10**i % 10 for i in range(3)] for text in values]
    expected = [sum(log_probs[row, i, d] for i, d in enumerate(row_digits)) for row, row_digits in enumerate(digits)]
    parts = head.number_log_prob(out, to_numeral(list(map(Decimal, values)), 20))
    assert list(parts) == ["digits"]
    np.testing.assert_allclose(parts["digits"], expected, rtol=1e-4)


def test_a_digit_of_two_bases_is_likely_by_both_remainders(rng):
    """The logit of j is h_2 · (cos πj, sin πj) + h_5 · (cos 2πj/5, sin 2πj/5)."""
    head = make_head(integer=1, fraction=1, projected=False, signed=False, bases="2+5")
    h, table = rng.standard_normal((4, 32)), np.zeros((drawn.VOCAB, 32), np.float32)
    inputs, _ = drawn.draw_tokens(rng, 4, 12)
    hidden = h.astype(np.float32)
    params = head.init(jax.random.key(0), hidden[:, None], inputs, table)["params"]
    out = head.apply({"params": params}, hidden, inputs, table)
    normed = ((h - h.mean(-1, keepdims=True)) / h.std(-1, keepdims=True))[:, :8].reshape(4, 2, 2, 2)
    j = np.arange(10)
    logits = sum(
        normed[:, :, i, :1] * np.cos(2 * np.pi * j / base) + normed[:, :, i, 1:] * np.sin(2 * np.pi * j / base)
        for i, base in enumerate((2, 5))
    )
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    values = ["0", "0.7", "4.5", "8.1"]
    digits = [(int(Decimal(text).scaleb(1)) % 10, int(Decimal(text))) for text in values]
    expected = [log_probs[row, 0, low] + log_probs[row, 1, high] for row, (low, high) in enumerate(digits)]
    parts = head.number_log_prob(out, to_numeral(list(map(Decimal, values)), 20))
    np.testing.assert_allclose(parts["digits"], expected, rtol=1e-4)


def test_a_number_too_large_for_the_digits_counts_as_the_largest():
    head, out = make_perfect_output(["999999999.9999"] * 2)
    numerals = to_numeral([Decimal("1e15"), Decimal("999999999.9999")], 20)
    first, second = head.number_log_prob(out, numerals)["digits"]
    assert first == pytest.approx(float(second)) and first > -0.05


def test_as_published_zero_has_the_features_of_text():
    values = to_numeral([Decimal("0"), Decimal("-0"), Decimal("10"), Decimal("-3")], 20)
    vectors = np.asarray(build("embed", dict(name="fone", zero_as_text=True)).apply({}, values))
    plain = np.asarray(build("embed", dict(name="fone")).apply({}, values))
    assert not vectors[:2].any() and plain[:2].any()
    np.testing.assert_array_equal(vectors[2:], plain[2:])


def test_features_wider_than_the_hidden_states_are_refused():
    inputs = Tokens(*(np.zeros((1, 4), np.int32) for _ in range(3)))
    table = np.zeros((drawn.VOCAB, 32), np.float32)
    with pytest.raises(UsageError, match="33 features do not fit a width of 32"):
        make_head(projected=False, integer=12).init(
            jax.random.key(0), np.zeros((1, 4, 32), np.float32), inputs, table
        )


def test_targets_without_numbers_score_only_tokens(rng):
    head = make_head()
    h = rng.standard_normal((2, 12, 32)).astype(np.float32)
    inputs, _ = drawn.draw_tokens(rng, 2, 12)
    table = rng.standard_normal((drawn.VOCAB, 32)).astype(np.float32)
    out = head.apply({"params": drawn.draw_params(head, rng, h, inputs, table)}, h, inputs, table)
    assert set(head.log_prob(out, Targets(inputs.ids, inputs.ids > 0))) == {"token"}


@pytest.mark.whole
def test_a_config_with_fone_trains_scores_and_generates(tmp_path):
    words = "embeds.numeral=fone:integer=7,fraction=2", "heads.next=fone:integer=7,fraction=2"
    model, metrics = train_with_changes(tmp_path, numgpt.get_config("smoke,task=generation"), *words)
    assert {"next/digits", "next/sign", "next/token"} <= set(metrics) and metrics["NGR"] == 1
    generation = model.generate("Q: 3 and 4 are how many? A:", max_tokens=6)
    assert len(generation.numbers) == 1 and Decimal(generation.numbers[0]["value"]) == Decimal(
        generation.text.strip()
    )
    assert model.embed("12.5").shape == (model.system.model.backbone.width,)
