"""The numbers that a head predicts, as text, and their uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, Inexact, localcontext
from typing import Any, NamedTuple

import numpy as np

from numjax.decode.sample import Generated
from numjax.expr.arithmetic import Unevaluable
from numjax.expr.evaluate import solve
from numjax.expr.tree import Tree
from numjax.numeral import format as formats
from numjax.numeral.exact import shift, to_decimals
from numjax.types import Numeral

# Where an interval comes from: a density of the number, or one of its mantissa, given the exponent.
DENSITY, MANTISSA = "density", "mantissa"


def value_of(tree: Tree) -> str | None:
    """The value of an expression or of an equation x = …: an exact decimal, else a fraction p/q, or the digits of a
    float; None if it has no value."""
    try:
        value = solve(tree)
    except Unevaluable:
        return None
    if isinstance(value, complex):
        return None
    if isinstance(value, float):
        return f"{value:.12g}"
    with localcontext(prec=60) as context:
        context.traps[Inexact] = True
        try:
            return formats.format(context.divide(Decimal(value.numerator), Decimal(value.denominator)))
        except Inexact:
            # A Decimal writes whole numbers of any length; str of an int ends at 4,300 digits.
            return f"{Decimal(value.numerator)}/{Decimal(value.denominator)}".removesuffix("/1")


class PredictedNumber(NamedTuple):
    """A number that a head predicted.

    Attributes:
      surface, value: as in the text. raw: the head's unrounded value if it approximates, else the value.
      interval: {"share", "low", "high"} if the head approximates: the central share of its predictive
        distribution (`Estimate`).
      method: `DENSITY` if this distribution is that of the number. `MANTISSA` if it is that of the mantissa at the
        exponent that the number is written with: the likeliest one, unless decoding samples. The interval does not
        include the exponent's probability.
    """

    surface: str
    value: Decimal
    raw: Decimal
    interval: dict[str, Any] | None = None
    method: str = ""

    def uncertainty(self) -> dict[str, Any]:
        """{"approximate": True, "intervals": [interval], "method": …}; empty if the head is exact."""
        if self.interval is None:
            return {}
        return {"approximate": True, "intervals": [self.interval], "method": self.method}


def predicted_numbers(generated: Generated, row: int, densities: Sequence[str] = ()) -> list[PredictedNumber]:
    """The numbers of a generated row, in order; `densities` are those of the head."""
    if generated.numerals is None:
        return []
    positions = np.flatnonzero(generated.numerals.valid[row, : int(generated.length[row])])
    values, numbers = _decimals(generated.numerals, row, positions), []
    estimate = generated.estimates
    for position, value in zip(positions.tolist(), values, strict=True):
        raw, interval = value, None
        if estimate is not None:
            raw = scale_mantissa(np.float32(estimate.mantissa[row, position]), int(estimate.exponent[row, position]))
            low, high = (_decimals(end, row, [position])[0] for end in (estimate.low, estimate.high))
            share = round(float(estimate.share[row, position]), 6)
            interval = {"share": share, "low": formats.format(low), "high": formats.format(high)}
        method = MANTISSA if MANTISSA in densities else DENSITY
        numbers.append(PredictedNumber(formats.format(value), value, raw, interval, method))
    return numbers


def _decimals(numerals: Numeral, row: int, positions: Any) -> list[Decimal]:
    """The numbers at some positions of a row, without an exponent unless they are very large or small."""
    selected = Numeral(*(np.asarray(x)[row, positions] for x in numerals))._replace(
        valid=np.ones(len(positions), bool)
    )
    decimals = (value for value in to_decimals(selected) if value is not None)
    return [Decimal(f"{value:f}") if abs(value.adjusted()) < 60 else value for value in decimals]


def scale_mantissa(mantissa: np.floating, exponent: int) -> Decimal:
    """mantissa · 10^exponent, with the shortest digits that give the float32 mantissa."""
    return shift(Decimal(str(mantissa)), exponent)
