"""The lines of a table: cells that a statement may take together, and the time before a time.

Row 1 and column 1 are headers. A line leaves out the cells of totals that cross it.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from numjax.tasks.tatqa.traits import Cell, Grid, find_date, parse_grid, parse_time

# Unlike `traits.parse_time`'s, a header may hold other words beside its time: "revenue 2019".
_TIME = re.compile(r"\b(?:FY ?|Year )?((?:1[89]|20)\d\d)\b|\bQ([1-4])\b", re.IGNORECASE)
_WORD = re.compile(r"\w+")

Line = tuple[Cell, ...]


class Lines(NamedTuple):
    """The lines of a table: of cells with numbers, of cells with any text, and of headers."""

    numbers: tuple[Line, ...]
    texts: tuple[Line, ...]
    headers: tuple[Line, ...]


@functools.lru_cache(256)
def list_lines(rows: tuple[tuple[str, ...], ...]) -> Lines:
    """The lines of a table of stripped cells.

    Where headers join a measure with a time ("revenue 2019", "profit 2019"), the cells of one measure are a line too.
    """
    grid = parse_grid(rows)
    inner_rows = [r for r in range(1, len(rows)) if r not in grid.total_rows]
    inner_columns = [c for c in range(1, len(rows[0])) if c not in grid.total_columns]
    candidates = [tuple((r, c) for r in inner_rows) for c in range(1, len(rows[0]))]
    candidates += [tuple((r, c) for c in inner_columns) for r in range(1, len(rows))]
    # "Total assets 2019" is a measure.
    for group in _group_times({c: rows[0][c] for c in range(1, len(rows[0]))}):
        candidates += [tuple((r, c) for c in group) for r in range(1, len(rows))]
    for group in _group_times({r: rows[r][0] for r in range(1, len(rows))}):
        candidates += [tuple((r, c) for r in group) for c in range(1, len(rows[0]))]
    numbers = (tuple(cell for cell in line if cell in grid.values) for line in candidates)
    texts = (tuple((r, c) for r, c in line if rows[r][c]) for line in candidates)
    headers = (tuple((r, 0) for r in inner_rows), tuple((0, c) for c in inner_columns))
    return Lines(*(tuple(dict.fromkeys(filter(None, lines))) for lines in (numbers, texts, headers)))


def find_previous(grid: Grid, cell: Cell) -> Cell | None:
    """The cell of the time before a cell's in its line; None if the headers show none."""
    row, column = cell
    by_row = _earlier_index({r: grid.rows[r][0] for r in range(1, len(grid.rows)) if r not in grid.total_rows}, row)
    headers = grid.rows[0]
    by_column = _earlier_index({c: headers[c] for c in range(1, len(headers)) if c not in grid.total_columns}, column)
    # Years and quarters are written with digits. Where both axes have times, they count and months do not.
    ways: list[tuple[bool, Cell]] = []
    if by_column is not None:
        ways.append((any(map(str.isdigit, headers[column])), (row, by_column)))
    if by_row is not None:
        ways.append((any(map(str.isdigit, grid.rows[row][0])), (by_row, column)))
    ordered = (previous for _, previous in sorted(ways, key=lambda way: not way[0]))
    return next((previous for previous in ordered if previous in grid.values), None)


def _group_times(headers: Mapping[int, str]) -> Iterator[tuple[int, ...]]:
    """Yields the indices of headers that differ only in their times, if other headers differ in other words."""
    groups: dict[str, list[int]] = {}
    for index, header in headers.items():
        if (parts := _split_header(header)) is not None:
            groups.setdefault(parts[1], []).append(index)
    yield from (tuple(group) for group in groups.values() if 1 < len(group) < len(headers))


def _earlier_index(headers: Mapping[int, str], index: int) -> int | None:
    parts = _split_header(headers[index]) if index in headers else None
    if parts is None:
        return None
    times = {}
    for other, header in headers.items():
        other_parts = _split_header(header)
        if other_parts is not None and other_parts[1] == parts[1] and other_parts[0] < parts[0]:
            times[other_parts[0]] = other
    return times[max(times)] if times else None


def _split_header(header: str) -> tuple[int, str] | None:
    """(the sort key of the time in a header, the header's other words), None without a time."""
    if dated := find_date(header):
        return dated[0], " ".join(_WORD.findall(dated[1].lower()))
    if match := _TIME.search(header):
        return int(match[1] or match[2]) * 10_000, " ".join(_WORD.findall(_TIME.sub(" ", header).lower()))
    month = parse_time(header)
    return None if month is None else (month, " ".join(_WORD.findall(header.lower())[1:]))
