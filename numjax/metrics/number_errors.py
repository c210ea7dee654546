"""How far a number is from the right one: relative error, error of the logarithm, log-sMAPE; and calibration.

Numbers are exact decimals of any size; only the result is a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal

EXACT = Context(prec=60, Emax=MAX_EMAX, Emin=MIN_EMIN)
DECADES = 15  # log-sMAPE of 1 is an agreement to so many digits
TINY = 1e-100  # keeps the quotient and the logarithm of log-sMAPE finite
BINS = 10


def relative_error(value: Decimal, gold: Decimal) -> float:
    """|value − gold| / max(|gold|, ε), with ε one unit of the last digit that `gold` is written with."""
    quantum = Decimal((0, (1,), min(0, int(gold.as_tuple().exponent))))
    size = max(EXACT.abs(gold), quantum)
    return float(EXACT.divide(EXACT.abs(EXACT.subtract(value, gold)), size))


def log_error(value: Decimal, gold: Decimal) -> float | None:
    """|log₁₀|value| − log₁₀|gold||, 0 where both are 0; None for a wrong sign or where one of them is 0."""
    if not value and not gold:
        return 0.0
    if not value or not gold or (value < 0) != (gold < 0):
        return None
    return float(EXACT.abs(EXACT.subtract(EXACT.log10(EXACT.abs(value)), EXACT.log10(EXACT.abs(gold)))))


def log_smape(value: Decimal, gold: Decimal) -> float:
    """The share of 15 digits to which two numbers agree, from 0 (opposite signs) to 1 (equal).

    It is min(1, −log₁₀(|v − g| / (|v| + |g| + 10⁻¹⁰⁰) + 10⁻¹⁰⁰) / 15).

    Source: the score of BitTokens (Kreitner et al. 2025, arXiv 2510.06824).
    """
    total = EXACT.add(EXACT.add(EXACT.abs(value), EXACT.abs(gold)), Decimal(TINY))
    ratio = float(EXACT.divide(EXACT.abs(EXACT.subtract(value, gold)), total))
    return min(1.0, max(0.0, -math.log10(ratio + TINY) / DECADES))


def expected_calibration_error(probabilities: Sequence[float], outcomes: Sequence[float], bins: int = BINS) -> float:
    """The mean over answers of |share of right answers − mean probability| of the bin that an answer is in.

    Args:
      probabilities: of the answers, as the model states them. outcomes: 1 where the answer is right, else 0.
      bins: number of bins of equal width.

    Raises:
      ValueError: there are no answers.

    Source: Naeini et al. 2015; Guo et al. 2017, arXiv 1706.04599, eq. 3.
    """
    if not probabilities:
        raise ValueError("no answer has a probability")
    gaps = [0.0] * bins
    for probability, outcome in zip(probabilities, outcomes, strict=True):
        gaps[min(int(probability * bins), bins - 1)] += outcome - probability
    return sum(map(abs, gaps)) / len(probabilities)
