"""The files of a report: what is written beside the cells of a folder, and what of it is committed."""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

from numjax.bundled.experiments import report
from numjax.bundled.experiments.grid.report import clock, folder, maps, render, table
from numjax.errors import UsageError
from numjax.runtime import files

NAME = "grid"
PAGE = f"{NAME}.html"


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
    clocks, other_faults = clock.load_all(out)
    cells, faults = [clock.time_cell(cell, clocks.get(cell.scale)) for cell in cells], [*faults, *other_faults]
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


def publish(made: Report, results: pathlib.Path) -> list[pathlib.Path]:
    """Writes the largest map of each scale as RESULTS/SCALE/grid.json, grid.md and grid.png, the files to commit:
    `experiments.verify` checks them, and a page of the documentation shows them. Returns the folders.

    Raises:
      UsageError: a file cannot be written.
    """
    by_scale: dict[str, dict[str, Any]] = {}
    for content in made.contents.values():  # the largest first
        by_scale.setdefault(content["scale"], content)
    for scale, content in by_scale.items():
        report.write(NAME, results / scale, table.NAME, content)
    return [results / scale for scale in by_scale]
