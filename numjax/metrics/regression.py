"""Metrics of answers that are measurements: R², and the scaled error of forecasts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal

LEAST_R2 = -1.0
WORST_ERROR = 10.0


def r_squared(values: Sequence[Decimal | None], golds: Sequence[Decimal]) -> float:
    """1 − Σ(value − gold)² / Σ(gold − mean gold)², at least −1, so that one absurd answer does not hide all others.

    No number counts as the mean, which is worth 0. Equal golds have no variance: the result is 1 if all values are
    right, else −1.
    """
    if not golds:
        return 0.0
    truth = [float(gold) for gold in golds]
    mean = sum(truth) / len(truth)
    numbers = [mean if value is None else float(value) for value in values]
    # A product overflows to infinity; a power would raise an error.
    residual = sum((number - gold) * (number - gold) for number, gold in zip(numbers, truth, strict=True))
    total = sum((gold - mean) * (gold - mean) for gold in truth)
    if not total:
        return LEAST_R2 if residual else 1.0
    return max(1 - residual / total, LEAST_R2)


def scaled_error(value: Decimal | None, gold: Decimal, history: Sequence[Decimal]) -> float:
    """|value − gold| over the mean step of the history: 1 is what repeating the last value costs on average.

    The mean over problems is MASE. No number, and an error that is larger, count as 10. A history without steps has
    error 0 if the value is right, else 10.

    Source: Hyndman and Koehler 2006, Another look at measures of forecast accuracy.
    """
    if value is None:
        return WORST_ERROR
    steps = [abs(float(after) - float(before)) for before, after in itertools.pairwise(history)]
    error, mean = abs(float(value) - float(gold)), sum(steps) / max(len(steps), 1)
    if not mean:
        return WORST_ERROR if error else 0.0
    return min(error / mean, WORST_ERROR)
