"""Maps: cells that may stand beside each other, of the same size, trained for as long, and of the same problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.bundled.configs import schemes
from numjax.bundled.experiments.grid import groups, scales
from numjax.bundled.experiments.grid.report import comparable
from numjax.bundled.experiments.grid.report.folder import ALL, Cell
from numjax.bundled.experiments.grid.report.metrics import EQUAL_SECONDS, Metric

SCALES = tuple(reversed(scales.SCALES))  # the largest first
SAME = ("inside", "test", "same")  # streams of the lengths of training
SIZES = ("layers", "width", "steps", "batch")
LEAST_SEEDS = 3  # of a winner


class Map(NamedTuple):
    """Rows × columns of cells.

    Attributes:
      name: of its files. sizes: of `SIZES`, what all its trained cells have.
      cells: (row, column) → its cells by seed. columns, rows, streams: in the order in which they are shown.
      left_out: a line for each group of cells that cannot be compared with these.
    """

    name: str
    scale: str
    sizes: Mapping[str, Any]
    rows: Sequence[str]
    columns: Sequence[str]
    streams: Sequence[str]
    cells: Mapping[tuple[str, str], Sequence[Cell]]
    left_out: Sequence[str] = ()

    @property
    def clock(self) -> str:
        """The machine whose seconds cells have that were trained on others; "" without."""
        return next((cell.clock for cells in self.cells.values() for cell in cells if cell.clock), "")

    @property
    def label(self) -> str:
        """Its scale and sizes in words."""
        return _describe_sizes(self.scale, self.sizes)


def _describe_sizes(scale: str, sizes: Mapping[str, Any]) -> str:
    size = "{layers} × {width}".format(**sizes) if "layers" in sizes and "width" in sizes else ""
    parts = [scale, size, *(f"{sizes[key]:,} steps" for key in ("steps",) if key in sizes)]
    parts += [f"{sizes['batch']} a batch"] if "batch" in sizes else []
    return ", ".join(filter(None, parts))


def make_maps(cells: Iterable[Cell]) -> tuple[list[Map], list[str]]:
    """(maps, the one to show first in front; a line for each cell that another file of the same cell replaces)."""
    by_size: dict[tuple[Any, ...], list[Cell]] = {}
    untrained: list[Cell] = []
    for cell in cells:
        sizes = tuple((key, cell.settings[key]) for key in SIZES if cell.settings.get(key) is not None)
        if sizes:
            by_size.setdefault((cell.scale, sizes), []).append(cell)
        else:
            untrained.append(cell)
    # What is not trained, and what has no meaning, has no size: it stands in every map of its scale.
    for scale in dict.fromkeys(cell.scale for cell in untrained):
        if not any(key[0] == scale for key in by_size):
            by_size[scale, ()] = []
    order = sorted(by_size, key=lambda key: (_rank_scale(key[0]), -len(by_size[key]), repr(key)))
    maps, faults, names = [], [], set()
    for scale, sizes in order:
        name = _name_map(scale, dict(sizes), names)
        names.add(name)
        members = [*by_size[scale, sizes], *(cell for cell in untrained if cell.scale == scale)]
        maps.append(_make_map(name, scale, dict(sizes), members, faults))
    return maps, list(dict.fromkeys(faults))


def _rank_scale(scale: str) -> tuple[int, str]:
    # "full-6x512" is a size of the scale "full".
    name = scale.partition("-")[0]
    return (SCALES.index(name) if name in SCALES else len(SCALES), scale)


def _name_map(scale: str, sizes: Mapping[str, Any], taken: set[str]) -> str:
    words = [re.sub(r"\W", "-", str(sizes[key])) + key[0] for key in SIZES if key in sizes]
    names = ["grid", f"grid_{re.sub(r'[^a-z0-9]', '-', scale.lower())}"]
    names += ["_".join([names[1], *words[:count]]) for count in range(2, len(words) + 1)]
    free = [name for name in names if name not in taken]
    return free[0] if free else f"{names[-1]}_{len(taken)}"


def _make_map(name: str, scale: str, sizes: Mapping[str, Any], members: Sequence[Cell], faults: list[str]) -> Map:
    by_key: dict[tuple[str, str, int], Cell] = {}
    kept, left_out = comparable.select(members, _describe_sizes(scale, sizes))
    for cell in kept:
        key = (cell.row, cell.column, cell.seed)
        if key in by_key:
            faults.append(f"{cell.row}, {cell.column}, seed {cell.seed}: two files, of which one is shown")
        # Code that was committed is worth more than code that was not.
        if key not in by_key or (by_key[key].dirty and not cell.dirty):
            by_key[key] = cell
    cells: dict[tuple[str, str], list[Cell]] = {}
    for (row, column, _), cell in sorted(by_key.items()):
        cells.setdefault((row, column), []).append(cell)
    streams = {stream for cell in by_key.values() for stream in cell.streams} - {ALL}
    rows, columns = {row for row, _ in cells}, {column for _, column in cells}
    order = groups.sort_rows(rows), _sort_columns(columns), sort_streams(streams)
    return Map(name, scale, sizes, *order, cells, left_out)


def _sort_columns(columns: set[str]) -> list[str]:
    order = {column: rank for rank, column in enumerate(schemes.TASKS)}
    return sorted(columns, key=lambda column: (order.get(column, len(order)), column))


def sort_streams(streams: Iterable[str]) -> list[str]:
    """Streams of the lengths of training, then by length, then others by name."""
    return sorted(streams, key=lambda s: (s not in SAME, find_length(s) is None, find_length(s) or 0, s))


def find_length(stream: str) -> int | None:
    """The length of a stream such as "length 12" or "12", else None."""
    match = re.fullmatch(r"(?:length\s*)?(\d+)", stream)
    return int(match[1]) if match else None


def get_main_stream(grid: Map) -> str:
    """The stream that a picture shows: the lengths of training if the map has them."""
    return next((stream for stream in grid.streams if stream in SAME), ALL)


def collect(grid: Map, row: str, column: str, stream: str, metric: str) -> list[float]:
    """The values of a cell's seeds, without those that have none."""
    cells = grid.cells.get((row, column), ())
    if metric == EQUAL_SECONDS:
        limit = find_seconds(grid, column) if stream == ALL else None
        cells = [cell for cell in cells if not cell.diverged and cell.clock == grid.clock]
        values = [] if limit is None else [score_at(cell, limit) for cell in cells]
    else:
        values = [cell.streams.get(stream, {}).get(metric) for cell in cells]
    return [value for value in values if value is not None]


def find_seconds(grid: Map, column: str) -> float | None:
    """The seconds in which every row of a column was trained: those of the fastest; None without curves, and where
    rows were trained on several kinds of machines, without a clock. If there is a clock, rows that it lacks do not
    count, and neither do runs that diverged."""
    cells = [cell for row in grid.rows for cell in grid.cells.get((row, column), ()) if cell.curve]
    cells = [cell for cell in cells if cell.clock == grid.clock]
    if not grid.clock and len({cell.hardware for cell in cells}) > 1:
        return None
    return min((cell.curve[-1][1] for cell in cells if not cell.diverged), default=None)


def score_at(cell: Cell, seconds: float) -> float | None:
    """A cell's score by then: on the lines between its validations, from 0 at the start; None if it has no curve.

    The last validation alone would judge a row by up to a sixth of its steps less than it had.
    """
    if not cell.curve:
        return None
    _, times, scores = zip(*cell.curve, strict=True)
    return float(np.interp(seconds, [0.0, *times], [0.0, *scores]))


def find_winner(values_by_row: Mapping[str, Sequence[float]], metric: Metric) -> str | None:
    """The row whose every seed is better than every seed of every other row; None if there is none.

    One or two seeds say too little of a range. So a row with fewer than `LEAST_SEEDS` does not win, and counts as a
    rival that may be better than its best seed by the widest range of all rows. Baselines do not take part.
    """
    sign = 1 if metric.is_higher_better else -1
    ranges = {
        row: (min(sign * value for value in values), max(sign * value for value in values))
        for row, values in values_by_row.items()
        if values and groups.find_group(row) != groups.BASELINES
    }
    measured = [row for row in ranges if len(values_by_row[row]) >= LEAST_SEEDS]
    if len(ranges) < 2 or not measured:
        return None
    widest = max(high - low for low, high in ranges.values())
    best = max(measured, key=lambda row: ranges[row][0])
    limit = max(high + widest * (row not in measured) for row, (_, high) in ranges.items() if row != best)
    return best if ranges[best][0] > limit else None


def list_winners(grid: Map, stream: str, metric: Metric) -> dict[str, str]:
    """Column → its winner, for the columns that have one."""
    winners = {}
    for column in grid.columns if metric.is_of_all else ():
        values = {row: collect(grid, row, column, stream, metric.key) for row in grid.rows}
        winner = find_winner(values, metric)
        # A seed without a value is no good one.
        if winner is not None and len(values[winner]) == len(grid.cells[winner, column]):
            winners[column] = winner
    return winners


def average_ceiling(cells: Sequence[Cell]) -> dict[str, float]:
    """Stream → the mean share of answers that a cell's seeds can represent."""
    streams = dict.fromkeys(stream for cell in cells for stream in cell.ceiling)
    by_stream = {stream: [cell.ceiling[stream] for cell in cells if stream in cell.ceiling] for stream in streams}
    return {stream: sum(shares) / len(shares) for stream, shares in by_stream.items()}
