"""The numbers that a head predicts, as text: exact digits on the host, and how far they are to be trusted."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal, Inexact, localcontext
from typing import Any, NamedTuple

import numpy as np

from numjax.decode.sample import Generated
from numjax.expr.arithmetic import Unevaluable
from numjax.expr.evaluate import solve
from numjax.expr.tree import Tree
from numjax.numeral import format as formats
from numjax.numeral.exact import shift

DIGITS = 5  # significant digits of a number in text, unless the head says otherwise


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
      surface, value: as in the text, rounded. raw: as the head gave it.
      interval: {"share", "low", "high"} where the head is approximate: the central share of its predictive
        distribution of the mantissa (`interval` of the head), at the exponent that the number is written with. That
        is the likeliest one, unless decoding samples; how likely it is has no part in the interval.
    """

    surface: str
    value: Decimal
    raw: Decimal
    interval: dict[str, Any] | None = None

    def trust(self) -> dict[str, Any]:
        """{"approximate": True, "interval": …}; empty where nothing of the kind is known."""
        return {} if self.interval is None else {"approximate": True, "interval": self.interval}


def predicted(done: Generated, row: int, head: Any) -> list[Predicted]:
    """The numbers of a row of what was written, in order."""
    numerals, keep = done.numerals, getattr(head, "keep", DIGITS)
    if numerals is None:
        return []
    numbers = []
    for t in np.flatnonzero(numerals.valid[row, : int(done.length[row])]).tolist():
        exponent = int(numerals.exponent[row, t])
        raw = scaled(np.float32(numerals.digits[row, t, 0]) * np.float32(numerals.sign[row, t]), exponent)
        value, interval = rounded(raw, keep), None
        if done.bounds is not None:
            low, high = (formats.format(rounded(scaled(end, exponent), keep)) for end in done.bounds[row, t])
            interval = {"share": head.share, "low": low, "high": high}
        numbers.append(Predicted(formats.format(value), value, raw, interval))
    return numbers


def scaled(mantissa: np.floating, exponent: int) -> Decimal:
    """mantissa · 10^exponent, with the shortest digits that give the float32 mantissa."""
    return shift(Decimal(str(mantissa)), exponent)


def rounded(value: Decimal, keep: int) -> Decimal:
    """`value` to `keep` significant digits, half-even, without trailing zeros behind the point."""
    if not value:
        return Decimal(0)
    with localcontext(prec=keep, rounding=ROUND_HALF_EVEN) as context:
        value = context.plus(value).normalize(context)
    return Decimal(f"{value:f}") if abs(value.adjusted()) < 60 else value
