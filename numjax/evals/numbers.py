"""The numbers that a head predicts, as text, and how far they are to be trusted."""

from __future__ import annotations

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


def value_of(tree: Tree) -> str | None:
    """What an equation x = … gives, or an expression: an exact decimal, p/q where there is none, or the digits of a
    float; None where it has no value."""
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
            return str(value)


class Predicted(NamedTuple):
    """A number that a head predicted.

    Attributes:
      surface, value: as in the text. raw: as the head gave it, where it approximates; else the value.
      interval: {"share", "low", "high"} where the head is approximate: the central share of its predictive
        distribution of the mantissa (`Estimate`), at the exponent that the number is written with. That
        is the likeliest one, unless decoding samples; how likely it is has no part in the interval.
    """

    surface: str
    value: Decimal
    raw: Decimal
    interval: dict[str, Any] | None = None

    def trust(self) -> dict[str, Any]:
        """{"approximate": True, "interval": …}; empty where nothing of the kind is known."""
        return {} if self.interval is None else {"approximate": True, "interval": self.interval}


def predicted(done: Generated, row: int) -> list[Predicted]:
    """The numbers of a row of what was written, in order."""
    if done.numerals is None:
        return []
    at = np.flatnonzero(done.numerals.valid[row, : int(done.length[row])])
    values, numbers = _decimals(done.numerals, row, at), []
    estimate = done.estimates
    for place, value in zip(at.tolist(), values, strict=True):
        raw, interval = value, None
        if estimate is not None:
            raw = scaled(np.float32(estimate.mantissa[row, place]), int(estimate.exponent[row, place]))
            low, high = (_decimals(end, row, [place])[0] for end in (estimate.low, estimate.high))
            share = round(float(estimate.share[row, place]), 6)
            interval = {"share": share, "low": formats.format(low), "high": formats.format(high)}
        numbers.append(Predicted(formats.format(value), value, raw, interval))
    return numbers


def _decimals(numerals: Numeral, row: int, places: Any) -> list[Decimal]:
    """The numbers at some places of a row, without an exponent while they are not too long for it."""
    chosen = Numeral(*(np.asarray(x)[row, places] for x in numerals))._replace(valid=np.ones(len(places), bool))
    found = (value for value in to_decimals(chosen) if value is not None)
    return [Decimal(f"{value:f}") if abs(value.adjusted()) < 60 else value for value in found]


def scaled(mantissa: np.floating, exponent: int) -> Decimal:
    """mantissa · 10^exponent, with the shortest digits that give the float32 mantissa."""
    return shift(Decimal(str(mantissa)), exponent)
