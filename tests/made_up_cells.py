"""Cells of a grid with made-up numbers, to test what is drawn from cells. They are no results."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

STREAMS = ("inside", "length 8", "length 12", "length 20", "edges")
# Row → how well it does on the lengths of training, and the share of what it can write on each further stream.
ROWS = {
    "digits": (0.9, 1.0),
    "digits_rev": (0.97, 1.0),
    "p1000": (0.3, 0.4),
    "xval": (0.1, 0.6),
    "fone": (0.8, 0.9),
    "ntl": (0.88, 1.0),
    "abacus": (0.95, 1.0),
    "carry": (0.99, 1.0),
    "waves": (0.5, 1.0),  # a stranger's own row
    "oracle": (1.0, 1.0),
}
COLUMNS = ("copy", "add", "mul", "sort")
# A text that a page must show and not run.
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
NO_MEANING: dict[str, Any] = dict(
    metrics=dict.fromkeys(("exact", "digits")), streams={}, ceiling={}, settings={}, examples=[], curve=[],
    not_applicable="xval writes no leading zeros",
)  # fmt: skip


def make_cell(row: str, column: str, seed: int, scale: str = "cpu", **changes: Any) -> dict[str, Any]:
    """A cell in the form that experiments.grid writes, with numbers from a generator of its name."""
    rng = np.random.default_rng([*row.encode(), *column.encode(), seed])
    level, reach = ROWS.get(row, (0.5, 1.0))

    def make_metrics(share: float) -> dict[str, float | None]:
        exact = float(np.clip(share + (rng.normal(0, 0.01) if row != "oracle" else 0), 0, 1))
        return {
            "exact": exact, "well_formed": min(1.0, exact + 0.2), "digits": (1 + exact) / 2,
            "relative_error_median": float(10 ** (-6 * exact)), "within_1_percent": min(1.0, exact + 0.1),
            "log_error": 2 * (1 - exact), "log_smape": exact, "calibration_error": None if row == "digits" else 0.1,
        }  # fmt: skip

    shares = [level * reach**i * 0.8**i for i in range(len(STREAMS))]
    ceiling = {stream: reach if i else 1.0 for i, stream in enumerate(STREAMS)}
    curve = [
        {"step": step, "seconds": step * (0.1 + 0.02 * len(row)), "exact": level * step / 4000}
        for step in (1000, 2000, 3000, 4000)
    ]
    examples = [
        {"stream": stream, "prompt": f"{column} {i} of {stream} =", "gold": str(100 + i),
         "written": str(100 + i) if i % 2 else f"<b>{row}</b>", "exact": bool(i % 2)}
        for i, stream in enumerate(STREAMS)
    ]  # fmt: skip
    settings = {
        "steps": 4000, "batch": 128, "width": 128, "layers": 2, "learning_rate": 1e-3, "tried": {"1e-3": 0.5},
        "parts": {"scheme": "replace", "embeds": f"{row}, token", "heads": row, "objectives": "nll", "positions": ""},
    }  # fmt: skip
    return {
        "form": 1, "row": row, "column": column, "scale": scale, "seed": seed, "key": row,
        "commit": "0123abc", "dirty": False, "hardware": "a made-up machine",
        "settings": {} if row == "oracle" else settings, "steps": 4000, "seconds": 500.0, "overhead_seconds": 10.0,
        "ms_per_step": 125.0, "parameters": 500_000, "slots_per_number": 4.2 if row == "digits" else 1.0,
        "metrics": make_metrics(float(np.mean(shares))),
        "streams": {stream: make_metrics(share) for stream, share in zip(STREAMS, shares, strict=True)},
        "ceiling": {"all": float(np.mean([*ceiling.values()]))} | ceiling, "curve": [] if row == "oracle" else curve,
        "examples": examples, "not_applicable": None, "diverged": None,
    } | changes  # fmt: skip


def write_cell(folder: pathlib.Path, cell: dict[str, Any]) -> pathlib.Path:
    """Writes a cell into OUT/cells; returns the file."""
    path = folder / "cells" / f"{cell['scale']}.{cell['row']}.{cell['column']}.seed{cell['seed']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(cell), "utf-8")
    return path


def write_step_times(folder: pathlib.Path, milliseconds: dict[str, float], scale: str = "cpu") -> pathlib.Path:
    """Writes the time of a step of each row, digits among them, as `scheme_cost` does; returns the file."""
    rows = {
        row: {"ratio": {"median": time / milliseconds["digits"]}, "step_ms": 1.1 * time if row != "digits" else time}
        for row, time in milliseconds.items()
    }
    machine = {"processor": "made-up", "family": "family 1, model 2"}
    path = folder / f"step_times.{scale}.json"
    path.write_text(json.dumps({"scale": scale, "problems": "grid", "machine": machine, "rows": rows}), "utf-8")
    return path


def write_settings(folder: pathlib.Path, key: str, problems: str, **options: Any) -> None:
    """Writes the settings that a key names, into OUT/settings."""
    path = folder / "settings" / f"{key}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"grid.problems": problems} | options), "utf-8")


def write_cells(folder: pathlib.Path, rows: Sequence[str] = tuple(ROWS), columns: Sequence[str] = COLUMNS) -> None:
    """Writes a grid with three seeds, without the cell (fone, sort), and with a meaningless one, (xval, copy)."""
    for row in rows:
        for column in columns:
            if (row, column) == ("fone", "sort"):
                continue
            if (row, column) == ("xval", "copy"):
                write_cell(folder, make_cell(row, column, 0, **NO_MEANING))
                continue
            for seed in range(3 if row != "waves" else 1):
                write_cell(folder, make_cell(row, column, seed))


def write_two_machines(folder: pathlib.Path) -> pathlib.Path:
    """Writes cells of two machines to a folder, and returns it."""
    hardware = {"digits": "a laptop", "carry": "a server", "fone": "a server", "oracle": "a laptop"}
    for row, name in hardware.items():
        for column in ("add", "mul"):
            write_cell(folder, make_cell(row, column, 0, hardware=name))
    return folder


def list_cells(out: pathlib.Path) -> list[dict[str, Any]]:
    """The cells of a folder."""
    return [json.loads(path.read_text()) for path in sorted((out / "cells").glob("*.json"))]
