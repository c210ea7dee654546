"""The time of a step of each row on one machine, so that seconds can be compared where cells come from several.

    python -m experiments.benchmarks.scheme_cost --problems=grid --scale=cpu --out=runs/grid/step_times.cpu.json

measures them. A report takes the file of each scale that stands beside its cells.
"""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from numjax.bundled.experiments.grid.report.folder import Cell

BASE = "digits"  # beside which each row was timed


class Clock(NamedTuple):
    """The step times of one machine.

    Attributes:
      machine: in words. seconds: row → of a step.
    """

    machine: str
    seconds: Mapping[str, float]


def find_file(folder: pathlib.Path, scale: str) -> pathlib.Path:
    """Where a folder of cells has the step times of a scale."""
    return folder / f"step_times.{scale}.json"


def load_all(folder: pathlib.Path) -> tuple[dict[str, Clock], list[str]]:
    """(scale → its clock, of a folder of cells; a line for each file that is none)."""
    clocks, faults = {}, []
    for path in sorted(folder.glob("step_times.*.json")):
        scale = path.name.split(".")[1]
        try:
            clocks[scale] = load(path, scale)
        except ValueError as error:
            faults.append(f"{path.name}: {error}: measure it again, with another --out, or remove it")
    return clocks, faults


def load(path: pathlib.Path, scale: str) -> Clock:
    """The clock of a file.

    Raises:
      ValueError: it holds no step times of this scale.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if (content["problems"], content["scale"]) != ("grid", scale):
            raise ValueError(f"has the problems {content['problems']!r} and the scale {content['scale']!r}")
        rows, machine = content["rows"], content["machine"]
        base = _check(rows[BASE]["step_ms"]) / 1000
        seconds = {row: base * _check(cost["ratio"]["median"]) for row, cost in rows.items()}
        words = f"{machine['processor']} ({machine['family']})"
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"holds no step times ({type(error).__name__}: {error})") from None
    return Clock(words, seconds)


def _check(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError(f"has the time {value!r:.40}")
    return value


def time_cell(cell: Cell, clock: Clock | None) -> Cell:
    """The cell with the seconds of a clock instead of those of its own machine, if the clock has its row."""
    seconds = clock.seconds.get(cell.row) if clock else None
    if clock is None or seconds is None or not cell.settings:
        return cell
    costs = dict(cell.costs) | {"ms_per_step": 1000 * seconds}
    if "steps" in costs:
        costs["seconds"] = costs["steps"] * seconds
    curve = [(step, step * seconds, exact) for step, _, exact in cell.curve]
    return cell._replace(curve=curve, costs=costs, clock=clock.machine)
