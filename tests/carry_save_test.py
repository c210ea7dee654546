"""Numbers written place by place: their probabilities by brute force, their rows, and their positions."""

from __future__ import annotations

import itertools
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from numjax.build import build
from numjax.config import fit
from numjax.errors import UsageError
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.protocols import Stack
from numjax.text import vocab as vocabularies
from numjax.text.grammar import automaton as grammars
from numjax.types import HeadOut, Mark, Number, Targets, Text, Tokens, WrittenPlaces
from tests import drawn

NUM, K = drawn.NUM, 8
DIGITS = [(0, 9), (0, 18), (0, 19), (-9, 18)]


def make_head(least: int = 0, most: int = 19, fraction: int = 0, size: int = 1):
    places = WrittenPlaces(-fraction, K + -K % size, least, most, size)
    context = drawn.CONTEXT | {"width": 32, "digits": places.count, "written_places": places}
    return build("heads", {"name": "carry_save"}, **context)


def make_output(head, log_probs: np.ndarray) -> HeadOut:
    """An output with these log-probabilities float[B, T, S] or [B, T, N, S] of digits: hidden states are independent,
    so that a matrix maps them to any logits."""
    count = int(np.prod(log_probs.shape[:2]))
    assert count <= 31, "more positions than independent directions"
    h = np.random.default_rng(0).standard_normal((count, 32)).astype(np.float32)
    inputs, _ = drawn.draw_tokens(np.random.default_rng(0), 1, 8)
    table = np.zeros((drawn.VOCAB, 32), np.float32)
    params = head.init(jax.random.key(0), h[:, None], inputs, table)["params"]
    out = head.apply({"params": params}, h.reshape(*log_probs.shape[:2], 32), inputs, table)
    normed = (h - h.mean(-1, keepdims=True)) / np.sqrt(h.var(-1, keepdims=True) + 1e-5)
    kernel = np.linalg.lstsq(normed, log_probs.reshape(count, -1), rcond=None)[0]
    return out._replace(weights=dict(out.weights) | {"number_kernel": jnp.asarray(kernel, jnp.float32)})


def make_targets(rows: list[list[tuple[Decimal | int, int]]]) -> Targets:
    """Rows of (number, its positions), with a token that is no number before each."""
    length = max(sum(1 + places for _, places in row) for row in rows)
    ids, index = np.ones((len(rows), length), np.int32), np.full((len(rows), length), -1, np.int32)
    values = np.zeros((len(rows), length), object)
    for b, row in enumerate(rows):
        start = 0
        for i, (value, places) in enumerate(row):
            end = start + 1 + places
            ids[b, start + 1 : end], index[b, start + 1 : end], values[b, start + 1 : end] = NUM, i, value
            start = end
    numerals = [to_numeral([Decimal(value) for value in row], K) for row in values]
    return Targets(ids, index >= 0, index, jax.tree.map(lambda *x: np.stack(x), *numerals))


def score(head, log_probs, targets) -> np.ndarray:
    """The log-probability of the numbers of each row, float[B]."""
    return np.asarray(head._number_parts(make_output(head, log_probs), targets)["digits"].sum(-1))


def draw_log_probs(rng, shape, least: int, most: int) -> np.ndarray:
    return special.log_softmax(rng.standard_normal((*shape, most - least + 1)) * 2, axis=-1)


def sum_strings(log_probs: np.ndarray, least: int) -> dict[int, float]:
    """The probability of each number, over all strings, in float64."""
    values, logs = np.zeros(1, np.int64), np.zeros(1)
    for place, row in enumerate(log_probs):
        values = np.add.outer(values, (np.arange(len(row)) + least) * 10**place).ravel()
        logs = np.add.outer(logs, row).ravel()
    numbers, index = np.unique(values, return_inverse=True)
    return dict(zip(numbers.tolist(), np.bincount(index, np.exp(logs)).tolist(), strict=True))


@pytest.mark.parametrize(
    ("digits", "value", "places", "loss"),
    [
        ((0, 19), 12, 2, 5.298317),
        ((0, 19), 100, 3, 7.888585),
        ((0, 19), 199, 3, 7.600902),
        ((0, 19), 0, 4, 11.982929),
        ((-9, 18), 12, 2, 5.565797),
        ((-9, 18), 199, 3, 8.610319),
        ((-9, 18), 0, 4, 11.249376),
        ((0, 18), 199, 3, 8.833317),
    ],
)
def test_uniform_digits_have_the_losses_of_a_count(digits, value, places, loss):
    head = make_head(*digits)
    uniform = np.full((1, places + 1, head.kind.count), -np.log(head.kind.count))
    assert -score(head, uniform, make_targets([[(value, places)]]))[0] == pytest.approx(loss, abs=2e-5)


@pytest.mark.parametrize("digits", DIGITS, ids=str)
@pytest.mark.parametrize("places", [1, 2, 3, 4])
def test_the_probability_of_a_number_is_the_sum_over_its_strings(digits, places, rng):
    """Two numbers of a row at once, also below 0; all numbers from −10^P to 10^P − 1 that the digits reach."""
    head = make_head(*digits)
    logs = draw_log_probs(rng, (1, 2 * places + 2), *digits)
    first = sum_strings(logs[0, 1 : places + 1], digits[0])
    second = sum_strings(logs[0, places + 2 :], digits[0])
    low = -(10**places) if digits[0] < 0 else 0
    chosen = [v for v in rng.permutation(list(first)).tolist() if low <= v < 10**places][:20]
    others = [v for v in rng.permutation(list(second)).tolist() if low <= v < 10**places][:20]
    out = make_output(head, logs)
    pairs = list(zip(chosen, others, strict=False))
    out = out._replace(hidden=jnp.broadcast_to(out.hidden, (len(pairs), *out.hidden.shape[1:])))
    parts = head._number_parts(out, make_targets([[(a, places), (b, places)] for a, b in pairs]))["digits"]
    np.testing.assert_allclose(parts[:, : places + 1].sum(-1), np.log([first[a] for a, _ in pairs]), atol=2e-4)
    np.testing.assert_allclose(parts[:, places + 1 :].sum(-1), np.log([second[b] for _, b in pairs]), atol=2e-4)


@pytest.mark.parametrize("digits", [(0, 9), (0, 19), (-9, 18)], ids=str)
def test_the_probability_of_limbs_is_the_sum_over_their_strings(digits, rng):
    """A number of three places at one position, and with digits that hold no carry one of six places at two."""
    head = make_head(*digits, size=3)
    positions = 1 + (digits == (0, 9))
    logs = draw_log_probs(rng, (1, 3 + positions, 3), *digits)
    first = sum_strings(logs[0, 1], digits[0])
    second = sum_strings(logs[0, 3:].reshape(3 * positions, -1), digits[0])
    low = -1000 if digits[0] < 0 else 0
    chosen = [v for v in rng.permutation(list(first)).tolist() if low <= v < 1000][:20]
    others = [v for v in rng.permutation(list(second)).tolist() if low <= v < 1000**positions][:20]
    out, pairs = make_output(head, logs), list(zip(chosen, others, strict=True))
    out = out._replace(hidden=jnp.broadcast_to(out.hidden, (len(pairs), *out.hidden.shape[1:])))
    parts = head._number_parts(out, make_targets([[(a, 1), (b, positions)] for a, b in pairs]))["digits"]
    np.testing.assert_allclose(parts[:, :2].sum(-1), np.log([first[a] for a, _ in pairs]), atol=2e-4)
    np.testing.assert_allclose(parts[:, 2:].sum(-1), np.log([second[b] for _, b in pairs]), atol=2e-4)


def test_a_written_limb_is_the_sum_of_its_likeliest_digits(rng):
    head = make_head(-9, 18, size=3)
    logs = draw_log_probs(rng, (1, 6, 3), -9, 18)
    out = make_output(head, logs)
    numerals, _ = head.number(out._replace(hidden=out.hidden[0]), None)
    expected = ((logs[0].argmax(-1) - 9) * [1, 10, 100]).sum(-1)
    assert [int(value or 0) for value in to_decimals(numerals)] == expected.tolist()


def test_the_probabilities_of_all_numbers_of_a_length_sum_to_one(rng):
    """With digits that hold no carry, and with others less what is above the highest place."""
    for least, most, places in [(0, 9, 2), (0, 19, 2), (-9, 18, 2)]:
        head = make_head(least, most)
        logs = draw_log_probs(rng, (1, places + 1), least, most)
        sums = sum_strings(logs[0, 1:], least)
        values = range(-(10**places) if least < 0 else 0, 10**places)
        targets = make_targets([[(value, places)] for value in values])
        many = make_output(head, logs)
        many = many._replace(hidden=jnp.broadcast_to(many.hidden, (len(values), *many.hidden.shape[1:])))
        total = np.exp(np.asarray(head._number_parts(many, targets)["digits"], np.float64).sum(-1)).sum()
        beyond = sum(p for value, p in sums.items() if value not in values)
        assert total == pytest.approx(1 - beyond, rel=1e-4)
        assert beyond < 1e-9 or most > 9


def test_a_string_and_its_resolved_form_have_one_loss(rng):
    head = make_head(-9, 18)
    for _ in range(10):
        string = [*rng.integers(-9, 19, 4).tolist(), int(rng.integers(-8, 9))]
        value = sum(s * 10**i for i, s in enumerate(string))
        top, rest = divmod(value, 10**4)
        resolved = [*(rest // 10**i % 10 for i in range(4)), top]
        if not -9 <= top <= 18:
            continue
        losses = []
        for digits in (string, resolved):
            logs = np.full((1, 6, 28), -60.0)
            logs[0, np.arange(1, 6), np.asarray(digits) + 9] = 0
            losses.append(-float(score(head, logs, make_targets([[(value, 5)]]))[0]))
            assert float(score(head, logs, make_targets([[(value + 1, 5)]]))[0]) < -20
        np.testing.assert_allclose(losses, 0, atol=1e-3)


def test_the_written_digits_are_the_likeliest_string(rng):
    """No other string of digits, of all that there are, has a higher probability."""
    head = make_head(-9, 18, fraction=1)
    logs = draw_log_probs(rng, (1, 3), -9, 18)
    out = make_output(head, logs)
    numerals, _ = head.number(out._replace(hidden=out.hidden[0]), None)
    written = [int(value) for value in to_decimals(numerals) if value is not None]
    best = max(
        itertools.product(range(-9, 19), repeat=3), key=lambda string: sum(logs[0, np.arange(3), np.add(string, 9)])
    )
    assert written == list(best)
    drawn_numbers, _ = head.number(out._replace(hidden=jnp.repeat(out.hidden[0, :1], 4000, 0)), jax.random.key(0))
    counts = np.bincount(np.asarray([int(v or 0) + 9 for v in to_decimals(drawn_numbers)]), minlength=28)
    expected = np.exp(logs[0, 0]) * 4000
    assert ((counts - expected) ** 2 / np.maximum(expected, 1e-9)).sum() < 27 + 6 * np.sqrt(54)


def test_the_gradient_is_that_of_finite_differences(rng):
    head, targets = make_head(-9, 18), make_targets([[(-104, 3), (7, 2)]])
    logs = draw_log_probs(rng, (1, 7), -9, 18)
    out = make_output(head, logs)

    def loss(kernel):
        weights = dict(out.weights) | {"number_kernel": kernel}
        return head._number_parts(out._replace(weights=weights), targets)["digits"].sum()

    kernel = out.weights["number_kernel"]
    gradient = jax.grad(loss)(kernel)
    direction = jnp.asarray(rng.standard_normal(kernel.shape), jnp.float32)
    direction /= jnp.linalg.norm(direction)
    slope = (loss(kernel + 0.02 * direction) - loss(kernel - 0.02 * direction)) / 0.04
    assert float((gradient * direction).sum()) == pytest.approx(float(slope), abs=3e-3)
    sharp = make_output(head, np.where(np.arange(28) == 14, 0.0, -1e4) * np.ones((1, 7, 1)))
    grads = jax.grad(lambda h: head._number_parts(sharp._replace(hidden=h), targets)["digits"].sum())(sharp.hidden)
    assert np.isfinite(grads).all(), "the number has no string that the head can write"


def test_jit_is_eager_and_a_batch_is_its_rows(rng):
    head = make_head(-9, 18)
    targets = make_targets([[(-12, 2), (35, 3)], [(999, 4)], [(0, 1), (-1, 2)]])
    out = make_output(head, draw_log_probs(rng, targets.ids.shape, -9, 18))
    expected = head._number_parts(out, targets)["digits"]
    np.testing.assert_allclose(jax.jit(head._number_parts)(out, targets)["digits"], expected, rtol=1e-5, atol=1e-6)
    with jax.disable_jit():
        np.testing.assert_allclose(head._number_parts(out, targets)["digits"], expected, rtol=1e-5, atol=1e-6)

    def one(hidden, row):
        return head._number_parts(out._replace(hidden=hidden), row)["digits"]

    rows = [one(out.hidden[b], jax.tree.map(lambda x, b=b: x[b], targets)) for b in range(3)]
    np.testing.assert_allclose(np.stack(rows), expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(jax.vmap(one)(out.hidden, targets), expected, rtol=1e-5, atol=1e-6)


def test_numbers_with_more_places_than_digits_are_kept_are_refused():
    head = build("heads", {"name": "carry_save"}, **drawn.CONTEXT, written_places=WrittenPlaces(0, 30, 0, 19))
    with pytest.raises(UsageError, match=r"set config\.data\.digits=30"):
        _ = head.layout


# ---------------------------------------------------------------------------------------------------
# The scheme.


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 320, "split_digits": True}, ["12 + 3.4 = 15.4 - 7e3"])


def make_scheme(vocabulary, **options):
    return build("text", {"name": "carry_save"} | options, vocab=vocabulary)


def make_row(scheme, question: str, answer: str):
    document = (
        Mark("[CLS]"),
        *scheme.parse(question),
        Mark("[SEP]"),
        Text(" "),
        *scheme.parse(answer),
        Mark("[EOS]"),
    )
    return scheme.encode(document), document


def test_the_ids_depend_on_the_question_alone(vocabulary):
    scheme = make_scheme(vocabulary, digits="-9..19", fraction=2)
    rows = [make_row(scheme, "123 + 45 =", answer)[0].ids.tolist() for answer in ("168", "0", "-7", "9.25", "1000")]
    assert all(row == rows[0] for row in rows)
    assert rows[0].count(scheme.vocab.mark("[NUM]")) == 3 + 1 + 2
    product = make_scheme(vocabulary, room="sum")
    assert make_row(product, "123 * 45 =", "5535")[0].ids.tolist().count(scheme.vocab.mark("[NUM]")) == 5
    assert make_row(scheme, "1 + 2 =", "12345")[0].ids.tolist().count(scheme.vocab.mark("[NUM]")) == 5 + 2
    limbs = make_scheme(vocabulary, size=3, places=9, fraction=3)
    for question, answer, count in (("12 + 3 =", "15", 1), ("123 + 4 =", "127", 2), ("1 + 2 =", "123456", 2)):
        row = make_row(limbs, question, answer)[0].ids.tolist()
        assert row.count(limbs.vocab.mark("[NUM]")) == 1 + count


@pytest.mark.parametrize(
    "answer", ["0", "7", "-12", "0.5", "12.25", "007", "1.50", "1e3", "1,234", "50%", "99999", "-0"]
)
def test_every_answer_comes_back_and_obeys_the_grammar(vocabulary, answer):
    for options in (
        {"digits": "-9..19", "fraction": 2},
        {"places": 3},
        {"digits": "-9..19", "places": 9, "fraction": 3, "size": 3},
    ):
        scheme = make_scheme(vocabulary, **options)
        features, document = make_row(scheme, "12 + 3 =", answer)
        assert scheme.decode(features.ids, features.numbers) == document
        assert grammars.validate(scheme.grammar(), features.ids) is None
        written = features.ids.tolist().count(scheme.vocab.mark("[R]"))
        is_held = scheme.holds(features.numbers[-1])
        assert written == is_held
    assert make_scheme(vocabulary, digits="-9..19", fraction=2).holds(Number(answer, Decimal(1))) == (
        answer == "1"
    ), "the value of a surface is that of its rules"


def test_only_numbers_behind_the_chosen_mark_are_written_in_places(vocabulary):
    vocabulary = vocabulary.with_marks(["[X]"])
    for until in ("[SEP]", "[X]"):
        scheme = make_scheme(vocabulary, until=until)
        numbers = scheme.parse("12")
        features = scheme.encode((*numbers, Mark(until), *numbers))
        spelled = [set(scheme.vocab.decode(features.ids[features.numeral_index == i])) & set("12") for i in (0, 1)]
        assert spelled == [set("12"), set()], until


def test_a_sign_needs_digits_below_zero_and_a_value(vocabulary):
    signed, plain = (make_scheme(vocabulary, digits=digits) for digits in ("-9..18", "0..19"))
    numbers = {text: Number(text, Decimal(text)) for text in ("-1", "-17", "-0", "0", "1")}
    assert [text for text in numbers if signed.holds(numbers[text])] == ["-1", "-17", "0", "1"]
    assert [text for text in numbers if plain.holds(numbers[text])] == ["0", "1"]


@pytest.mark.parametrize("fraction", [0, 7])
def test_a_sum_of_more_digits_than_python_writes_is_a_number(fraction, vocabulary):
    scheme = make_scheme(vocabulary, places=5000, fraction=fraction)
    opening, num_id, closing = (scheme.vocab.mark(name) for name in ("[R]", "[NUM]", "[/R]"))
    (number,) = scheme.join_numbers([opening, *[num_id] * 4400, closing], [Decimal(i % 9 + 1) for i in range(4400)])
    text = "".join(str(i % 9 + 1) for i in reversed(range(4400)))
    assert number.surface == (f"{text[:-fraction]}.{text[-fraction:]}" if fraction else text)


def test_digits_become_numbers_with_their_carries(vocabulary, rng):
    scheme = make_scheme(vocabulary, digits="-9..18", fraction=2)
    opening, num_id, closing = (scheme.vocab.mark(name) for name in ("[R]", "[NUM]", "[/R]"))
    for _ in range(50):
        strings = [rng.integers(-9, 19, rng.integers(3, 9)).tolist() for _ in range(2)]
        ids = [i for string in strings for i in (opening, *[num_id] * len(string), closing)]
        spelled = scheme.encode(scheme.parse("7")).ids.tolist()
        values = [Decimal(s) for string in strings for s in string]
        numbers = scheme.join_numbers([num_id, *spelled, *ids], [Decimal(5), *values])
        sums = [sum(Decimal(s).scaleb(i - 2) for i, s in enumerate(string)) for string in strings]
        assert [number.value for number in numbers] == [7, *sums]
        assert all(Decimal(number.surface) == number.value for number in numbers)
        assert scheme.decode([*spelled, *ids], numbers) == tuple(numbers)
        assert all(scheme.holds(number) for number in numbers)
    limbs = make_scheme(vocabulary, digits="-9..18", places=21, size=3)
    number_ids = [limbs.vocab.mark(name) for name in ("[R]", "[NUM]", "[NUM]", "[/R]")]
    (number,) = limbs.join_numbers(number_ids, [Decimal(1_005), Decimal(-7)])
    assert number.value == 1_005 - 7_000, "a limb is worth a thousand of the one before it"
    cut = (Mark("[R]"), Mark("[NUM]"))
    assert scheme.decode([opening, num_id]) == cut, "a number without its end is none"
    assert scheme.join_numbers([opening, num_id], [Decimal(3)]) == []
    assert scheme.decode([opening, closing]) == (Mark("[R]"), Mark("[/R]"))


def test_an_answer_of_one_number_is_written_in_places(vocabulary):
    scheme = make_scheme(vocabulary).answering("number")
    grammar = scheme.generation_grammar()
    features, _ = make_row(make_scheme(vocabulary), "12 + 3 =", "15")
    begin = features.ids.tolist().index(scheme.vocab.mark("[SEP]")) + 1
    state = int(grammar.answer)
    for token in features.ids[begin:]:
        column = grammar.class_of[token]
        assert grammar.next_state[state, column] >= 0 and not grammar.given[state, column]
        state = int(grammar.next_state[state, column])
    assert grammar.accept[state]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"places": 0}, "places must be from 1"),
        ({"places": 3, "fraction": 3}, "fraction below it"),
        ({"digits": "0..8"}, "must be a range that holds"),
        ({"digits": "1..9"}, "must be a range that holds"),
        ({"digits": "0-9"}, "must be a range that holds"),
        ({"room": "all"}, "room must be one of longest, sum"),
        ({"size": 2}, "size must be 1 or 3 places"),
        ({"size": 3}, "places and fraction multiples of it, not size=3, places=20"),
        ({"size": 3, "places": 9, "fraction": 1}, "multiples of it.*fraction=1"),
    ],
)
def test_options_out_of_range_are_refused(vocabulary, options, message):
    with pytest.raises(UsageError, match=message):
        make_scheme(vocabulary, **options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("heads.next=carry",), "a .NUM. for each decimal place.*head carry_save"),
        (("heads.next=token",), "does not say which: choose head carry_save"),
        (("scheme=replace",), "for each number.*scheme carry_save"),
        (("+embeds.numeral=fone",), "of what is still to be written"),
    ],
)
def test_parts_that_do_not_fit_are_refused(words, message):
    from numjax.bundled.configs import schemes
    from numjax.config import blocks

    config = blocks.apply_changes(schemes.get_config("carry_save"), words)
    with pytest.raises(UsageError, match=message):
        fit.check(config, build("tasks", config.task))


# ---------------------------------------------------------------------------------------------------
# Its positions.


def make_positions(scheme, name: str = "coupled", **options):
    symbols = tuple((scheme.vocab.encode(digit)[0], int(digit)) for digit in "0123456789")
    marks = tuple((mark, scheme.vocab.mark(mark)) for mark in scheme.vocab.marks)
    context = {"digit_symbols": symbols, "marks": marks, "num_id": scheme.vocab.mark("[NUM]")}
    context |= scheme.aggregation() | {"point_ids": tuple(scheme.vocab.encode("."))}
    return build("positions", {"name": name} | options, **context).clone(stack=Stack(width=8, heads=2, size=4))


@pytest.mark.parametrize("ahead", [False, True])
def test_the_places_of_given_and_written_digits_meet(vocabulary, ahead):
    """The digit for 10^k has position k + 2 − lowest, on either side of a point; what is written there too."""
    scheme = make_scheme(vocabulary, fraction=2)
    features, _ = make_row(scheme, "12.5 + 3.25 =", "15.75")
    (producer,) = make_positions(scheme, ahead=ahead).producers()
    channel = producer.compute(features.ids)
    names = [scheme.vocab.mark_name(int(i)) or scheme.vocab.decode([int(i)]) for i in features.ids]
    end = names.index("[SEP]")
    given = [(name, int(place)) for name, place in zip(names[:end], channel[:end, 0], strict=True) if name.isdigit()]
    assert given == [("1", 5), ("2", 4), ("5", 3), ("3", 4), ("2", 3), ("5", 2)]
    written = [int(place) for name, place in zip(names, channel[:, 0], strict=True) if name == "[NUM]"]
    assert written == [place + ahead for place in range(2, 7)]
    assert channel[names.index("[R]"), 0] == (2 if ahead else 1)
    state, steps = producer.begin(1), []
    for token in features.ids:
        state, value = producer.step(state, jnp.asarray([token]), None)
        steps.append(np.asarray(value)[0])
    np.testing.assert_array_equal(np.stack(steps)[end:], channel[end:])


@pytest.mark.parametrize("ahead", [False, True])
def test_a_limb_meets_the_lowest_of_its_places(vocabulary, ahead):
    scheme = make_scheme(vocabulary, size=3, places=9, fraction=3)
    features, _ = make_row(scheme, "12345.5 + 3.25 =", "12348.75")
    (producer,) = make_positions(scheme, ahead=ahead).producers()
    channel = producer.compute(features.ids)
    names = [scheme.vocab.mark_name(int(i)) or scheme.vocab.decode([int(i)]) for i in features.ids]
    given = [int(place) for name, place in zip(names, channel[:, 0], strict=True) if name.isdigit()]
    assert given == [9, 8, 7, 6, 5, 4, 5, 4, 3], "the digit for 10^k has position k + 2 + 3"
    written = [int(place) for name, place in zip(names, channel[:, 0], strict=True) if name == "[NUM]"]
    assert written == [place + 3 * ahead for place in (2, 5, 8)]
    assert channel[names.index("[R]"), 0] == (2 if ahead else 1)
    # A number that the places do not hold is spelled: its digits have one place each.
    spelled, _ = make_row(scheme, "12 + 3 =", "0015")
    places = producer.compute(spelled.ids)[:, 0][-6:-2].tolist()
    assert places == [place + ahead for place in (2, 3, 4, 5)]
    for ids in (features.ids, spelled.ids):
        (start,) = np.flatnonzero(ids == scheme.vocab.mark("[SEP]"))
        state, steps = producer.begin(1), []
        for token in ids:
            state, value = producer.step(state, jnp.asarray([token]), None)
            steps.append(np.asarray(value)[0])
        np.testing.assert_array_equal(np.stack(steps)[start:], producer.compute(ids)[start:])


def test_a_bias_knows_only_how_far_places_are_apart(vocabulary):
    part = make_positions(make_scheme(vocabulary), "coupled_bias", span=2, numbers=2, gain=3.0)
    channel = np.asarray([[1, 0], [9, 1], [4, 1], [3, 1], [2, 1], [3, 2], [0, 0]], np.int32)[None]
    tokens = Tokens(*(np.zeros(channel.shape[:2], np.int32) for _ in range(3)), channels={"significance": channel})
    variables = part.init(jax.random.key(0), tokens, method="added")
    index = part.apply(variables, tokens, method="bias_index")
    table = np.arange(6.0)[:, None] + np.asarray([0, 10])  # distances −2 … 2 and others, by head
    variables = {"params": variables["params"] | {"distances": jnp.asarray(table, jnp.float32)}}
    bias = np.asarray(part.apply(variables, index, index, method="bias"))
    assert bias.shape == (1, 2, 7, 7)
    np.testing.assert_array_equal(bias[:, 1], bias[:, 0] + 30)
    for q, k in itertools.product(range(7), repeat=2):
        places = channel[0, [q, k], 0]
        expected = 5 if places.min() < 2 else min(max(places[1] - places[0], -2), 2) + 2
        assert bias[0, 0, q, k] == 3 * expected
    added, levels = np.asarray(part.apply(variables, tokens, method="added"))[0], variables["params"]["levels"]
    np.testing.assert_array_equal(added[1:6], levels[channel[0, 1:6, 1] - 1])
    assert not added[[0, 6]].any()
    none = make_positions(make_scheme(vocabulary), "coupled_bias", span=2)
    assert not np.asarray(none.apply({"params": {"distances": table}}, tokens, method="added")).any()
    with pytest.raises(UsageError, match="span must be at least 1"):
        none.clone(span=0).init(jax.random.key(0), tokens, method="added")
