"""Short forms of every benchmark of this folder, in one table.

    make bench        or: python -m experiments.benchmarks [--only=train_step,…] [--peer=PYTHON] [--out=FILE]

A benchmark is a module here with a function `short(peer)` that gives rows of the table and what it left out. Peers
that are not installed are named and left out (`make compare` installs them); the long forms are the modules
themselves, e.g. `python -m experiments.benchmarks.train_step`.
"""

from __future__ import annotations

import importlib
import pathlib
import sys
import time
from typing import Any

from numjax.bundled.experiments import command
from numjax.bundled.experiments.benchmarks import pairs
from numjax.errors import UsageError


def main(words: list[str] | None = None) -> dict[str, Any]:
    """Prints the table, what was left out, and the results as JSON on the last line."""
    found = benchmarks()
    made = command.Parser(prog="python -m experiments.benchmarks", description=(__doc__ or "").splitlines()[0])
    made.add_argument("--only", default=",".join(found), help=f"comma-separated, of {', '.join(found)}")
    made.add_argument("--peer", default=str(pairs.PEER), help="the Python of the comparisons")
    made.add_argument("--out", help="a JSON file to write")
    options = made.parse_args(words)
    names = options.only.split(",")
    if unknown := [name for name in names if name not in found]:
        raise UsageError(f"--only={unknown[0]}: the benchmarks are {', '.join(found)}")
    where = pairs.machine()
    print(f"{where['processor']} ({where['family']}), {where['cores']} cores, {where['memory_gib']} GiB", flush=True)
    rows: list[pairs.Row] = []
    left_out: list[str] = []
    for name in names:
        print(f"{name}: short form", flush=True)
        start = time.monotonic()
        more, without = found[name].short(options.peer)
        rows += more
        left_out += [f"{name} without {one}" for one in without]
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    print(pairs.table(rows))
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    result = {"machine": where, "rows": [row._asdict() | {"reached": row.verdict} for row in rows]}
    pairs.write(result | {"left_out": left_out}, options.out)
    return result


def benchmarks() -> dict[str, Any]:
    """The modules of this folder that have a short form, by name."""
    here = pathlib.Path(__file__).parent
    # Peers import what only their own environment has: whether a module is a benchmark is read, not tried.
    names = [path.stem for path in sorted(here.glob("*.py")) if "\ndef short(" in path.read_text()]
    return {name: importlib.import_module(f"numjax.bundled.experiments.benchmarks.{name}") for name in names}


if __name__ == "__main__":
    command.entry(main)
