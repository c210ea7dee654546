"""Judges a claim: computes an operation over cells with exact decimals, and compares it with what is claimed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

from numjax.tasks.claims.lines import find_previous
from numjax.tasks.tatqa.traits import Cell, Grid, NumberSpan, find_scale

OPERATORS = (
    "EQUAL", "TEXT", "ABOVE", "BELOW", "GREATER", "LESS", "ROSE", "FELL", "LARGEST", "SMALLEST", "COUNT-ABOVE",
    "COUNT-BELOW", "ALL-ABOVE", "ALL-BELOW", "NONE-ABOVE", "NONE-BELOW", "ONE-ABOVE", "ONE-BELOW", "COUNT-TEXT",
    "SIZE", "SUM", "TOTAL", "MEAN", "DIFFERENCE", "MORE-BY", "LESS-BY", "PERCENT", "UP-PERCENT", "DOWN-PERCENT",
)  # fmt: skip
LIMITED = (
    "ABOVE",
    "BELOW",
    *(f"{name}-{side}" for name in ("COUNT", "ALL", "NONE", "ONE") for side in ("ABOVE", "BELOW")),
)
COUNTS = ("COUNT-ABOVE", "COUNT-BELOW", "COUNT-TEXT", "SIZE")
CLAIMED = ("EQUAL", *COUNTS, "SUM", "TOTAL", "MEAN", "DIFFERENCE", "MORE-BY", "LESS-BY")
PERCENTS = ("PERCENT", "UP-PERCENT", "DOWN-PERCENT")
DIGITS = 2200  # enough to add the largest and the smallest number that a cell can hold
_SCALE_WORD = re.compile(r"(?:\s?(thousand|million|billion)s?|(k|mn?|bn))\b", re.IGNORECASE)
_SCALES = {"t": 1, "k": 1, "m": 2, "b": 3}  # by the first letter
_WORD = re.compile(r"\w+")


class Claim(NamedTuple):
    """What a statement says of a table.

    Attributes:
      operation: of `OPERATORS`. denied: the statement says that it does not hold.
      first, second: cells. `second` are those that the first is compared with: one, or the others of its line.
      claimed: the number that the operation should give. limit: the number that cells are compared with.
    """

    operation: str
    denied: bool
    first: tuple[Cell, ...]
    second: tuple[Cell, ...] = ()
    claimed: NumberSpan | None = None
    limit: NumberSpan | None = None


def judge(statement: str, grid: Grid, claim: Claim) -> bool:
    """Whether the table entails the statement. A claim that lacks a cell or a number is not entailed.

    Numbers are equal if they are so exactly; means, percentages and converted numbers are first rounded to the
    decimals of the claimed number. A percentage is of the second cell.
    """
    with localcontext() as context:
        context.prec = DIGITS
        holds = _holds(statement, grid, claim)
    return holds is not None and holds != claim.denied


def contains_words(statement: str, text: str) -> bool:
    """Whether the words of a text follow each other in a statement."""
    words, text_words = (_WORD.findall(part.casefold()) for part in (statement, text))
    size = len(text_words)
    return size > 0 and any(words[i : i + size] == text_words for i in range(len(words) - size + 1))


def _holds(statement: str, grid: Grid, claim: Claim) -> bool | None:
    operation = claim.operation
    if operation == "TEXT":
        return _states_text(statement, grid, claim.first[0]) if claim.first else None
    if operation in ("SIZE", "COUNT-TEXT"):
        if claim.claimed is None:
            return None
        is_size = operation == "SIZE"
        return (len(claim.first) if is_size else _count_text(statement, grid, claim.first)) == claim.claimed.value
    first, second = ([grid.values[cell].number for cell in cells] for cells in (claim.first, claim.second))
    if operation in ("ROSE", "FELL"):
        previous = find_previous(grid, claim.first[0]) if first else None
        second = [grid.values[previous].number] if previous else []
    if not first:
        return None
    if operation in LIMITED:
        return _holds_limit(statement, grid, claim, first)
    if operation in ("GREATER", "ROSE", "LARGEST"):
        return first[0] > max(second) if second else None
    if operation in ("LESS", "FELL", "SMALLEST"):
        return first[0] < min(second) if second else None
    if claim.claimed is None:
        return None
    if operation in PERCENTS:
        return _is_percent(operation, first, second, claim.claimed)
    result = _compute(operation, first, second)
    return None if result is None else _is_number(statement, grid, claim, result)


def _holds_limit(statement: str, grid: Grid, claim: Claim, numbers: Sequence[Decimal]) -> bool | None:
    if claim.limit is None:
        return None
    limit = claim.limit.value * _find_factor(statement, grid, claim.first[0], claim.limit, numbers)
    name, _, side = claim.operation.rpartition("-")
    count = sum(number > limit if side == "ABOVE" else number < limit for number in numbers)
    if name == "COUNT":
        return None if claim.claimed is None else count == claim.claimed.value
    return count == {"": 1, "ALL": len(numbers), "NONE": 0, "ONE": 1}[name]


def _compute(operation: str, first: Sequence[Decimal], second: Sequence[Decimal]) -> Decimal | None:
    if operation == "EQUAL":
        return first[0]
    if operation in ("SUM", "TOTAL", "MEAN"):
        total = sum(first, Decimal(0))
        return total / len(first) if operation == "MEAN" else total
    if not second:
        return None
    difference = first[0] - second[0]
    return {"DIFFERENCE": abs(difference), "MORE-BY": difference, "LESS-BY": -difference}[operation]


def _is_percent(
    operation: str, first: Sequence[Decimal], second: Sequence[Decimal], claimed: NumberSpan
) -> bool | None:
    if not second or not second[0]:
        return None
    change = (first[0] - second[0]) / abs(second[0]) * 100
    change = {"PERCENT": abs(change), "UP-PERCENT": change, "DOWN-PERCENT": -change}[operation]
    value = abs(claimed.value) if operation == "PERCENT" else claimed.value
    return _rounds_to(change, value, claimed.decimals)


def _is_number(statement: str, grid: Grid, claim: Claim, result: Decimal) -> bool:
    claimed = claim.claimed
    assert claimed is not None
    factor = _find_factor(statement, grid, claim.first[0], claimed, [result])
    if claim.operation == "MEAN" or factor != 1:
        return _rounds_to(result / factor, claimed.value, claimed.decimals)
    return result == claimed.value


def _rounds_to(number: Decimal, claimed: Decimal, decimals: int) -> bool:
    """Whether a number rounded to so many decimals, halves away from zero, is the claimed one."""
    half = Decimal(5).scaleb(-decimals - 1)
    is_same_sign = not claimed or (number < 0) == (claimed < 0)
    return is_same_sign and abs(claimed) - half <= abs(number) < abs(claimed) + half


def _find_factor(statement: str, grid: Grid, cell: Cell, number: NumberSpan, others: Sequence[Decimal]) -> Decimal:
    """The factor that turns a statement's number into the unit of a table's cell.

    The statement may give it in the table's unit ("5.2" or "5.2 million" where cells are in millions) or in another
    ("5,200,000"). Of both readings the one counts that is nearer to one of `others`, numbers of the table.
    """
    match = _SCALE_WORD.match(statement, number.end)
    scale = _SCALES[match[0].strip()[0].lower()] if match else 0
    row, column = cell
    table_scale = next(filter(None, map(find_scale, (grid.rows[0][column], grid.rows[row][0], grid.rows[0][0]))), 0)
    factor = Decimal(1000) ** (scale - table_scale)
    magnitudes = [abs(other) for other in others if other]
    if not magnitudes or not number.value or factor == 1:
        return Decimal(1)
    ratios = (
        [abs(number.value) * candidate / magnitude for magnitude in magnitudes] for candidate in (Decimal(1), factor)
    )
    distances = [min(max(ratio, 1 / ratio) for ratio in candidate_ratios) for candidate_ratios in ratios]
    return factor if distances[1] < distances[0] else Decimal(1)


def _states_text(statement: str, grid: Grid, cell: Cell) -> bool:
    """Whether the statement has the cell's text, not only as a part of a longer text of another cell."""
    text = grid.rows[cell[0]][cell[1]]
    longer_texts = (other for row in grid.rows for other in row if len(other) > len(text))
    return contains_words(statement, text) and not any(
        contains_words(other, text) and contains_words(statement, other) for other in longer_texts
    )


def _count_text(statement: str, grid: Grid, cells: Sequence[Cell]) -> int:
    """How many cells have the longest text of them that the statement has."""
    texts = [grid.rows[r][c].casefold() for r, c in cells]
    stated_texts = [text for text in texts if contains_words(statement, text)]
    return texts.count(max(stated_texts, key=len)) if stated_texts else 0
