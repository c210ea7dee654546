"""Digit aggregation: weights and aggregates against float64 sums over the digits of a decimal string."""

from __future__ import annotations

import statistics
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.embed import digit_sum
from numjax.errors import UsageError
from numjax.nn import digits
from numjax.nn.numerals import from_raw
from numjax.numeral.exact import to_numeral
from tests.drawn import decimals

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


def spelled(value: Decimal) -> str:
    """Digits of a number in positional notation, at most 20, without sign and point."""
    return f"{abs(value.normalize()):f}".replace(".", "")[:20]


def reference(text: str, table, how: str, behind: int = 0) -> np.ndarray:
    """One vector, digit by digit."""
    rows, n = [np.asarray(table, np.float64)[int(c)] for c in text], len(text)
    if how in LISTS:
        return np.asarray([LISTS[how](column) for column in zip(*rows, strict=True)])
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
            }[how]
        )
    return np.asarray(total)


def embedded(module, table, *args) -> np.ndarray:
    return np.asarray(jax.jit(module.apply)({"params": {"table": table}}, *args))


def test_weights_are_those_of_the_equation():
    for n, wanted in WEIGHTS.items():
        found = digit_sum.weights(n)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, wanted, atol=6e-4 if n < 7 else 4e-3)
        np.testing.assert_array_equal(digit_sum.weight_table(9)[n], [*found, *[0] * (9 - n)])
        assert found[0] == pytest.approx(3 * 2 ** (n - 1) / (n + 2))
    sums = [round(float(digit_sum.weights(n).sum()), 2) for n in WEIGHTS]
    assert sums == [1, 1.75, 3.1, 5.55, 10.03, 18.27, 33.51]
    np.testing.assert_array_equal(digit_sum.weights(3, "place"), [100, 10, 1])
    for n in (0, -1):
        with pytest.raises(UsageError, match="at least one digit"):
            digit_sum.weights(n)
    with pytest.raises(UsageError, match="weighted, place, sum, mean, not 'max'"):
        digit_sum.weights(3, "max")


@pytest.mark.parametrize("how", digits.AGGREGATES)
def test_numpy_tables_are_aggregated_in_float64(how, rng):
    table, texts = rng.standard_normal((10, 3)), ["0", "19", "20", "4071", "99999"]
    found, _ = digits.written(to_numeral([Decimal(t) for t in texts]), 8)
    vectors = digits.aggregate(table, found, how)
    assert isinstance(vectors, np.ndarray) and vectors.dtype == np.float64
    np.testing.assert_allclose(vectors, [reference(text, table, how) for text in texts], rtol=1e-12)


@pytest.mark.parametrize("how", digits.AGGREGATES)
def test_an_aggregate_is_that_of_the_written_digits(how, rng):
    values = [Decimal(t) for t in ("0", "-0", "7", "100", "-100", "0.05", "12.5", "1e12", "0.00102", "3e-7")]
    values += decimals(rng, 30, -4, 9)
    table = rng.standard_normal((10, 5)).astype(np.float32)
    for option in ("drop", "exponent"):
        module = digit_sum.Embed(dim=5, aggregate=how, decimals=option)
        for row, value in zip(embedded(module, table, to_numeral(values)), values, strict=True):
            text = spelled(value)
            behind = len(text) - len(str(int(abs(value)))) if option == "exponent" else 0
            wanted = reference(text, table, how, behind)
            np.testing.assert_allclose(row, wanted, rtol=2e-5, atol=2e-6 * np.abs(wanted).max() + 1e-6)


def test_what_does_not_fit_keeps_its_first_digits(rng):
    table = rng.standard_normal((10, 4)).astype(np.float32)
    values = [Decimal("123456"), Decimal("1234567"), Decimal("9e300"), Decimal("0.001234"), Decimal("1e-300")]
    found, behind = digits.written(to_numeral(values, 4), 6)
    wanted = [[1, 2, 3, 5, 0, 0], [1, 2, 3, 5, 0, 0], [9, 0, 0, 0, 0, 0], [0, 0, 0, 1, 2, 3], [0] * 6]
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(behind, [0, 0, 0, 5, 5])
    for got, expected in zip(
        jax.jit(lambda n: digits.written(n, 6))(to_numeral(values, 4)), (found, behind), strict=True
    ):
        np.testing.assert_array_equal(got, expected)
    vectors = digit_sum.Embed(dim=4, longest=6).apply({"params": {"table": table}}, to_numeral(values, 4))
    np.testing.assert_allclose(vectors[2], reference("900000", table, "weighted"), rtol=1e-5)


def test_a_predicted_number_is_read_in_its_decimals():
    raw = from_raw(jnp.float32([1.25, -9.9999999, 0.5]), jnp.int32([2, 0, 3]), 8)
    found, behind = digits.written(raw, 6)
    np.testing.assert_array_equal(found, [[1, 2, 5, -1, -1, -1], [1, 0, -1, -1, -1, -1], [5, 0, 0, -1, -1, -1]])
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
    for row, text in zip(embedded(module, table, numerals, features), wanted, strict=True):
        if text is not None:
            np.testing.assert_allclose(row, reference(text, table, "weighted"), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(features["behind"][[0, 1, 2, 3, 8]], [0, 2, 0, 1, 1])
    assert digit_sum.Embed(dim=4).host_features(numerals, surfaces) == {}


def test_unknown_options_are_named(rng):
    cases = [
        (digit_sum.Embed(aggregate="mode"), "one of weighted"),
        (digit_sum.Embed(decimals="round"), "one of drop"),
    ]
    for module, says in cases:
        with pytest.raises(UsageError, match=says):
            module.init(jax.random.key(0), to_numeral([Decimal(1)]))


def test_digits_of_each_number_are_found_among_the_tokens(rng):
    digit_ids = tuple(int(i) for i in rng.permutation(40)[:10])
    other = [i for i in range(40) if i not in digit_ids]
    ids, index = rng.choice(other, (3, 30)), np.full((3, 30), -1)
    wanted = np.full((3, 4, 5), -1)
    for b in range(3):
        at = 1
        for n in range(3):
            text = [int(d) for d in rng.integers(0, 10, rng.integers(1, 7))]
            for place, digit in enumerate(text):
                if place == 1:  # a point amid the digits belongs to the number
                    index[b, at] = n
                    at += 1
                ids[b, at], index[b, at] = digit_ids[digit], n
                at += 1
            wanted[b, n, : len(text[:5])] = text[:5]
            ids[b, at] = digit_ids[0]  # a digit of no number
            at += 1
    found = jax.jit(lambda i, n: digits.from_ids(i, n, digit_ids, 4, 5))(ids.astype(np.int32), index.astype(np.int32))
    np.testing.assert_array_equal(found, wanted)
