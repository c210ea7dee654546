"""Numbers of tables: their ranges and how they are written."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal
from typing import NamedTuple

from .draw import Draw


class MeasureKind(NamedTuple):
    """Numbers from `low` to `high` with `places` decimals. `spread`: the numbers of one column differ by at most this
    factor from their middle (0: anywhere in the range). signed: some are negative."""

    low: float
    high: float
    places: int = 0
    spread: float = 3.0
    signed: bool = False


KINDS = {
    "few": MeasureKind(0, 12, 0, 0),
    "count": MeasureKind(1, 60, 0, 0),
    "score": MeasureKind(10, 900, 0),
    "mark": MeasureKind(35, 100, 0, 0),
    "age": MeasureKind(8, 67, 0, 1.6),
    "big": MeasureKind(300, 90_000, 0),
    "huge": MeasureKind(10_000, 9_000_000, 0),
    "money": MeasureKind(40, 90_000, 0),
    "signed": MeasureKind(40, 20_000, 0, 3, True),
    "price": MeasureKind(0.5, 200, 2),
    "tenth": MeasureKind(1, 900, 1),
    "rating": MeasureKind(1, 10, 1, 0),
    "percent": MeasureKind(0.5, 95, 1, 2.5),
    "temperature": MeasureKind(-12, 39, 1, 0),
    "year": MeasureKind(1790, 2012, 0, 0),
}
UNGROUPED = ("year", "age", "few", "count", "mark")


class CellStyle(NamedTuple):
    """How the numbers of a measure are written.

    Attributes:
      places: decimals. grouped: "1,200". brackets: "(35)" for −35.
      prefix, suffix: a currency sign, a unit, in each cell. first_only: prefix and suffix only in the first row.
      round_to: integers are multiples of it.
    """

    places: int
    grouped: bool = True
    brackets: bool = False
    prefix: str = ""
    suffix: str = ""
    first_only: bool = False
    round_to: int = 1


def draw_style(kind: str, draw: Draw, brackets: bool, grouped: bool) -> CellStyle:
    """Draws a style without units for a kind of measure."""
    measure_kind = KINDS[kind]
    places = measure_kind.places
    if kind in ("money", "signed") and draw.chance(0.25):
        places = draw.integer(1, 2)
    if kind == "percent" and draw.chance(0.3):
        places = 0
    if kind in ("tenth", "temperature", "rating") and draw.chance(0.15):
        places = 0
    round_to = 1
    if places == 0 and kind in ("big", "huge", "money", "score", "signed") and draw.chance(0.4):
        round_to = draw.choice((5, 10, 10, 50, 100, 100)) if measure_kind.low >= 100 else draw.choice((5, 10))
    return CellStyle(places, grouped and kind not in UNGROUPED, brackets, round_to=round_to)


def draw_column(kind: str, style: CellStyle, count: int, draw: Draw) -> list[Decimal]:
    """Draws the `count` numbers of one column; those of larger kinds all differ, so that changes are never zero."""
    measure_kind = KINDS[kind]
    low, high = measure_kind.low, measure_kind.high
    if measure_kind.spread:
        middle = math.exp(draw.uniform(math.log(low), math.log(high)))
        low, high = max(low, middle / measure_kind.spread), min(high, middle * measure_kind.spread)
    has_signs = measure_kind.signed and draw.chance(0.6)
    values: list[Decimal] = []
    for _ in range(count * 60):
        value = Decimal(draw.uniform(low, high)).quantize(Decimal(1).scaleb(-style.places), ROUND_HALF_UP)
        if style.round_to > 1:
            value = Decimal(int(value) // style.round_to * style.round_to) or Decimal(style.round_to)
        if has_signs and draw.chance(0.45):
            value = -value
        if value not in values or (kind in ("few", "age", "mark") and draw.chance(0.3)):
            values.append(value)
        if len(values) == count:
            return values
    return values + [Decimal(int(high)) + i + 1 for i in range(count - len(values))]


def format_cell(value: Decimal, style: CellStyle, is_first_row: bool = True) -> str:
    """Returns the text of a cell. is_first_row: whether to write prefix and suffix in spite of `first_only`."""
    text = format_number(value, style)
    is_negative = text.startswith("-")
    text = text.lstrip("-")
    prefix, suffix = (style.prefix, style.suffix) if is_first_row or not style.first_only else ("", "")
    if is_negative and style.brackets:
        return f"{prefix}({text}){suffix}"
    return f"{'-' if is_negative else ''}{prefix}{text}{suffix}"


def format_number(value: Decimal, style: CellStyle) -> str:
    """Returns a number without a unit, and with a minus if it is negative."""
    return f"{value:,.{style.places}f}" if style.grouped else f"{value:.{style.places}f}"
