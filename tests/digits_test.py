"""Digit aggregation: weights and aggregates against float64 sums over the digits of a decimal string."""

from __future__ import annotations

import statistics
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from numjax import numeral
from numjax.build import build
from numjax.embed import digit_sum
from numjax.errors import UsageError
from numjax.nn import digits
from numjax.nn.numerals import from_mantissa
from numjax.numeral.exact import to_numeral
from numjax.pipeline.batch import from_features
from numjax.pipeline.features import encode
from numjax.text import digits as scheme_of_digits
from numjax.text import vocab as vocabularies
from numjax.types import Mark
from tests.drawn import draw_decimals

# Facts of the paper's eq. 1, to three digits.
WEIGHTS = {
    1: (1,),
    2: (1.5, 0.25),
    3: (2.4, 0.6, 0.1),
    4: (4, 1.2, 0.3, 0.05),
    5: (6.857, 2.286, 0.686, 0.171, 0.029),
    6: (12, 4.286, 1.429, 0.429, 0.107, 0.018),
    7: (21.33, 8, 2.857, 0.952, 0.286, 0.071, 0.012),
}
LISTS = {"max": max, "min": min, "median": statistics.median}


def spell_number(value: Decimal) -> str:
    """Returns the digits of a number in positional notation, at most 20, without sign and point."""
    return f"{abs(value.normalize()):f}".replace(".", "")[:20]


def aggregate_slowly(text: str, table, method: str, behind: int = 0) -> np.ndarray:
    """Computes one vector, digit by digit."""
    rows, n = [np.asarray(table, np.float64)[int(c)] for c in text], len(text)
    if method in LISTS:
        return np.asarray([LISTS[method](column) for column in zip(*rows, strict=True)])
    total = 0.0
    for i, row in enumerate(rows, 1):
        triangle = 3 * (n + 1 - i) * (n + 2 - i) / (n * (n + 1) * (n + 2))
        total = (
            total
            + row
            * {
                "weighted": 2.0 ** (n - i - behind) * triangle,
                "place": 10.0 ** (n - i - behind),
                "sum": 1.0,
                "mean": 1 / n,
            }[method]
        )
    return np.asarray(total)


def apply_embedding(module, table, *args) -> np.ndarray:
    return np.asarray(jax.jit(module.apply)({"params": {"table": table}}, *args))


def test_weights_are_those_of_the_equation():
    for n, expected in WEIGHTS.items():
        weights = digits.weights(n)
        assert weights.dtype == np.float64
        np.testing.assert_allclose(weights, expected, atol=6e-4 if n < 7 else 4e-3)
        np.testing.assert_array_equal(digits.weight_table(9)[n], [*weights, *[0] * (9 - n)])
        assert weights[0] == pytest.approx(3 * 2 ** (n - 1) / (n + 2))
    sums = [round(float(digits.weights(n).sum()), 2) for n in WEIGHTS]
    assert sums == [1, 1.75, 3.1, 5.55, 10.03, 18.27, 33.51]
    np.testing.assert_array_equal(digits.weights(3, "place"), [100, 10, 1])
    for n in (0, -1):
        with pytest.raises(UsageError, match="at least one digit"):
            digits.weights(n)
    with pytest.raises(UsageError, match="weighted, place, sum, mean, not 'max'"):
        digits.weights(3, "max")


@pytest.mark.parametrize("method", digits.AGGREGATES)
def test_numpy_tables_are_aggregated_in_float64(method, rng):
    table, texts = rng.standard_normal((10, 3)), ["0", "19", "20", "4071", "99999"]
    digit_rows, _ = digits.positional_digits(to_numeral([Decimal(t) for t in texts]), 8)
    vectors = np.asarray(digits.aggregate(table, digit_rows, method))
    assert vectors.dtype == np.float64
    np.testing.assert_allclose(vectors, [aggregate_slowly(text, table, method) for text in texts], rtol=1e-12)


@pytest.mark.parametrize("method", digits.AGGREGATES)
def test_an_aggregate_is_that_of_the_written_digits(method, rng):
    values = [Decimal(t) for t in ("0", "-0", "7", "100", "-100", "0.05", "12.5", "1e12", "0.00102", "3e-7")]
    values += draw_decimals(rng, 30, -4, 9)
    table = rng.standard_normal((10, 5)).astype(np.float32)
    for option in ("drop", "exponent"):
        module = digit_sum.Embed(dim=5, aggregate=method, decimals=option)
        for row, value in zip(apply_embedding(module, table, to_numeral(values)), values, strict=True):
            text = spell_number(value)
            behind = len(text) - len(str(int(abs(value)))) if option == "exponent" else 0
            expected = aggregate_slowly(text, table, method, behind)
            np.testing.assert_allclose(row, expected, rtol=2e-5, atol=2e-6 * np.abs(expected).max() + 1e-6)


def test_long_numbers_keep_their_first_digits(rng):
    table = rng.standard_normal((10, 4)).astype(np.float32)
    values = [Decimal("123456"), Decimal("1234567"), Decimal("9e300"), Decimal("0.001234"), Decimal("1e-300")]
    digit_rows, behind = digits.positional_digits(to_numeral(values, 4), 6)
    expected = [[1, 2, 3, 5, 0, 0], [1, 2, 3, 5, 0, 0], [9, 0, 0, 0, 0, 0], [0, 0, 0, 1, 2, 3], [0] * 6]
    np.testing.assert_array_equal(digit_rows, expected)
    np.testing.assert_array_equal(behind, [0, 0, 0, 5, 5])
    device_result = jax.jit(lambda n: digits.positional_digits(n, 6))(to_numeral(values, 4))
    np.testing.assert_array_equal(device_result[0], digit_rows)
    np.testing.assert_array_equal(device_result[1], behind)
    vectors = apply_embedding(digit_sum.Embed(dim=4, longest=6), table, to_numeral(values, 4))
    np.testing.assert_allclose(vectors[2], aggregate_slowly("900000", table, "weighted"), rtol=1e-5)


def test_a_predicted_number_gives_the_digits_of_its_decimals():
    predictions = from_mantissa(jnp.float32([1.25, -9.9999999, 0.5]), jnp.int32([2, 0, 3]), 8, 5)
    digit_rows, behind = digits.positional_digits(predictions, 6)
    np.testing.assert_array_equal(digit_rows, [[1, 2, 5, -1, -1, -1], [1, 0, -1, -1, -1, -1], [5, 0, 0, -1, -1, -1]])
    np.testing.assert_array_equal(behind, 0)


def test_digits_as_written_keep_their_zeros(rng):
    surfaces = ["007", "2.50", "1,200", "-$3.0", "50%", "", "twelve", "1.5e3", ".5", "12345678"]
    values = [Decimal(t) for t in ("7", "2.5", "1200", "-3", "0.5")] + [None]
    values += [Decimal(12), Decimal(1500), Decimal("0.5"), Decimal(12345678)]
    wanted = ["007", "250", "1200", "30", "50", None, "12", "1500", "5", "123456"]
    table = rng.standard_normal((10, 4)).astype(np.float32)
    module = digit_sum.Embed(dim=4, written=True, longest=6)
    numerals = to_numeral(values)
    features = module.host_features(numerals, surfaces)
    for row, text in zip(apply_embedding(module, table, numerals, features), wanted, strict=True):
        if text is not None:
            np.testing.assert_allclose(row, aggregate_slowly(text, table, "weighted"), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(features["behind"][[0, 1, 2, 3, 8]], [0, 2, 0, 1, 1])
    assert digit_sum.Embed(dim=4).host_features(numerals, surfaces) == {}


def test_unknown_options_are_refused(rng):
    cases = [
        (digit_sum.Embed(aggregate="mode"), "one of weighted"),
        (digit_sum.Embed(decimals="round"), "one of drop"),
    ]
    for module, message in cases:
        with pytest.raises(UsageError, match=message):
            module.init(jax.random.key(0), to_numeral([Decimal(1)]))


def test_digits_of_each_number_come_from_the_tokens(rng):
    digit_ids = tuple(int(i) for i in rng.permutation(40)[:10])
    other = [i for i in range(40) if i not in digit_ids]
    ids, index = rng.choice(other, (3, 30)), np.full((3, 30), -1)
    expected = np.full((3, 4, 5), -1)
    for b in range(3):
        column = 1
        for n in range(3):
            text = [int(d) for d in rng.integers(0, 10, rng.integers(1, 7))]
            for position, digit in enumerate(text):
                if position == 1:  # a point between the digits belongs to the number
                    index[b, column] = n
                    column += 1
                ids[b, column], index[b, column] = digit_ids[digit], n
                column += 1
            expected[b, n, : len(text[:5])] = text[:5]
            ids[b, column] = digit_ids[0]  # a digit of no number
            column += 1
    digit_rows = jax.jit(lambda i, n: digits.from_ids(i, n, digit_ids, 4, 5))(
        ids.astype(np.int32), index.astype(np.int32)
    )
    np.testing.assert_array_equal(digit_rows, expected)


# ---------------------------------------------------------------------------------------------------
# The scheme's layouts, and the vector of [AGG].

TEXT = "Sam had 12.5 kg, then 007 more"


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 320}, [TEXT, "It cost 100 in 2019."] * 3)


def show_tokens(scheme, document) -> str:
    """Shows a row as text: blanks around marks and digits, none between the pieces of words."""
    row = scheme.encode(document)
    assert scheme.decode(row.ids, row.numbers) == document
    out = ""
    for token in row.ids.tolist():
        name = scheme.vocab.mark_name(token)
        spell_number = scheme.vocab.decode([token])
        out += f" {name} " if name else f" {spell_number} " if spell_number in "0123456789." else spell_number
    return " ".join(out.split())


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ("plain", "Sam had 1 2 . 5 kg, then 0 0 7 more [SEP] 1 9 [EOS]"),
        ("digits", "Sam had [F] 1 2 . 5 [/F] kg, then [F] 0 0 7 [/F] more [SEP] [F] 1 9 [/F] [EOS]"),
        ("agg", "Sam had [F] [AGG] 1 2 . 5 [/F] kg, then [F] [AGG] 0 0 7 [/F] more [SEP] [F] 1 9 [/F] [EOS]"),
        ("agg_after", "Sam had [F] 1 2 . 5 [AGG] [/F] kg, then [F] 0 0 7 [AGG] [/F] more [SEP] [F] 1 9 [/F] [EOS]"),
        ("pause", "Sam had [F] [PAUSE] 1 2 . 5 [/F] kg, then [F] [PAUSE] 0 0 7 [/F] more [SEP] [F] 1 9 [/F] [EOS]"),
    ],
)
def test_layouts_write_exactly_these_tokens(vocabulary, layout, expected):
    scheme = scheme_of_digits.Scheme(vocabulary, layout=layout)
    document = (*scheme.parse(TEXT), Mark("[SEP]"), *scheme.parse("19"), Mark("[EOS]"))
    assert show_tokens(scheme, document) == expected
    row, marks = scheme.encode(document), {scheme.vocab.mark(m): m for m in scheme.marks}
    number_indices = {
        marks[i]: n for i, n in zip(row.ids.tolist(), row.numeral_index.tolist(), strict=True) if i in marks
    }
    assert all((n >= 0) == (mark == "[AGG]") for mark, n in number_indices.items()), (
        "only [AGG] belongs to its number"
    )
    full_scheme = scheme_of_digits.Scheme(vocabulary, layout=layout, until="")
    if layout in ("agg", "agg_after", "pause"):
        layout_marks = [m for m in scheme.marks if m not in ("[F]", "[/F]")]
        ids = full_scheme.encode(document).ids.tolist()
        assert [ids.count(full_scheme.vocab.mark(m)) for m in layout_marks] == [3]
        assert show_tokens(full_scheme, document) != expected


def test_marks_of_a_layout_are_given_except_pauses_in_the_whole_text(vocabulary):
    for mark, until, is_given in (
        ("agg", "[SEP]", True),
        ("agg", "", True),
        ("pause", "[SEP]", True),
        ("pause", "", False),
    ):
        scheme = scheme_of_digits.Scheme(vocabulary, layout=mark, until=until)
        grammar, mark = scheme.grammar(), scheme.vocab.mark(f"[{mark.upper()}]")
        is_allowed = grammar.next_state[:, grammar.class_of[mark]] >= 0
        assert is_allowed.sum() == 1 and grammar.given[is_allowed, grammar.class_of[mark]].all() == is_given
    with pytest.raises(UsageError, match=r"layout must be one of plain, digits, agg, .*value_alone, not 'aggr'"):
        scheme_of_digits.Scheme(vocabulary, layout="aggr")


@pytest.mark.parametrize(("layout", "until"), [("agg", ""), ("agg_after", "[SEP]"), ("pause", "")])
def test_a_text_to_generate_holds_no_aggregate(vocabulary, layout, until):
    """In generation, an aggregate would precede its digits; in training, it would reveal them."""
    scheme = scheme_of_digits.Scheme(vocabulary, layout=layout, until=until)
    records = [{"id": "a", "text": "It was 125, then 987."}]
    options = ConfigDict({"length": 64, "overflow": "skip", "digits": 5, "pack": False})
    task = build("tasks", {"name": "language_model", "path": "x"})
    if layout == "pause":
        assert len(encode(task, scheme, records, options, "train")) == 1
    else:
        with pytest.raises(UsageError, match="in the text to be written"):
            encode(task, scheme, records, options, "train")


def test_the_papers_rule_finds_the_numbers_of_its_expression():
    text = "-5 to 1,234.5, then 1.2.3 and .75; 10% of \u0663 or 2."
    spans = numeral.find(text, "digits")
    assert [span.text for span in spans] == ["5", "1", "234.5", "1.2", ".3", ".75", "10", "2"]
    assert [span.value for span in spans] == [Decimal(span.text) for span in spans]
    assert all(text[span.start : span.end] == span.text for span in spans)


@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("method", ["weighted", "max"])
def test_agg_is_the_aggregate_of_the_current_digit_vectors(vocabulary, rng, method, gradient):
    scheme = scheme_of_digits.Scheme(vocabulary, layout="agg")
    tokens = from_features([scheme.encode(scheme.parse(t)) for t in (TEXT, "100 or 2019.", "none")], 8).inputs
    aggregation = scheme.aggregation()
    options = dict(name="digit_aggregate", dim=6, aggregate=method, gradient=gradient)
    module = build("embed", options, vocab_size=scheme.vocab_size, **aggregation)
    table = rng.standard_normal((scheme.vocab_size, 6)).astype(np.float32)
    vectors = apply_embedding(module, table, tokens)
    digit_rows = table[list(aggregation["digit_ids"])]
    is_agg = np.asarray(tokens.ids) == aggregation["agg_id"]
    expected = [aggregate_slowly(text, digit_rows, method) for text in ("125", "007", "100", "2019")]
    np.testing.assert_allclose(vectors[is_agg], expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(vectors[~is_agg], table[np.asarray(tokens.ids)[~is_agg]])

    def loss(table):
        return (jnp.where(is_agg[..., None], module.apply({"params": {"table": table}}, tokens), 0) ** 2).sum()

    changed_ids = np.flatnonzero(np.asarray(jax.jit(jax.grad(loss))(table)).any(-1))
    digit_ids = {aggregation["digit_ids"][int(d)] for d in "12570019"}
    assert set(changed_ids.tolist()) <= digit_ids and bool(len(changed_ids)) == gradient
    if method == "weighted" and gradient:
        assert set(changed_ids.tolist()) == digit_ids
