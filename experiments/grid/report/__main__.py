"""The report of a grid's folder of cells: a page for a browser, a picture and tables, in seconds.

    python -m experiments.grid.report --out=runs/grid
    python -m experiments.grid.report --out=runs/grid --results=experiments/grid/results    # and the files to commit

Writes grid.html with all that the folder holds, and grid.md, grid.png and grid.json of the largest scale.
Other scales and sizes get files of their own, such as grid_smoke.md. Files that are no cells, and cells of other
problems or settings than the rest of their map, are named and left out. With --results, cells that were committed
before and that the folder lacks are copied to it first, so that nothing is lost. A cell that is another result than
the committed one, or that was made by uncommitted code, is refused.
"""

from __future__ import annotations

import argparse
import pathlib
import time
from collections.abc import Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.grid import archive
from numjax.bundled.experiments.grid.report import files
from numjax.tools.command import Parser


def main(words: Sequence[str] | None = None) -> None:
    """Writes the report and prints what is in it."""
    parser = Parser(
        prog="python -m experiments.grid.report", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--out", required=True, help="the folder of a grid: it holds cells/*.json")
    parser.add_argument("--results", help="a folder for files to commit, such as experiments/grid/results")
    command.add_dirty(parser)
    options = parser.parse_args(words)
    if options.results:
        command.check_code(options.dirty)
    start = time.monotonic()
    out, results = (pathlib.Path(text or "").expanduser() for text in (options.out, options.results))
    if options.results:
        count, conflicts = archive.unpack(results, out)
        for line in conflicts:
            print(line)
        if count:
            print(f"{count} cells of {results} were not in {out} and are there now")
    made = files.write(out)
    for line in [*made.faults, *made.repeated, *made.left_out]:
        print(line)
    names = ", ".join(f"{name}.md, {name}.png" for name in made.contents)
    left_out = f"; {len(made.faults)} files are no cells and left out" * bool(made.faults)
    print(
        f"{out}: {files.PAGE} ({len(made.page.encode()) / 1e6:.1f} MB), {names}: {made.n_cells} cells{left_out}; "
        f"{time.monotonic() - start:.0f} s"
    )
    if options.results:
        print(f"{results}: cells of {len(archive.pack(out, results))} rows")
        for folder in files.publish(made, results):
            print(f"{folder}: {files.NAME}.json, {files.NAME}.md, {files.NAME}.png")


if __name__ == "__main__":
    command.entry(main)
