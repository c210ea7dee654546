"""What MathGPT's tables on Math23K share: the systems, a config a fold, and results by fold."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from experiments import command, report, runs, tables
from experiments.runs import Cell, Results
from experiments.tables import Column, Published, Row
from numjax import roots

OUT = "runs/mathgpt-{scale}"
TASK = "math23k"
REFERENCE = "mathgpt"
FOLDS = {"smoke": 2, "laptop": 5, "paper": 5}
# Enough for statistics, few enough for seconds.
SMOKE_SIZE = 200

# TED counts a text that is no formula as the number of nodes that it lacks; "read" leaves such texts out.
COLUMNS = [
    Column("Tree Match", TASK, "tree_match"),
    Column("Solve Rate", TASK, "solve_rate"),
    Column("TED", TASK, "TED", scale=1.0, digits=3),
    Column("TED, read", TASK, "TED_read", scale=1.0, digits=3),
    Column("read", TASK, "read"),
]


def parser(description: str) -> Any:
    """The options of all experiments, with folds for seeds, and --path."""
    made = command.parser(description, OUT, FOLDS)
    made.add_argument("--path", default="", help="Math23K's file; without it, generated problems")
    made.add_argument("--only", default="", help="systems, separated by commas")
    return made


def run(options: argparse.Namespace, systems: Mapping[str, str]) -> Results:
    """(TASK, system) → fold → result; fold n is trained with seed n.

    Args:
      systems: name → argument of configs/mathgpt.py, such as "without=tpe".
    """
    wanted = command.only(options.only, [TASK], systems)
    chosen = [(name, words) for name, words in systems.items() if wanted(TASK, name)]
    found: Results = {(TASK, name): {} for name, _ in chosen}
    for fold in options.seeds:
        cells = [cell(options, name, words, fold) for name, words in chosen]
        for (_, name), of in runs.run(cells, [fold], options.out).items():
            found[TASK, name].update(of)
    return found


def cell(options: argparse.Namespace, name: str, words: str, fold: int) -> Cell:
    """A system on a fold."""
    return Cell(f"{TASK}-{fold}", name, config(options, words, fold))


def config(options: argparse.Namespace, words: str, fold: int) -> Any:
    """The config of a system on a fold."""
    roots.put_on_path()
    from configs import mathgpt

    argument = [options.scale, *filter(None, [words]), *["as_published"] * options.as_published]
    made: Any = mathgpt.get_config(",".join(argument))
    with made.unlocked():
        made.log_every = 50 if options.scale == "smoke" else 250
        made.task.update(path=options.path, fold=fold)
        if options.scale == "smoke":
            made.task.size = SMOKE_SIZE
    return made


def remarks(options: argparse.Namespace) -> Sequence[str]:
    """What a table says of its data."""
    problems = "Math23K in English" if options.path else "the generated stand-in, whose wording is simple"
    return [
        f"On {problems}; a tenth of what is not test for validation, the epoch with the lowest loss there counts.",
        "In percent, but for TED; mean ± standard deviation over folds; every system is trained from scratch.",
        "Solve Rate compares with the stated answer. TED charges what could not be read with all of the right nodes; "
        + "“TED, read” leaves it out, as the paper does. A number is one node; in the paper each digit is.",
    ]


def table(
    name: str,
    title: str,
    doc: str | None,
    systems: Mapping[str, str],
    labels: Mapping[str, str],
    paper: Mapping[str, Mapping[str, tuple[float, float]]],
    words: Sequence[str] | None,
) -> tuple[argparse.Namespace, str, list[dict[str, Any]]]:
    """Runs what is missing and writes NAME.{md,json}: (options, the table's text, entries of `tables.compare`).

    Args:
      systems: see `run`; labels: of them. paper: system → title of the column → mean and deviation.
    """
    options = command.parse(parser(doc or ""), words)
    results = run(options, systems)
    rows = [
        Row(labels[system], system, {column: Published(*pair) for column, pair in paper[system].items()})
        for system in systems
    ]
    entries = tables.compare(results, rows, COLUMNS, REFERENCE)
    parts = {"": (entries, COLUMNS)}
    text = report.publish(name, title, remarks(options), parts, results, options, labels[REFERENCE], per="fold")
    return options, text, entries
