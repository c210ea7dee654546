"""The command line that the benchmarks share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence

from numjax.bundled.experiments.benchmarks import pairs
from numjax.errors import UsageError
from numjax.tools import command


def parser(name: str, doc: str | None, shape: Mapping[str, int], rounds: int) -> command.Parser:
    """--rounds, --out and a flag for each size of the shape.

    Args:
      name: of the module; doc: its docstring.
    """
    made = command.Parser(prog=f"python -m experiments.benchmarks.{name}", description=(doc or "").splitlines()[0])
    made.add_argument("--rounds", type=int, default=rounds)
    made.add_argument("--out", help="a JSON file to write")
    for key, value in shape.items():
        made.add_argument(f"--{key}", type=int, default=value)
    return made


def add_contenders(
    made: command.Parser, default: Sequence[str], known: Sequence[str], workers: Sequence[str]
) -> None:
    """--peer and --contenders, and what the benchmark starts its own contenders with."""
    made.add_argument("--peer", default=str(pairs.PEER), help="a Python that has the peers' libraries")
    made.add_argument("--contenders", default=",".join(default), help=f"comma-separated, of {', '.join(known)}")
    made.add_argument("--worker", choices=workers, help="used by the benchmark itself")
    made.add_argument("--files", help="used by the benchmark itself")


def shape_of(options: argparse.Namespace, shape: Mapping[str, int]) -> dict[str, int]:
    """The sizes that were given."""
    return {name: getattr(options, name) for name in shape}


def contenders(
    options: argparse.Namespace, known: Collection[str], peers: Collection[str], needs: Sequence[str]
) -> list[str]:
    """The contenders that were named, without peers whose libraries are not there, which is said.

    Raises:
      UsageError: one of them is unknown.
    """
    names = options.contenders.split(",")
    if unknown := [name for name in names if name not in known]:
        raise UsageError(f"--contenders: {unknown[0]!r} is none of {', '.join(known)}")
    asked = [name for name in names if name in peers]
    if asked and (why := pairs.lacking(options.peer, list(needs))):
        print(f"{' and '.join(asked)} {'is' if len(asked) == 1 else 'are'} left out: {why}", file=sys.stderr)
        names = [name for name in names if name not in peers]
    return names


def batches(options: argparse.Namespace, shape: Mapping[str, int]) -> list[int]:
    """--rows of a benchmark that writes texts.

    Raises:
      UsageError: they are no numbers, or what is read and written does not fit into the length.
    """
    sizes = options.rows.split(",")
    if not all(size.isdigit() and int(size) for size in sizes) or shape["prompt"] + shape["new"] > shape["length"]:
        raise UsageError("--rows are positive numbers, and --prompt and --new fit into --length")
    return list(map(int, sizes))
