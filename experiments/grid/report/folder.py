"""The cells of a folder as the report needs them, checked, so that a broken file costs itself alone."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments.grid import cells as stored
from numjax.errors import UsageError

ALL = "all"  # the stream that stands for all streams together


class Cell(NamedTuple):
    """The result of one row, column and seed.

    Attributes:
      key: names the settings that decide the result; options: these, by path, empty if they are not in the folder.
      settings: of its training, empty where nothing is trained.
      streams: stream → metric → value or None; `ALL` has all streams together.
      ceiling: stream → share of the answers that the row can represent.
      curve: (step, seconds of training, exact accuracy on validation).
      costs: "seconds", "ms_per_step", "parameters", "slots_per_number", as far as they are known.
      clock: the machine of these seconds, if it is not that of the training: see `clock.time_cell`.
      reason: why the column has no meaning for the row; "" where it has one. diverged: why its training stopped.
    """

    row: str
    column: str
    scale: str
    seed: int
    key: str
    options: Mapping[str, Any]
    commit: str
    dirty: bool
    hardware: str
    settings: Mapping[str, Any]
    streams: Mapping[str, Mapping[str, float | None]]
    ceiling: Mapping[str, float]
    curve: Sequence[tuple[int, float, float]]
    examples: Sequence[Mapping[str, Any]]
    costs: Mapping[str, float]
    reason: str
    diverged: str
    clock: str = ""

    @property
    def problems(self) -> str:
        """The digest of the problems that were asked, "" if it is not known."""
        return str(self.options.get("grid.problems", ""))


def read_cells(folder: pathlib.Path) -> tuple[list[Cell], list[str]]:
    """(the cells of a folder, a line for each file that is no cell).

    Raises:
      UsageError: there is no folder of cells, or no cell in it.
    """
    cells, faults = [], []
    options = functools.cache(functools.partial(stored.load_settings, folder))
    for content in stored.load_cells(folder):
        if isinstance(content, UsageError):
            faults.append(str(content).removeprefix(f"{folder / 'cells'}/"))
            continue
        try:
            cell = parse_cell(content)
            cells.append(cell._replace(options=options(cell.key)))
        except ValueError as error:
            faults.append(f"{content['row']}, {content['column']}, seed {content['seed']}: {error}")
    if not cells and not faults:
        raise UsageError(f"--out={folder}: no cells/*.json in it: give the --out of python -m experiments.grid")
    if not cells:
        raise UsageError(f"--out={folder}: none of {len(faults)} files is a cell; the first: {faults[0]}")
    return cells, faults


def parse_cell(content: Mapping[str, Any]) -> Cell:
    """A cell from its JSON, without the options, which cells share.

    Raises:
      ValueError: one of its fields is wrong.
    """
    names = {key: _require(content, key, str) for key in ("row", "column", "scale", "key")}
    reason = _require(content, "not_applicable", str, "")
    metrics = _parse_metrics("metrics", _require(content, "metrics", dict, {}))
    if not metrics and not reason:
        raise ValueError('has neither "metrics" nor a reason in "not_applicable"')
    streams = _require(content, "streams", dict, {})
    ceiling = {key: _number(value) for key, value in _require(content, "ceiling", dict, {}).items()}
    return Cell(
        **names,
        seed=_require(content, "seed", int),
        options={},
        commit=_require(content, "commit", str, ""),
        dirty=bool(content.get("dirty")),
        hardware=_describe_hardware(content.get("hardware")),
        settings=_require(content, "settings", dict, {}),
        streams={ALL: metrics} | {name: _parse_metrics(name, values) for name, values in streams.items()},
        ceiling={key: value for key, value in ceiling.items() if value is not None},
        curve=_parse_curve(_require(content, "curve", list, [])),
        examples=[_parse_example(example) for example in _require(content, "examples", list, [])],
        costs={key: value for key in COSTS if (value := _number(content.get(key))) is not None},
        reason=reason,
        diverged=_require(content, "diverged", str, ""),
    )


COSTS = ("steps", "seconds", "ms_per_step", "parameters", "slots_per_number")


def _require(content: Mapping[str, Any], key: str, kind: type, default: Any = None) -> Any:
    value = content.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f'"{key}" is missing' if key not in content else f'"{key}" is {value!r:.40}')
    return value


def _number(value: Any) -> float | None:
    # NaN and infinity stand for "nothing measured".
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _parse_metrics(name: str, values: Any) -> dict[str, float | None]:
    if not isinstance(values, dict):
        raise ValueError(f'the metrics of "{name}" are {values!r:.40}')
    return {str(key): _number(value) for key, value in values.items()}


def _parse_curve(points: Sequence[Any]) -> list[tuple[int, float, float]]:
    curve = []
    for point in points:
        values = [
            _number(point.get(key)) if isinstance(point, dict) else None for key in ("step", "seconds", "exact")
        ]
        if None in values[:2]:
            raise ValueError(f'"curve" has the point {point!r:.60}')
        if values[2] is not None:
            curve.append(tuple(values))
    return sorted(curve)


def _parse_example(example: Any) -> dict[str, Any]:
    if not isinstance(example, dict) or "prompt" not in example:
        raise ValueError(f'"examples" has {example!r:.60}')
    # Nothing was written: null.
    texts = {key: str(example.get(key) or "") for key in ("stream", "prompt", "gold", "written")}
    return texts | {"exact": bool(example.get("exact"))}


def _describe_hardware(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items() if not isinstance(part, dict | list))
    return str(value or "")
