"""The command line that all experiments share."""

from __future__ import annotations

import argparse
import contextlib
import difflib
import pathlib
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

from numjax.bundled.experiments import sources, stored
from numjax.errors import DataError, Diverged, Preempted, UsageError
from numjax.runtime import stop
from numjax.tools.command import Parser

SEEDS = {"smoke": 2, "laptop": 3, "paper": 5}


def make_parser(description: str, out: str, seeds: Mapping[str, int] = SEEDS) -> Parser:
    """A parser with --scale, --seeds, --out, --known, --same_code, --as_published and --dirty.

    Args:
      out: the default folder; "{scale}" in it stands for the scale.
      seeds: scale → number of seeds by default. These are the scales.
    """
    parser = Parser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", choices=tuple(seeds), default="laptop", help="sizes; laptop by default")
    parser.add_argument(
        "--seeds",
        type=int,
        default=0,
        help=f"how many; by default {', '.join(f'{count} at {scale}' for scale, count in seeds.items())}",
    )
    parser.add_argument("--out", default="", help=f"folder of runs and results; by default {out}")
    parser.add_argument(
        "--known", default="", help="NAME.json of tables made before or elsewhere, separated by commas"
    )
    parser.add_argument("--same_code", action="store_true", help="leave out results of --known by other code")
    parser.add_argument("--as_published", action="store_true", help="with the defects of the paper's code")
    add_dirty(parser)
    parser.set_defaults(default_out=out, default_seeds=seeds)
    return parser


def parse_options(parser: Parser, words: Sequence[str] | None) -> argparse.Namespace:
    """The parsed options; `seeds` becomes a list, `out` a path.

    Raises:
      UsageError: an option is wrong, --known names a file that is no table, or the code has changes that are not
        committed; smoke scale, which is for form alone, may run with them.
    """
    options = parser.parse_args(words)
    check_code(options.dirty or options.scale == "smoke")
    if options.seeds < 0:
        raise UsageError(f"--seeds={options.seeds}: give how many seeds to run, 1 or more")
    options.seeds = list(range(options.seeds or options.default_seeds[options.scale]))
    options.out = pathlib.Path(options.out or options.default_out.format(scale=options.scale)).expanduser()
    stored.adopt(filter(None, options.known.split(",")), options.out, options.same_code)
    return options


def add_dirty(parser: Parser) -> None:
    """Adds --dirty to a parser."""
    parser.add_argument("--dirty", action="store_true", help="run with changes that are not committed; tables say so")


def check_code(dirty: bool) -> None:
    """Raises UsageError if code has changes that are not committed, unless `dirty` allows it."""
    if not dirty and (changes := sources.list_changes()):
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        raise UsageError(
            f"code has changes that are not committed ({', '.join(changes[:3])}{more}): commit them, so that the "
            "table can name its code, or give --dirty, and the table says so"
        )


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


def entry(main: Callable[[], Any], starts_programs: bool = False) -> None:
    """Calls `main`; prints an error that a user can act on as one line and exits with its code. SIGTERM and Ctrl-C
    exit with 143; what is finished or saved stays.

    Args:
      starts_programs: see `raise_when_stopped`.
    """
    with raise_when_stopped() if starts_programs else stop.exit_when_stopped():
        try:
            main()
        except (UsageError, DataError, Diverged, Preempted) as error:
            print(f"numjax: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
            sys.exit(error.exit_code)


@contextlib.contextmanager
def raise_when_stopped() -> Iterator[None]:
    """Makes SIGTERM and Ctrl-C raise Preempted until the block ends, in a process that trains nothing and waits for
    others that it started: the error ends them first. `stop.exit_when_stopped` is for all other processes."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set handlers
        yield
        return

    def raise_stop(number: int, frame: Any) -> NoReturn:
        del number, frame
        raise Preempted(stop.MESSAGE)

    old_handlers = {number: signal.signal(number, raise_stop) for number in stop.SIGNALS}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
