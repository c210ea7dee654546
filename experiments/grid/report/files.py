"""The files of a report: what is written beside the cells of a folder, and whether it is still theirs."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from numjax.bundled.experiments import report
from numjax.bundled.experiments.grid.report import folder, maps, render, table
from numjax.errors import UsageError
from numjax.runtime import files

PAGE = "grid.html"


class Report(NamedTuple):
    """What a folder's cells show.

    Attributes:
      page: the HTML. contents: name of a file, such as "grid" → content of its JSON.
      n_cells: how many were read. faults: a line for each file that is no cell, repeated: for each that another
        file of the same cell replaces, left_out: for each group of cells that cannot be compared with the others.
    """

    page: str
    contents: dict[str, dict[str, Any]]
    n_cells: int
    faults: list[str]
    repeated: list[str]
    left_out: list[str]


def make_report(out: pathlib.Path) -> Report:
    """The report of a folder of cells.

    Raises:
      UsageError: there are no cells.
    """
    cells, faults = folder.read_cells(out)
    grids, repeated = maps.make_maps(cells)
    page = render.make_page(grids, [*faults, *repeated])
    contents = {grid.name: table.make_content(grid, faults) for grid in grids}
    left_out = [line for grid in grids for line in grid.left_out]
    return Report(page, contents, len(cells), faults, repeated, left_out)


def write(out: pathlib.Path) -> Report:
    """Writes grid.html, and for each map NAME.json, NAME.md and NAME.png.

    Raises:
      UsageError: there are no cells, or a file cannot be written.
    """
    made = make_report(out)
    for name, content in made.contents.items():
        report.write(name, out, table.NAME, content)
    try:
        files.write(out / PAGE, made.page)
    except OSError as error:
        raise UsageError(f"cannot write {out / PAGE} ({error.strerror}): choose another --out") from error
    return made


def check(out: pathlib.Path) -> Iterator[tuple[pathlib.Path, str]]:
    """Yields (file, what is wrong with it) for the files of a report that its cells do not make."""
    try:
        made = make_report(out)
    except UsageError as error:
        yield out / "cells", str(error)
        return
    remedy = "draw it again: python -m experiments.verify --write"
    for name, content in made.contents.items():
        path = out / f"{name}.json"
        stored = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        # Its commit is that of the code that drew it.
        if {key: value for key, value in stored.items() if key in content} != json.loads(json.dumps(content)):
            yield path, f"is not what the cells beside it make; {remedy}"
    if not (out / PAGE).is_file() or (out / PAGE).read_text("utf-8") != made.page:
        yield out / PAGE, f"is not the page of the cells beside it; {remedy}"
