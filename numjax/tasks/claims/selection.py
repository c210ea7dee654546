"""Selects the operands of an operation from the roles that a model gives to cells and numbers.

Cells are selected together: the likeliest pair in one line, or the likeliest whole line. A line is then complete even
if the model is unsure of some of its cells, or did not see them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from numjax.tasks.claims.lines import Line, Lines, find_previous, list_lines
from numjax.tasks.claims.operations import CLAIMED, LIMITED, PERCENTS, Claim
from numjax.tasks.tatqa.traits import Cell, NumberSpan, parse_grid

PAIRS = ("GREATER", "LESS", "DIFFERENCE", "MORE-BY", "LESS-BY", *PERCENTS)
EXTREMES = ("LARGEST", "SMALLEST")
WHOLE_LINES = (*(name for name in LIMITED if "-" in name), "COUNT-TEXT", "SIZE", "TOTAL", "MEAN")
_LEAST = 1e-6  # of a probability

K = TypeVar("K")


class Roles(NamedTuple):
    """The probabilities of a model: that a cell, or a number of the statement, has the first or the second role.

    The roles of numbers are those of the claimed number and of the limit.
    """

    cells: Mapping[Cell, tuple[float, float]]
    numbers: Mapping[NumberSpan, tuple[float, float]]


def select_claim(operation: str, denied: bool, rows: tuple[tuple[str, ...], ...], roles: Roles) -> Claim:
    """The likeliest claim with this operation about a table of stripped cells. Operands that the table or the
    statement cannot give are left empty."""
    first, second = _select_cells(operation, rows, roles.cells)
    claimed_gains, limit_gains = _compute_gains(roles.numbers, 0), _compute_gains(roles.numbers, 1)
    has_claimed = operation in (*CLAIMED, *PERCENTS)
    claimed = limit = None
    if has_claimed and operation in LIMITED:
        pairs = itertools.permutations(roles.numbers, 2)
        claimed, limit = max(
            pairs, key=lambda pair: claimed_gains[pair[0]] + limit_gains[pair[1]], default=(None, None)
        )
    elif has_claimed:
        claimed = max(roles.numbers, key=claimed_gains.__getitem__, default=None)
    elif operation in LIMITED:
        limit = max(roles.numbers, key=limit_gains.__getitem__, default=None)
    return Claim(operation, denied, first, second, claimed, limit)


def _compute_gains(roles: Mapping[K, tuple[float, float]], index: int) -> dict[K, float]:
    """log (p of a role / p of none) of each item."""
    gains = {}
    for item, probabilities in roles.items():
        none = max(1 - sum(probabilities), _LEAST)
        gains[item] = math.log(max(probabilities[index], _LEAST) / none)
    return gains


def _select_cells(
    operation: str, rows: tuple[tuple[str, ...], ...], roles: Mapping[Cell, tuple[float, float]]
) -> tuple[Line, Line]:
    grid, lines = parse_grid(rows), list_lines(rows)
    # Of cells that the model did not see, nothing is known.
    unknown = {(r, c): 0.0 for r, row in enumerate(rows) for c in range(len(row))}
    gains, second_gains = (unknown | _compute_gains(roles, index) for index in range(2))
    if operation in PAIRS:
        return _select_pair(grid.values, gains, second_gains)
    if operation in EXTREMES:
        return _select_extreme(lines, gains, second_gains)
    if operation in WHOLE_LINES:
        pool = {"COUNT-TEXT": lines.texts, "SIZE": lines.headers}.get(operation, lines.numbers)
        return _select_line(pool, gains), ()
    if operation == "SUM":
        likely = tuple(cell for cell in grid.values if gains[cell] > 0)
        return (likely, ()) if len(likely) > 1 else (sum(_select_pair(grid.values, gains, gains), ()), ())
    candidates: Iterable[Cell] = grid.values
    if operation == "TEXT":
        candidates = ((r, c) for r, c in unknown if min(r, c) > 0 and rows[r][c])
    elif operation in ("ROSE", "FELL"):
        candidates = (cell for cell in grid.values if find_previous(grid, cell))
    best = max(candidates, key=gains.__getitem__, default=None)
    return ((best,) if best else ()), ()


def _select_pair(
    values: Iterable[Cell], gains: Mapping[Cell, float], second_gains: Mapping[Cell, float]
) -> tuple[Line, Line]:
    """The likeliest two cells of a row or a column, which may also be totals."""
    order = {cell: index for index, cell in enumerate(values)}
    lines = [
        [cell for cell in order if cell[axis] == index] for axis in range(2) for index in {c[axis] for c in order}
    ]
    pairs = (pair for line in lines for pair in itertools.permutations(line, 2))
    # Of pairs that are as likely the first counts, in the order of the cells.
    best = max(pairs, default=None, key=lambda p: (gains[p[0]] + second_gains[p[1]], -order[p[0]], -order[p[1]]))
    return ((best[0],), (best[1],)) if best else ((), ())


def _select_extreme(
    lines: Lines, gains: Mapping[Cell, float], second_gains: Mapping[Cell, float]
) -> tuple[Line, Line]:
    best, best_gain = ((), ()), -math.inf
    for line in lines.numbers:
        total = sum(second_gains[cell] for cell in line)
        for index, cell in enumerate(line if len(line) > 1 else ()):
            if (gain := total - second_gains[cell] + gains[cell]) > best_gain:
                best, best_gain = ((cell,), (*line[:index], *line[index + 1 :])), gain
    return best


def _select_line(lines: Sequence[Line], gains: Mapping[Cell, float]) -> Line:
    return max(lines, key=lambda line: sum(gains[cell] for cell in line), default=())
