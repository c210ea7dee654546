"""Runs the short form of every benchmark of this folder and prints one table.

    make bench        or: python -m experiments.benchmarks [--only=train_step,…] [--peer=PYTHON] [--out=FILE]

A benchmark is a module here with a function `short(peer)` that returns rows of the table and the peers it left out.
Peers that are not installed are left out and named (`make compare` installs them). The long forms are the modules
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
    """Prints the table, the peers that were left out, and the results as JSON on the last line."""
    modules = load_benchmarks()
    parser = command.Parser(prog="python -m experiments.benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(modules), help=f"comma-separated, of {', '.join(modules)}")
    parser.add_argument("--peer", default=str(pairs.PEER), help="the Python of the comparisons")
    parser.add_argument("--out", help="a JSON file to write")
    options = parser.parse_args(words)
    names = options.only.split(",")
    if unknown_names := [name for name in names if name not in modules]:
        raise UsageError(f"--only={unknown_names[0]}: the benchmarks are {', '.join(modules)}")
    machine = pairs.describe_machine()
    print(
        f"{machine['processor']} ({machine['family']}), {machine['cores']} cores, {machine['memory_gib']} GiB",
        flush=True,
    )
    rows: list[pairs.BenchmarkRow] = []
    left_out: list[str] = []
    for name in names:
        print(f"{name}: short form", flush=True)
        start = time.monotonic()
        new_rows, missing_peers = modules[name].short(options.peer)
        rows += new_rows
        left_out += [f"{name} without {peer}" for peer in missing_peers]
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)
    print(pairs.format_table(rows))
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    result = {"machine": machine, "rows": [row._asdict() | {"reached": row.verdict} for row in rows]}
    pairs.write_result(result | {"left_out": left_out}, options.out)
    return result


def load_benchmarks() -> dict[str, Any]:
    """The modules of this folder that have a short form, by name."""
    folder = pathlib.Path(__file__).parent
    # Peers import packages that only their own environment has: they are searched as text, not imported.
    names = [path.stem for path in sorted(folder.glob("*.py")) if "\ndef short(" in path.read_text()]
    return {name: importlib.import_module(f"numjax.bundled.experiments.benchmarks.{name}") for name in names}


if __name__ == "__main__":
    command.entry(main)
