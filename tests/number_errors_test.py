"""Errors of numbers against reference values, and against plain formulas in floats."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from numjax.metrics.number_errors import expected_calibration_error, log_error, log_smape, relative_error


@pytest.mark.parametrize(
    ("value", "gold", "expected"),
    [
        *(("100", "110", 0.088148), ("1", "1.000001", 0.420069), ("123.456", "123.457", 0.359503)),
        *(("5", "5", 1), ("0", "0", 1), ("3", "-3", 0), ("0", "7", 0), ("7", "0", 0), ("-2", "1", 0)),
    ],
)
def test_log_smape_has_the_published_values(value, gold, expected):
    assert log_smape(Decimal(value), Decimal(gold)) == pytest.approx(expected, abs=5e-7)


def test_log_smape_is_symmetric_and_keeps_its_scale(rng):
    for a, b in rng.normal(size=(200, 2)):
        x, y = Decimal(float(a)), Decimal(float(b))
        assert log_smape(x, y) == log_smape(y, x)
        assert log_smape(x.scaleb(9), y.scaleb(9)) == pytest.approx(log_smape(x, y), abs=1e-12)


@pytest.mark.parametrize(
    ("value", "gold", "expected"),
    [("11", "10", 0.1), ("-10", "10", 2), ("3", "0", 3), ("0.03", "0.00", 3), ("0", "0", 0), ("0.5", "0.25", 1)],
)
def test_the_relative_error_of_zero_is_in_units_of_its_last_digit(value, gold, expected):
    assert relative_error(Decimal(value), Decimal(gold)) == pytest.approx(expected)


def test_the_error_of_the_logarithm_leaves_out_wrong_signs_and_zeros(rng):
    for a, b in 10 ** rng.uniform(-9, 9, (200, 2)):
        expected = abs(math.log10(a) - math.log10(b))
        assert log_error(Decimal(float(a)), Decimal(float(b))) == pytest.approx(expected)
        assert log_error(-Decimal(float(a)), -Decimal(float(b))) == pytest.approx(expected)
    assert log_error(Decimal(0), Decimal("-0.0")) == 0
    assert [log_error(Decimal(v), Decimal(g)) for v, g in (("1", "-1"), ("0", "1"), ("1", "0"))] == [None] * 3


@pytest.mark.parametrize("text", ["3e999999999", "-3e-999999999", "1e99999999999999"])
def test_numbers_of_any_size_have_errors(text):
    value, gold = Decimal(text), Decimal(46)
    assert relative_error(value, gold) >= 0 and 0 <= log_smape(value, gold) <= 1
    assert (log_error(value, gold) or 0) >= 0


def test_calibration_is_perfect_where_shares_are_the_probabilities():
    probabilities = [0.25] * 4 + [0.75] * 4
    assert expected_calibration_error(probabilities, [1, 0, 0, 0, 1, 1, 1, 0]) == pytest.approx(0)
    assert expected_calibration_error(probabilities, [0, 0, 0, 0, 1, 1, 1, 1]) == pytest.approx(0.25)
    assert expected_calibration_error([1.0, 1.0, 0.9], [0, 0, 0]) == pytest.approx(2.9 / 3)
    with pytest.raises(ValueError, match="no answer has a probability"):
        expected_calibration_error([], [])
