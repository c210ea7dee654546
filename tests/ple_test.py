"""Piecewise linear encoding: the paper's definition in exact fractions, its edges, and numbers beyond them."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from numjax.build import build
from numjax.config import blocks
from numjax.embed import ple
from numjax.errors import UsageError
from numjax.numeral.exact import to_numeral
from tests import drawn

EDGES = (-3.0, 0.0, 0.5, 4.0, 1000.0)


def fill_bins(x: Fraction, edges: tuple[float, ...], outside: str) -> list[float]:
    """The paper's equation, case by case."""
    n_bins, filled = len(edges) - 1, []
    for t in range(1, n_bins + 1):
        low, high = Fraction(edges[t - 1]), Fraction(edges[t])
        if x < low and (t > 1 or outside == "clamp"):
            filled.append(0.0)
        elif x >= high and (t < n_bins or outside == "clamp"):
            filled.append(1.0)
        else:
            filled.append(float((x - low) / (high - low)))
    return filled


@pytest.mark.parametrize("outside", ple.OUTSIDE)
def test_bins_are_those_of_the_paper(outside, rng):
    values = [Decimal(text) for text in ("0", "-0", "1", "-1", "0.5", "4", "-3", "-7.5", "1000", "2500", "0.25")]
    values += [Decimal(int(rng.integers(-5000, 5000))).scaleb(-1) for _ in range(100)]
    part = build("embed", dict(name="ple", dim=0, edges=EDGES, outside=outside))
    numerals = to_numeral(values, 20)
    expected = [fill_bins(Fraction(value), EDGES, outside) for value in values]
    np.testing.assert_allclose(part.host_features(numerals)["bins"], expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(part.apply({}, numerals), expected, rtol=1e-5, atol=1e-6)


def test_narrow_bins_of_large_numbers_are_exact_on_the_host():
    """Two numbers of ten digits have the same float32, but not the same vector."""
    part = build("embed", dict(name="ple", dim=0, edges=(1e9, 1e9 + 1, 1e9 + 2)))
    numerals = to_numeral([Decimal("1000000000.25"), Decimal("1000000001.5")], 20)
    np.testing.assert_allclose(part.host_features(numerals)["bins"], [[0.25, 0], [1, 0.5]], rtol=1e-6)


def test_the_default_edges_are_the_powers_of_ten_of_both_signs():
    assert ple.make_log_edges(-1, 2) == (-100.0, -10.0, -1.0, -0.1, 0.0, 0.1, 1.0, 10.0, 100.0)
    part = build("embed", dict(name="ple", dim=0))
    zero, one, minus, large, larger = part.apply(
        {}, to_numeral(list(map(Decimal, ("0", "1", "-1", "1e12", "1e40"))), 20)
    )
    assert zero.shape == (34,) and float(zero.sum()) == 17
    assert float(one.sum()) == 17 + 5 and float(minus.sum()) == 17 - 5
    np.testing.assert_array_equal(large, larger, err_msg="beyond the last edge all numbers are the same")


@pytest.mark.parametrize(
    ("options", "last", "beyond"),
    [
        ({}, "1e11", "1e12"),
        ({"high": 3}, "-999", "-1001"),
        ({"edges": (-50.0, 0.0, 1000.0)}, "-9.9", "-51"),
        ({"edges": (0.0, 3.0, 1000.0)}, "999", "-1"),
        ({"edges": (3.0, 1000.0)}, "0", "1"),
    ],
)
def test_numbers_beyond_the_edges_are_not_told_apart(options, last, beyond):
    part = build("embed", dict(name="ple", dim=0, **options))
    assert part.number_range.holds(Decimal(last)) and not part.number_range.holds(Decimal(beyond))
    step = Decimal("0.95")
    values = [Decimal(last), Decimal(last) * step, Decimal(beyond), Decimal(beyond) * 2]
    inside, near, outside, far = part.apply({}, to_numeral(values, 20))
    assert (inside != near).any() or not Decimal(last)
    np.testing.assert_array_equal(outside, far)
    assert build("embed", dict(name="ple", outside="linear", **options)).number_range is None


def test_quantiles_hold_equally_many_numbers(rng):
    numbers = rng.lognormal(size=1000)
    edges = ple.make_quantile_edges(numbers, 8)
    counts, _ = np.histogram(numbers, edges)
    assert len(edges) == 9 and edges[0] == numbers.min() and edges[-1] == numbers.max()
    assert counts.min() >= 124 and counts.max() <= 126
    assert ple.make_quantile_edges([1, 1, 1, 1, 1, 1, 1, 2], 4) == (1.0, 2.0), "equal quantiles are one edge"
    written = blocks.parse_block("embed", f"ple:edges={edges}")
    assert tuple(written["edges"]) == edges, "the config holds the edges"


def test_a_matrix_follows_the_bins(rng):
    part = build("embed", dict(name="ple", dim=5, edges=EDGES))
    numerals = to_numeral([Decimal(2), Decimal(-1)], 20)
    params = drawn.draw_params(part, rng, numerals)
    bins = np.asarray([fill_bins(Fraction(x), EDGES, "clamp") for x in (2, -1)])
    np.testing.assert_allclose(part.apply({"params": params}, numerals), bins @ params["kernel"], rtol=1e-5)


@pytest.mark.parametrize("edges", [(1.0,), (2.0, 1.0), (1.0, 1.0), (0.0, float("inf")), (0.0, float("nan"))])
def test_edges_must_rise(edges):
    with pytest.raises(UsageError, match="ple: edges must be at least two numbers, each larger"):
        build("embed", dict(name="ple", edges=edges))


@pytest.mark.parametrize(
    ("numbers", "bins", "line"),
    [([], 4, "two different"), ([3, 3], 4, "two different"), ([1, 2], 0, "one bin"), ([1, np.inf], 2, "finite")],
)
def test_quantiles_of_bad_numbers_are_refused(numbers, bins, line):
    with pytest.raises(UsageError, match=line):
        ple.make_quantile_edges(numbers, bins)


@pytest.mark.parametrize(
    ("options", "line"),
    [(dict(outside="wrap"), "outside must be one of clamp, linear"), (dict(low=5, high=2), "low ≤ high")],
)
def test_bad_options_give_one_line(options, line):
    with pytest.raises(UsageError, match=line):
        build("embed", dict(name="ple") | options)


def test_edges_go_up_to_thirty_powers_of_ten():
    build("embed", dict(name="ple", low=-30, high=30))
    for options in (dict(low=-31), dict(high=31)):
        with pytest.raises(UsageError, match="−30 ≤ low"):
            build("embed", dict(name="ple") | options)
