"""What MathGPT's cross-validated tables share: the systems, a config a fold, and results by fold."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments import command, report, runs, tables
from numjax.bundled.experiments.runs import Cell, Results
from numjax.bundled.experiments.tables import Column, Published, Row

OUT = "runs/mathgpt-{scale}"
REFERENCE = "mathgpt"
FOLDS = {"smoke": 2, "laptop": 5, "paper": 5}
# Enough for statistics, few enough for seconds.
SMOKE_SIZE = 200


class Study(NamedTuple):
    """A task in five folds.

    Attributes:
      task: its name in results. word: task=… of configs/mathgpt.py. columns: of its tables.
      real, stand_in: what its data are with --path and without. remarks: on the columns.
    """

    task: str
    word: str
    columns: Sequence[Column]
    real: str
    stand_in: str
    remarks: tuple[str, ...] = ()


EQUATION = Study(
    "math23k",
    "equation",
    # TED counts a text that is no formula as the number of nodes that it lacks; "read" leaves such texts out.
    [
        Column("Tree Match", "math23k", "tree_match"),
        Column("Solve Rate", "math23k", "solve_rate"),
        Column("TED", "math23k", "TED", scale=1.0, digits=3),
        Column("TED, read", "math23k", "TED_read", scale=1.0, digits=3),
        Column("read", "math23k", "read"),
    ],
    "Math23K in English",
    "the generated stand-in, whose wording is simple",
    (
        "In percent, but for TED; mean ± standard deviation over folds; every system is trained from scratch.",
        "Solve Rate compares with the stated answer. TED charges what could not be read with all of the right nodes; "
        "“TED, read” leaves it out, as the paper does. A number is one node; in the paper each digit is.",
    ),
)


def parser(description: str, study: Study = EQUATION) -> Any:
    """The options of all experiments, with folds for seeds, and --path."""
    made = command.parser(description, OUT, FOLDS)
    made.add_argument("--path", default="", help=f"file or folder of {study.real}; without it, generated data")
    made.add_argument("--only", default="", help="systems, separated by commas")
    return made


def run(options: argparse.Namespace, systems: Mapping[str, str], study: Study = EQUATION) -> Results:
    """(task, system) → fold → result; fold n is trained with seed n.

    Args:
      systems: name → argument of configs/mathgpt.py, such as "without=tpe".
    """
    task = study.task
    wanted = command.only(options.only, [task], systems)
    chosen = [(name, words) for name, words in systems.items() if wanted(task, name)]
    found: Results = {(task, name): {} for name, _ in chosen}
    for fold in options.seeds:
        cells = [cell(options, name, words, fold, study) for name, words in chosen]
        for (_, name), of in runs.run(cells, [fold], options.out).items():
            found[task, name].update(of)
    return found


def cell(options: argparse.Namespace, name: str, words: str, fold: int, study: Study = EQUATION) -> Cell:
    """A system on a fold."""
    return Cell(f"{study.task}-{fold}", name, config(options, words, fold, study))


def config(options: argparse.Namespace, words: str, fold: int, study: Study = EQUATION) -> Any:
    """The config of a system on a fold."""
    from numjax.bundled.configs import mathgpt

    argument = [options.scale, f"task={study.word}", *filter(None, [words]), *["as_published"] * options.as_published]
    made: Any = mathgpt.get_config(",".join(argument))
    with made.unlocked():
        made.log_every = 50 if options.scale == "smoke" else 250
        made.task.update(path=options.path, fold=fold)
        if options.scale == "smoke":
            made.task.size = SMOKE_SIZE
    return made


def remarks(options: argparse.Namespace, study: Study = EQUATION) -> Sequence[str]:
    """What a table says of its data."""
    return [
        f"On {study.real if options.path else study.stand_in}; a tenth of what is not test for validation, the epoch "
        + "with the lowest loss there counts.",
        *study.remarks,
    ]


def table(
    name: str,
    title: str,
    doc: str | None,
    systems: Mapping[str, str],
    labels: Mapping[str, str],
    paper: Mapping[str, Mapping[str, tuple[float, ...]]],
    words: Sequence[str] | None,
    study: Study = EQUATION,
) -> tuple[argparse.Namespace, str, list[dict[str, Any]]]:
    """Runs what is missing and writes NAME.{md,json}: (options, the table's text, entries of `tables.compare`).

    Args:
      systems: see `run`. labels: of them, and of those that only the paper has, in the order of the rows.
      paper: system → title of the column → mean and deviation, where it has them.
    """
    options = command.parse(parser(doc or "", study), words)
    results = run(options, systems, study)
    rows = [
        Row(
            label,
            system if system in systems else None,
            {column: Published(*figures) for column, figures in paper.get(system, {}).items()},
        )
        for system, label in labels.items()
    ]
    entries = tables.compare(results, rows, study.columns, REFERENCE)
    parts = {"": (entries, study.columns)}
    text = report.publish(
        name, title, remarks(options, study), parts, results, options, labels[REFERENCE], per="fold"
    )
    return options, text, entries
