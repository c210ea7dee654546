"""The grid: every way of writing numbers on every arithmetic operation, on equal data. Cells go to OUT/cells.

    python -m experiments.grid --scale=smoke                       # every row on copy, add and max: over an hour
    python -m experiments.grid --scale=cpu --rows=digits,fone      # one model a row for all columns: an hour each
    python -m experiments.grid --scale=full --size=6x512 --executor=slurm --seeds=3 --resources=timeout=600
    python -m experiments.grid --list                              # what each row can represent

Cells that exist are not run again, and a run that was stopped resumes. See README.md beside this file.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence

from numjax.bundled.experiments import command
from numjax.bundled.experiments.grid import abilities, archive, executors, rows, training
from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.rows import Row
from numjax.bundled.experiments.grid.runner import DONE, FAILED, HELD, KEPT, STOPPED, Outcome, describe_parts
from numjax.bundled.experiments.grid.scales import SCALES, Scale, choose_columns, make_scale
from numjax.errors import UsageError
from numjax.tools.command import Parser


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command line; returns 1 if a job failed, else 0."""
    options = make_parser().parse_args(words)
    scale = make_scale(options.scale, options.size)
    chosen = rows.choose_rows(rows.list_rows(options.add), _split(options.rows))
    columns = choose_columns(_split(options.columns), scale)
    if options.list:
        print_abilities(chosen, columns, scale)
        return 0
    command.check_code(options.dirty or scale.name == "smoke")
    jobs = list_jobs(chosen, scale, columns, options)
    if options.known:
        known, out = (pathlib.Path(text).expanduser() for text in (options.known, options.out))
        if not archive.list_files(known):
            raise UsageError(
                f"--known={known}: it holds no SCALE/cells/ROW.json.gz: give a folder of committed cells"
            )
        count, conflicts = archive.unpack(known, out)
        print(*conflicts, f"{count} cells taken from {known}", sep="\n")
    counts: Counter[str] = Counter()
    n_cells = 0
    for outcome in run_all(options.executor, jobs, read_options(options)):
        counts[outcome.state] += 1
        n_cells += outcome.cells
        if outcome.state != KEPT:
            print(f"[{sum(counts.values())} of {len(jobs)}] {outcome.message}", file=sys.stderr, flush=True)
    parts = [f"{counts[state]} runs {text}" for state, text in STATES.items() if counts[state]]
    print(f"{n_cells} cells written to {pathlib.Path(options.out) / 'cells'}; {', '.join(parts)}")
    return int(counts[FAILED] > 0)


def run_all(executor: str, jobs: Sequence[Job], options: executors.Options) -> Iterator[Outcome]:
    """The outcomes of all jobs. Those that another runner has are asked for again at the end: it may have died."""
    held = []
    for outcome in executors.run(executor, jobs, options):
        if outcome.state == HELD:
            held.append(outcome.job)
        else:
            yield outcome
    again = [job for job in jobs if job.name in held]
    if again:
        yield from executors.run(executor, again, options, executors.work_patiently)


STATES = {DONE: "done", KEPT: "were there", HELD: "are with other runners", STOPPED: "were stopped", FAILED: "failed"}


def make_parser() -> Parser:
    """The parser of the command line."""
    parser = Parser(
        prog="python -m experiments.grid", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--scale", choices=list(SCALES), default="smoke", help="sizes; smoke by default")
    add("--size", default="", help="LAYERSxWIDTH of the models at full scale, 4x256 by default")
    add("--rows", default="", help="names, separated by commas; all by default")
    add("--columns", default="", help="names, separated by commas; all of the scale by default")
    add("--seeds", type=int, default=1, help="how many; 1 by default")
    add(
        "--add", action="append", default=[], metavar="NAME=ROW CHANGES",
        help='a row of your own, such as --add="waves=xval embeds.numeral=waves"',
    )  # fmt: skip
    add("--out", default="runs/grid", help="folder of the cells; runs/grid by default")
    add("--known", default="", help="a folder of committed cells, such as experiments/grid/results: they are not run")
    add("--executor", choices=executors.NAMES, default="local", help="where jobs run; local by default")
    add("--workers", type=int, default=1, help="processes of the executor local; 1 by default")
    add("--cpus", type=int, default=0, help="of each job on a cluster")
    add("--gpus", type=int, default=0, help="of each job on a cluster")
    add("--resources", default="", help="more for the executor, NAME=VALUE separated by commas")
    add("--same_code", action="store_true", help="run cells of other code than the present one again")
    add("--list", action="store_true", help="print rows, columns and what they can represent; run nothing")
    command.add_dirty(parser)
    return parser


def read_options(options: argparse.Namespace) -> executors.Options:
    """The executor's options of a command line.

    Raises:
      UsageError: a number or a resource is wrong.
    """
    if options.workers < 1 or options.cpus < 0 or options.gpus < 0:
        raise UsageError("--workers must be at least 1, --cpus and --gpus at least 0")
    pairs = [word.partition("=") for word in _split(options.resources)]
    if wrong := [name for name, equals, value in pairs if not (name and equals and value)]:
        raise UsageError(f"--resources={wrong[0]}: give NAME=VALUE, such as timeout=600")
    resources = {name: value for name, _, value in pairs}
    return executors.Options(options.workers, options.cpus, options.gpus, resources)


def list_jobs(chosen: Sequence[Row], scale: Scale, columns: Sequence[str], options: argparse.Namespace) -> list[Job]:
    """The jobs: baselines first, then all rows with the first seed, all rows with the second, …

    Raises:
      UsageError: there is no seed.
    """
    if options.seeds < 1:
        raise UsageError(f"--seeds={options.seeds}: give how many, 1 or more")
    out = str(pathlib.Path(options.out).expanduser().absolute())
    groups = [scale.columns] if scale.is_joint else [(column,) for column in columns]
    jobs = []
    for seed in range(options.seeds):
        for row in sorted(chosen, key=lambda row: row.kind != "baseline"):
            if row.kind == "baseline" and seed:
                continue  # it has no seed
            needed = tuple(columns)
            jobs += [Job(row, scale, tuple(group), seed, out, options.same_code, needed) for group in groups]
    return [job._replace(needed=tuple(name for name in job.columns if name in job.needed)) for job in jobs]


def print_abilities(chosen: Sequence[Row], columns: Sequence[str], scale: Scale) -> None:
    """Prints each row with its parts, the positions that it takes for a number, and the share of each column's test
    answers that it can write, on a sample of the problems."""
    sample = scale._replace(problems=200, test=10)
    print("In per cent: the share of the test answers of a column that a row can write, on a sample of its problems.")
    print("row", "parts", "slots a number", *columns, sep="\t")
    for row in chosen:
        if row.kind == "baseline":
            print(row.name, "no model", "", *("" for _ in columns), sep="\t")
            continue
        config = rows.make_config(row, sample, columns)
        with tempfile.TemporaryDirectory() as folder:
            _, records, own = training.build_system(config, pathlib.Path(folder))
        slots = abilities.slots_per_number(own) or 0.0
        names = [record["operation"] for record in records]
        shares = []
        for column in columns:
            pairs = [(r, a) for r, a, name in zip(records, own, names, strict=True) if name == column]
            ceilings = abilities.list_ceilings([record for record, _ in pairs], [ability for _, ability in pairs])
            shares.append(f"{100 * ceilings['all']:.0f}%")
        parts = describe_parts(config)
        text = " · ".join(parts[kind] for kind in ("scheme", "embeds", "heads", "objectives", "positions"))
        print(row.name, text, f"{slots:.1f}", *shares, sep="\t", flush=True)


def _split(words: str) -> list[str]:
    return [word.strip() for word in words.split(",") if word.strip()]


if __name__ == "__main__":
    command.entry(lambda: sys.exit(main()))
