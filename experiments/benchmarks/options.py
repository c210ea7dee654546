"""The command line that the benchmarks share."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Mapping, Sequence

from numjax.bundled.experiments.benchmarks import pairs
from numjax.errors import UsageError
from numjax.tools import command


def make_parser(name: str, doc: str | None, shape: Mapping[str, int], rounds: int) -> command.Parser:
    """A parser with --rounds, --out and a flag for each size of the shape.

    Args:
      name: of the module; doc: its docstring.
    """
    parser = command.Parser(prog=f"python -m experiments.benchmarks.{name}", description=(doc or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--out", help="a JSON file to write")
    for key, value in shape.items():
        parser.add_argument(f"--{key}", type=int, default=value)
    return parser


def add_contenders(
    parser: command.Parser, default: Sequence[str], names: Sequence[str], workers: Sequence[str]
) -> None:
    """Adds --peer and --contenders, and the flags with which the benchmark starts its own contenders."""
    parser.add_argument("--peer", default=str(pairs.PEER), help="a Python that has the peers' libraries")
    parser.add_argument("--contenders", default=",".join(default), help=f"comma-separated, of {', '.join(names)}")
    parser.add_argument("--worker", choices=workers, help="used by the benchmark itself")
    parser.add_argument("--files", help="used by the benchmark itself")


def parse_shape(options: argparse.Namespace, shape: Mapping[str, int]) -> dict[str, int]:
    """The shape with the sizes of the options."""
    return {name: getattr(options, name) for name in shape}


def parse_contenders(
    options: argparse.Namespace, known_names: Collection[str], peers: Collection[str], needs: Sequence[str]
) -> list[str]:
    """The names of --contenders; peers whose libraries are missing are left out, with a message.

    Raises:
      UsageError: a name is unknown.
    """
    names = options.contenders.split(",")
    if unknown_names := [name for name in names if name not in known_names]:
        raise UsageError(f"--contenders: {unknown_names[0]!r} is none of {', '.join(known_names)}")
    chosen_peers = [name for name in names if name in peers]
    if chosen_peers and (reason := pairs.explain_missing(options.peer, list(needs))):
        print(
            f"{' and '.join(chosen_peers)} {'is' if len(chosen_peers) == 1 else 'are'} left out: {reason}",
            file=sys.stderr,
        )
        names = [name for name in names if name not in peers]
    return names


def parse_batches(options: argparse.Namespace, shape: Mapping[str, int]) -> list[int]:
    """The batch sizes of --rows of a benchmark that generates text.

    Raises:
      UsageError: --rows are not positive numbers, or the prompt and the new tokens do not fit into the length.
    """
    sizes = options.rows.split(",")
    if not all(size.isdigit() and int(size) for size in sizes) or shape["prompt"] + shape["new"] > shape["length"]:
        raise UsageError("--rows must be positive numbers, and --prompt plus --new must fit into --length")
    return list(map(int, sizes))
