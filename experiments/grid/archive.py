"""Cells in files to commit, RESULTS/SCALE/cells/ROW.json.gz, one for each row: a grid goes on from them anywhere.

A file is a JSON object, compressed: path in the folder of a grid → content, of a row's cells and of the settings and
code that they name. Beside the folder of these files stands step_times.json, if the steps of rows were timed.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from numjax.bundled.experiments import identity, stored
from numjax.bundled.experiments.grid import cells
from numjax.errors import UsageError
from numjax.runtime import files

STEP_TIMES = "step_times.json"  # of a scale, see report/clock.py
MOST_BYTES = 100_000_000  # of one row, unpacked
_PATH = re.compile(r"(cells|settings|code)/[A-Za-z0-9][A-Za-z0-9._+-]*\.json")


def pack(out: pathlib.Path, results: pathlib.Path) -> list[pathlib.Path]:
    """Writes the file of each scale and row of a grid's folder; returns their paths. The same cells make the same
    bytes. Files of other rows stay, and so do the cells of a file that the folder lacks.

    Raises:
      UsageError: a cell is of uncommitted code, or the committed one in its place is another result: nothing is
        written. Or a file cannot be written.
    """
    rows: dict[pathlib.Path, dict[str, Any]] = defaultdict(dict)
    for cell in cells.load_cells(out):
        if isinstance(cell, UsageError):
            continue
        name = f"cells/{cell['scale']}.{cell['row']}.{cell['column']}.seed{cell['seed']}.json"
        if not _PATH.fullmatch(name):
            continue
        if cell["dirty"]:
            raise UsageError(
                f"{out / name}: made by code that was not committed, so nobody can make it again: remove it, commit "
                "the code, and run the grid again"
            )
        shared = {"settings": cell["key"], "code": cell.get("code")}
        own = rows[results / cell["scale"] / "cells" / f"{cell['row']}.json.gz"]
        own[name] = cell
        for kind, key in shared.items():
            path = out / kind / f"{key}.json"
            if key and path.exists():
                own[f"{kind}/{key}.json"] = json.loads(path.read_text(encoding="utf-8"))
    committed = {path: load(path) for path in rows if path.exists()}
    for path, content in committed.items():
        if lines := _list_conflicts(content, path, out):
            more = f" ({len(lines) - 1} more of this row)" * (len(lines) > 1)
            raise UsageError(
                f"{lines[0]}{more}. To replace the committed row, remove {path}; to keep it, remove the row's cells "
                f"in {out / 'cells'}. Then run this again"
            )
    step_times = _list_step_times(out, {path.parent.parent for path in rows})
    for path, content in rows.items():
        text = json.dumps(committed.get(path, {}) | content, sort_keys=True, separators=(",", ":"))
        try:
            files.write(path, gzip.compress(text.encode(), mtime=0))
        except OSError as error:
            raise UsageError(f"cannot write {path} ({error.strerror}): choose another --results") from error
    for path, content in step_times.items():
        files.write(path, content)
    return list(rows)


def _list_step_times(out: pathlib.Path, folders: Iterable[pathlib.Path]) -> dict[pathlib.Path, bytes]:
    """File to commit → content, of the step times that the folder of a grid has of scales; see report/clock.py.

    Raises:
      UsageError: others are committed.
    """
    found = {}
    for folder in folders:
        path, target = out / f"step_times.{folder.name}.json", folder / STEP_TIMES
        if path.exists():
            found[target] = path.read_bytes()
            if target.exists() and target.read_bytes() != found[target]:
                raise UsageError(f"{target}: {path} has other step times: remove one of the two. Then run this again")
    return found


def unpack(results: pathlib.Path, out: pathlib.Path) -> tuple[int, list[str]]:
    """Writes the cells of all rows that the folder of a grid does not have yet, and step times.

    Returns:
      (how many; a line for each file of the folder that is another result than the committed cell: it stays).

    Raises:
      UsageError: a file is damaged or no such file.
    """
    count, conflicts = 0, []
    for path in sorted(results.glob(f"*/{STEP_TIMES}")):
        target = out / f"step_times.{path.parent.name}.json"
        if not target.exists():
            files.write(target, path.read_bytes())
        elif target.read_bytes() != path.read_bytes():
            conflicts.append(f"{target}: {path} has other step times")
    for path in list_files(results):
        content = load(path)
        conflicts += _list_conflicts(content, path, out)
        for name, value in content.items():
            target = out / name
            if not target.exists():
                stored.write_json(target, value)
                count += name.startswith("cells/")
    return count, conflicts


def list_files(results: pathlib.Path) -> list[pathlib.Path]:
    """The files of rows in a folder of results."""
    return sorted(results.glob("*/cells/*.json.gz"))


def load(path: pathlib.Path) -> dict[str, Any]:
    """The content of a file, by path in the folder of a grid.

    Raises:
      UsageError: it is damaged or no such file.
    """
    try:
        with gzip.open(path) as file:
            text = file.read(MOST_BYTES + 1)
        content = json.loads(text) if len(text) <= MOST_BYTES else None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UsageError(f"{path}: damaged ({error}): restore it, or remove it") from None
    if not isinstance(content, dict) or not all(
        _PATH.fullmatch(name) and isinstance(value, dict) for name, value in content.items()
    ):
        raise UsageError(f"{path}: holds no cells of a grid: remove it")
    return content


def _list_conflicts(content: Mapping[str, Any], path: pathlib.Path, out: pathlib.Path) -> list[str]:
    """A line for each file of a grid's folder that stands where a committed cell belongs, and is another result."""
    lines = []
    for name, committed in content.items():
        if not name.startswith("cells/") or not (out / name).exists():
            continue
        try:
            cell = cells.load_cell(out / name)
        except UsageError as error:
            lines.append(f"{error}, and {path} has a cell there")
            continue
        if cell["key"] != committed.get("key"):
            recorded = content.get(f"settings/{committed.get('key')}.json", {})
            current = cells.load_settings(out, cell["key"])
            if not identity.are_same(recorded, current):
                lines.append(f"{out / name}: {path} has {cells.describe_change(recorded, current)}")
    return lines
