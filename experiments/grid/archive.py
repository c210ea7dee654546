"""Cells in files to commit, RESULTS/SCALE/cells/ROW.json.gz, one for each row: a grid goes on from them anywhere.

A file is a JSON object, compressed: path in the folder of a grid → content, of a row's cells and of the settings and
code that they name.
"""

from __future__ import annotations

import gzip
import json
import pathlib
import re
import zlib
from collections import defaultdict
from typing import Any

from numjax.bundled.experiments import stored
from numjax.bundled.experiments.grid import cells
from numjax.errors import UsageError
from numjax.runtime import files

MOST_BYTES = 100_000_000  # of one row, unpacked
_PATH = re.compile(r"(cells|settings|code)/[A-Za-z0-9][A-Za-z0-9._+-]*\.json")


def pack(out: pathlib.Path, results: pathlib.Path) -> list[pathlib.Path]:
    """Writes the file of each scale and row of a grid's folder; returns their paths. The same cells make the same
    bytes. Files of other rows stay.

    Raises:
      UsageError: a file cannot be written.
    """
    rows: dict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    for cell in cells.load_cells(out):
        if isinstance(cell, UsageError):
            continue
        name = f"{cell['scale']}.{cell['row']}.{cell['column']}.seed{cell['seed']}"
        if not _PATH.fullmatch(f"cells/{name}.json"):
            continue
        shared = {"settings": cell["key"], "code": cell.get("code")}
        own = rows[cell["scale"], cell["row"]]
        own[f"cells/{name}.json"] = cell
        for kind, key in shared.items():
            path = out / kind / f"{key}.json"
            if key and path.exists():
                own[f"{kind}/{key}.json"] = json.loads(path.read_text(encoding="utf-8"))
    paths = []
    for (scale, row), content in rows.items():
        path = results / scale / "cells" / f"{row}.json.gz"
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        try:
            files.write(path, gzip.compress(text.encode(), mtime=0))
        except OSError as error:
            raise UsageError(f"cannot write {path} ({error.strerror}): choose another --results") from error
        paths.append(path)
    return paths


def unpack(results: pathlib.Path, out: pathlib.Path) -> int:
    """Writes the cells of all rows that the folder of a grid does not have yet; returns how many.

    Raises:
      UsageError: a file is damaged or no such file.
    """
    count = 0
    for path in sorted(results.glob("*/cells/*.json.gz")):
        for name, content in _load(path).items():
            target = out / name
            if not target.exists():
                stored.write_json(target, content)
                count += name.startswith("cells/")
    return count


def _load(path: pathlib.Path) -> dict[str, Any]:
    try:
        with gzip.open(path) as file:
            text = file.read(MOST_BYTES + 1)
        content = json.loads(text) if len(text) <= MOST_BYTES else None
    except (OSError, EOFError, zlib.error, ValueError) as error:
        raise UsageError(f"{path}: damaged ({error}): restore it, or remove it") from None
    if not isinstance(content, dict) or not all(_PATH.fullmatch(name) for name in content):
        raise UsageError(f"{path}: holds no cells of a grid: remove it")
    return content
