"""Checks the cells of a grid that are committed, and that its table follows from them."""

from __future__ import annotations

import json
import pathlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.bundled.experiments import identity, stored
from numjax.bundled.experiments.grid import archive, cells
from numjax.bundled.experiments.grid.report import clock, files
from numjax.bundled.experiments.quotes import Problem
from numjax.errors import UsageError


def check(results: pathlib.Path) -> Iterator[Problem]:
    """Yields what is wrong with the files of rows in a folder of results, then which tables differ from what these
    files give."""
    by_scale: dict[str, dict[str, Any]] = {}
    for path in archive.list_files(results):
        try:
            content = archive.load(path)
        except UsageError as error:
            yield Problem(path, 1, str(error).removeprefix(f"{path}: "))
            continue
        yield from (Problem(path, 1, message) for message in check_row(content, path))
        by_scale.setdefault(path.parent.parent.name, {}).update(content)
    for path in sorted(results.glob(f"*/{archive.STEP_TIMES}")):
        try:
            clock.load(path, path.parent.name)
        except ValueError as error:
            yield Problem(path, 1, str(error))
    for table in sorted(results.glob(f"*/{files.NAME}.json")):
        message = compare_table(table, by_scale.get(table.parent.name, {}))
        if message:
            yield Problem(table, 1, message)


def check_row(content: Mapping[str, Any], path: pathlib.Path) -> Iterator[str]:
    """Yields what is wrong with the cells of a row's file: fields, names, uncommitted code, settings, scores."""
    scale, row = path.parent.parent.name, path.name.removesuffix(".json.gz")
    for name, cell in content.items():
        kind, _, rest = name.partition("/")
        if kind != "cells":
            if identity.make_key(cell) != rest.removesuffix(".json"):
                yield f"{name}: is not what its name says"
        elif fault := cells.describe_fault(cell):
            yield f"{name}: {fault}"
        elif rest != f"{scale}.{row}.{cell['column']}.seed{cell['seed']}.json" or cell["row"] != row:
            yield f"{name}: is another cell: {cell['scale']}, {cell['row']}, {cell['column']}, seed {cell['seed']}"
        elif cell["dirty"]:
            yield f"{name}: made by code that was not committed"
        elif f"settings/{cell['key']}.json" not in content:
            yield f"{name}: its settings are not in the file"
        elif stream := _find_impossible(cell):
            yield f"{name}: {stream}: more answers are right than the row can write"


def _find_impossible(cell: Mapping[str, Any]) -> str:
    """A stream whose score is above its ceiling, or ""."""
    scores = (
        (stream, scores["exact"], cell["ceiling"].get(stream, 1.0)) for stream, scores in cell["streams"].items()
    )
    return next((stream for stream, exact, most in scores if exact is not None and exact > most + 1e-9), "")


def compare_table(path: pathlib.Path, content: Mapping[str, Any]) -> str:
    """Where a committed table differs from what committed cells give; "" if it follows from them. Files of the folder
    that were no cells are not committed, so its lines about them have no source. Rows may have been added since."""
    table = json.loads(path.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        if (step_times := path.parent / archive.STEP_TIMES).exists():
            shutil.copy(step_times, clock.find_file(pathlib.Path(folder), path.parent.name))
        for name, value in content.items():
            stored.write_json(pathlib.Path(folder) / name, value)
        try:
            made = files.make_report(pathlib.Path(folder)).contents.values()
        except UsageError:
            return "no cells are committed beside it"
    own_contents = [own for own in made if own["scale"] == path.parent.name]
    if not own_contents:
        return f"the cells beside it are of another scale than {path.parent.name}"
    expected = json.loads(json.dumps(own_contents[0]))
    ours, theirs = ({(cell["row"], cell["column"]): cell for cell in own["cells"]} for own in (table, expected))
    for row, column in sorted(ours.keys() | theirs.keys()):
        if ours.get((row, column)) != theirs.get((row, column)):
            return f"{row}, {column}: is not what the committed cells give"
    fields = (name for name in expected if name not in ("faults", "absent") and table.get(name) != expected[name])
    return "".join(f"{name}: is not what the committed cells give" for name in list(fields)[:1])
