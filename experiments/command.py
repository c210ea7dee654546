"""The command line that all experiments share."""

from __future__ import annotations

import argparse
import difflib
import os
import pathlib
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from numjax.bundled.experiments import runs
from numjax.errors import DataError, Diverged, Preempted, UsageError
from numjax.tools.command import Parser

SCALES = ("smoke", "laptop", "paper")
SEEDS = {"smoke": 2, "laptop": 3, "paper": 5}


def parser(description: str, out: str, seeds: Mapping[str, int] = SEEDS) -> Parser:
    """--scale, --seeds, --out, --known and --as_published.

    Args:
      out: the default folder; "{scale}" in it stands for the scale.
      seeds: scale → how many by default.
    """
    made = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--scale", choices=SCALES, default="laptop", help="sizes; laptop by default")
    made.add_argument(
        "--seeds",
        type=int,
        default=0,
        help="how many; by default {laptop}, at paper {paper}, at smoke {smoke}".format(**seeds),
    )
    made.add_argument("--out", default="", help=f"folder of runs and results; by default {out}")
    made.add_argument("--known", default="", help="NAME.json of tables made before or elsewhere, separated by commas")
    made.add_argument("--as_published", action="store_true", help="with the defects of the paper's code")
    made.set_defaults(default_out=out, default_seeds=seeds)
    return made


def parse(made: Parser, words: Sequence[str] | None) -> argparse.Namespace:
    """The options; `seeds` becomes the list of them, `out` a path.

    Raises:
      UsageError: a bad option, or --known names no tables.
    """
    found = made.parse_args(words)
    if found.seeds < 0:
        raise UsageError(f"--seeds={found.seeds}: give how many seeds to run, 1 or more")
    found.seeds = list(range(found.seeds or found.default_seeds[found.scale]))
    found.out = pathlib.Path(found.out or found.default_out.format(scale=found.scale)).expanduser()
    runs.adopt(filter(None, found.known.split(",")), found.out)
    return found


def only(words: str, tasks: Iterable[str], systems: Iterable[str]) -> Callable[[str, str], bool]:
    """Whether --only names a (task, system): comma-separated tasks, systems, or task/system; empty is all.

    Raises:
      UsageError: an unknown name; the nearest ones are given.
    """
    tasks, systems = list(tasks), list(systems)
    chosen: list[tuple[str | None, str | None]] = []
    for word in filter(None, (part.strip() for part in words.split(","))):
        task, slash, system = word.partition("/")
        if not slash and task in systems:
            task, system = "", task
        for name, known in ((task, tasks), (system, systems)):
            if name and name not in known:
                near = difflib.get_close_matches(name, [*tasks, *systems], 3, 0.4) or [*tasks, *systems]
                raise UsageError(f"--only={word}: {name!r} is unknown: did you mean {', '.join(near)}?")
        chosen.append((task or None, system or None))
    return lambda task, system: (
        not chosen or any(t in (None, task) and s in (None, system) for t, s in chosen)
    )  # fmt: skip


def entry(main: Callable[[], Any]) -> None:
    """Calls `main`; an error that a user can act on is one line and its exit code. SIGTERM exits 143."""

    def stop(number: int, frame: Any) -> NoReturn:
        del number, frame
        raise Preempted("stopped; what is done is kept: run the same command to go on")

    # While a run trains, the loop has its own handlers, which save first.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        main()
    except (UsageError, DataError, Diverged, Preempted) as error:
        print(f"numjax: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        # Background threads (checkpoints, prefetch) have nothing left to do: the error says what is kept.
        os._exit(error.exit_code)
