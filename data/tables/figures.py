"""Numbers of tables: how large they are, and how they are written."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from .draw import Draw


class Kind(NamedTuple):
    """Numbers from `low` to `high`, so many decimal places; `spread`: how far those of one column lie apart, a factor
    (0: anywhere); signed: some are negative."""

    low: float
    high: float
    places: int = 0
    spread: float = 3.0
    signed: bool = False


KINDS = {
    "few": Kind(0, 12, 0, 0),
    "count": Kind(1, 60, 0, 0),
    "score": Kind(10, 900, 0),
    "mark": Kind(35, 100, 0, 0),
    "age": Kind(8, 67, 0, 1.6),
    "big": Kind(300, 90_000, 0),
    "huge": Kind(10_000, 9_000_000, 0),
    "money": Kind(40, 90_000, 0),
    "signed": Kind(40, 20_000, 0, 3, True),
    "price": Kind(0.5, 200, 2),
    "tenth": Kind(1, 900, 1),
    "rating": Kind(1, 10, 1, 0),
    "percent": Kind(0.5, 95, 1, 2.5),
    "temperature": Kind(-12, 39, 1, 0),
    "year": Kind(1790, 2012, 0, 0),
}
UNGROUPED = ("year", "age", "few", "count", "mark")


class Style(NamedTuple):
    """How the numbers of a measure are written.

    Attributes:
      places: decimals. grouped: "1,200". brackets: "(35)" for −35.
      before, after: a sign of currency, a unit, in each cell; first: in the first row alone.
      round_to: whole numbers are multiples of it.
    """

    places: int
    grouped: bool = True
    brackets: bool = False
    before: str = ""
    after: str = ""
    first: bool = False
    round_to: int = 1


def style(kind: str, draw: Draw, brackets: bool, grouped: bool) -> Style:
    """A way of writing, without units."""
    known = KINDS[kind]
    places = known.places
    if kind in ("money", "signed") and draw.chance(0.25):
        places = draw.whole(1, 2)
    if kind == "percent" and draw.chance(0.3):
        places = 0
    if kind in ("tenth", "temperature", "rating") and draw.chance(0.15):
        places = 0
    round_to = 1
    if places == 0 and kind in ("big", "huge", "money", "score", "signed") and draw.chance(0.4):
        round_to = draw.one((5, 10, 10, 50, 100, 100)) if known.low >= 100 else draw.one((5, 10))
    return Style(places, grouped and kind not in UNGROUPED, brackets, round_to=round_to)


def column(kind: str, how: Style, count: int, draw: Draw) -> list[Decimal]:
    """So many numbers of one column; those of larger kinds differ, so that what changes has a sign."""
    known = KINDS[kind]
    low, high = known.low, known.high
    if known.spread:
        middle = math.exp(draw.real(math.log(low), math.log(high)))
        low, high = max(low, middle / known.spread), min(high, middle * known.spread)
    sign = known.signed and draw.chance(0.6)
    found: list[Decimal] = []
    for _ in range(count * 60):
        value = Decimal(draw.real(low, high)).quantize(Decimal(1).scaleb(-how.places), ROUND_HALF_UP)
        if how.round_to > 1:
            value = Decimal(int(value) // how.round_to * how.round_to) or Decimal(how.round_to)
        if sign and draw.chance(0.45):
            value = -value
        if value not in found or (kind in ("few", "age", "mark") and draw.chance(0.3)):
            found.append(value)
        if len(found) == count:
            return found
    return found + [Decimal(int(high)) + i + 1 for i in range(count - len(found))]


def written(value: Decimal, how: Style, first: bool = True) -> str:
    """A cell. first: whether it stands in the first row, which alone may have the unit."""
    text = bare(value, how)
    negative = text.startswith("-")
    text = text.lstrip("-")
    before, after = (how.before, how.after) if first or not how.first else ("", "")
    if negative and how.brackets:
        return f"{before}({text}){after}"
    return f"{'-' if negative else ''}{before}{text}{after}"


def bare(value: Decimal, how: Style) -> str:
    """A number without a unit, negative with a minus."""
    return f"{value:,.{how.places}f}" if how.grouped else f"{value:.{how.places}f}"
