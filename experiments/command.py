"""The command line that all experiments share."""

from __future__ import annotations

import argparse
import difflib
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


def make_parser(description: str, out: str, seeds: Mapping[str, int] = SEEDS) -> Parser:
    """A parser with --scale, --seeds, --out, --known and --as_published.

    Args:
      out: the default folder; "{scale}" in it stands for the scale.
      seeds: scale → number of seeds by default.
    """
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=SCALES, default="laptop", help="sizes; laptop by default")
    parser.add_argument(
        "--seeds",
        type=int,
        default=0,
        help="how many; by default {laptop}, at paper {paper}, at smoke {smoke}".format(**seeds),
    )
    parser.add_argument("--out", default="", help=f"folder of runs and results; by default {out}")
    parser.add_argument(
        "--known", default="", help="NAME.json of tables made before or elsewhere, separated by commas"
    )
    parser.add_argument("--as_published", action="store_true", help="with the defects of the paper's code")
    parser.set_defaults(default_out=out, default_seeds=seeds)
    return parser


def parse_options(parser: Parser, words: Sequence[str] | None) -> argparse.Namespace:
    """The parsed options; `seeds` becomes a list, `out` a path.

    Raises:
      UsageError: an option is wrong, or --known names a file that is no table.
    """
    options = parser.parse_args(words)
    if options.seeds < 0:
        raise UsageError(f"--seeds={options.seeds}: give how many seeds to run, 1 or more")
    options.seeds = list(range(options.seeds or options.default_seeds[options.scale]))
    options.out = pathlib.Path(options.out or options.default_out.format(scale=options.scale)).expanduser()
    runs.adopt(filter(None, options.known.split(",")), options.out)
    return options


def parse_only(words: str, tasks: Iterable[str], systems: Iterable[str]) -> Callable[[str, str], bool]:
    """A predicate of (task, system): whether --only names it. An empty --only names all.

    Args:
      words: tasks, systems or task/system, separated by commas.

    Raises:
      UsageError: an unknown name; the message gives the nearest ones.
    """
    tasks, systems = list(tasks), list(systems)
    selection: list[tuple[str | None, str | None]] = []
    for word in filter(None, (part.strip() for part in words.split(","))):
        task, slash, system = word.partition("/")
        if not slash and task in systems:
            task, system = "", task
        for name, names in ((task, tasks), (system, systems)):
            if name and name not in names:
                matches = difflib.get_close_matches(name, [*tasks, *systems], 3, 0.4) or [*tasks, *systems]
                raise UsageError(f"--only={word}: {name!r} is unknown: did you mean {', '.join(matches)}?")
        selection.append((task or None, system or None))
    return lambda task, system: (
        not selection or any(t in (None, task) and s in (None, system) for t, s in selection)
    )  # fmt: skip


def entry(main: Callable[[], Any]) -> None:
    """Calls `main`; prints an error that a user can act on as one line and exits with its code. SIGTERM exits 143."""

    def stop(number: int, frame: Any) -> NoReturn:
        del number, frame
        raise Preempted("stopped; finished runs are kept: run the same command to resume")

    # During training the loop has its own handlers, which save first.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        main()
    except (UsageError, DataError, Diverged, Preempted) as error:
        print(f"numjax: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
        sys.exit(error.exit_code)
