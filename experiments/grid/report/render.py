"""The page of a folder of cells: what its script reads, packed."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

from numjax.bundled.experiments import plots
from numjax.bundled.experiments.grid import groups
from numjax.bundled.experiments.grid.report import maps, metrics, summary, table
from numjax.bundled.experiments.grid.report.folder import ALL, Cell
from numjax.bundled.experiments.grid.report.maps import Map
from numjax.bundled.experiments.grid.report.metrics import METRICS
from numjax.inspect import webpage

_FOLDER = pathlib.Path(__file__).parent / "page"
N_COLOURS = 17


def make_page(grids: Sequence[Map], faults: Sequence[str]) -> str:
    """The page of maps; `faults` are lines about files that are left out."""
    return webpage.make_page(_FOLDER, "The grid · ways of writing a number", pack(grids, faults))


def pack(grids: Sequence[Map], faults: Sequence[str]) -> dict[str, Any]:
    """Everything that the page shows, as JSON holds it."""
    keys = {key for grid in grids for cells in grid.cells.values() for cell in cells for key in _list_metrics(cell)}
    return {
        "metrics": [
            {
                "key": metric.key, "label": metric.label, "meaning": metric.meaning, "worst": metric.worst,
                "best": metric.best, "isShare": metric.is_share, "isLog": metric.is_log,
            }
            for metric in METRICS
            if metric.key in keys or metric.key == METRICS[0].key
        ],
        "colours": plots.list_colours(N_COLOURS),
        "faults": list(faults),
        "all": ALL,
        "equalSeconds": metrics.EQUAL_SECONDS,
        "leastSeeds": maps.LEAST_SEEDS,
        "maps": [_pack_map(grid) for grid in grids],
    }  # fmt: skip


def _list_metrics(cell: Cell) -> set[str]:
    """The metrics that a cell has."""
    measured = {key for values in cell.streams.values() for key, value in values.items() if value is not None}
    return measured | ({metrics.EQUAL_SECONDS} if cell.curve else set())


def _pack_map(grid: Map) -> dict[str, Any]:
    streams = [*grid.streams, ALL]
    problems: dict[str, list[list[str]]] = {column: [] for column in grid.columns}
    return {
        "label": grid.label,
        "leftOut": list(grid.left_out),
        "main": streams.index(maps.get_main_stream(grid)),
        "streams": [{"key": s, "label": table.name_stream(s), "length": maps.find_length(s)} for s in streams],
        "same": [streams.index(s) for s in grid.streams if s in maps.SAME],
        "columns": list(grid.columns),
        "rows": [_pack_row(grid, row) for row in grid.rows],
        "cells": [
            [_pack_cell(grid, row, column, streams, problems[column]) for column in grid.columns] for row in grid.rows
        ],
        "problems": [problems[column] for column in grid.columns],
        "wins": {
            metric.key: [
                [grid.rows.index(wins[c]) if c in wins else -1 for c in grid.columns]
                for wins in (maps.list_winners(grid, stream, metric) for stream in streams)
            ]
            for metric in METRICS
        },
        "seconds": [maps.find_seconds(grid, column) for column in grid.columns],
        "clock": grid.clock,
        "machines": table.count_values(grid, lambda cell: cell.hardware),
        "commits": table.count_values(grid, lambda cell: cell.commit + " with changes" * cell.dirty),
    }


def _pack_row(grid: Map, row: str) -> dict[str, Any]:
    facts = summary.describe_row(grid, row)
    return {
        "name": row,
        "group": facts["group"],
        "isBaseline": facts["group"] == groups.BASELINES,
        "parts": facts["parts"],
        "slots": facts["slots_per_number"],
        "parameters": facts["parameters"],
        "msPerStep": facts["ms_per_step"],
        "seconds": facts["seconds"],
        "rates": facts["learning_rates"],
        "machines": facts["machines"],
        "isTimed": facts["is_timed"],
    }


def _pack_cell(
    grid: Map, row: str, column: str, streams: Sequence[str], problems: list[list[str]]
) -> dict[str, Any] | None:
    cells = grid.cells.get((row, column), ())
    if not cells:
        return None
    ceiling = maps.average_ceiling(cells)
    return {
        "reason": next((cell.reason for cell in cells if cell.reason), ""),
        "diverged": sum(bool(cell.diverged) for cell in cells),
        "values": {
            metric.key: [
                [_shorten(value) for value in maps.collect(grid, row, column, stream, metric.key)]
                for stream in streams
            ]
            for metric in METRICS
        },
        "ceiling": [_shorten(ceiling[stream]) if stream in ceiling else None for stream in streams],
        "curves": [[[step, _shorten(at), _shorten(exact)] for step, at, exact in cell.curve] for cell in cells],
        "examples": _pack_examples(cells, streams, problems),
    }


def _pack_examples(cells: Sequence[Cell], streams: Sequence[str], problems: list[list[str]]) -> list[list[Any]]:
    """[number of the problem in its column, text that the first seed wrote, whether it is right]."""
    packed = []
    for example in next((cell.examples for cell in cells if cell.examples), ()):
        problem = [example["stream"], example["prompt"], example["gold"]]
        if problem not in problems:
            problems.append(problem)
        packed.append([problems.index(problem), example["written"], int(example["exact"])])
    return packed


def _shorten(value: float) -> float:
    return float(f"{value:.4g}")
