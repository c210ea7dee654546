"""Shared by MathGPT's cross-validated tables: the tasks, the config of each fold, and results by fold."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments import command, overnight, report, runs, tables, texts
from numjax.bundled.experiments.mathgpt import pretraining
from numjax.bundled.experiments.runs import Results, RunCell
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow

OUT = "runs/mathgpt-{scale}"
REFERENCE = "mathgpt"
FOLDS = {"smoke": 2, "laptop": 5, "overnight": 5, "paper": 5}
# Enough for statistics, few enough for seconds.
SMOKE_SIZE = 200


class FoldedTask(NamedTuple):
    """A task in five folds.

    Attributes:
      task: its name in results. word: task=… of configs/mathgpt.py. columns: of its tables.
      field: of its records that is asked.
      real, stand_in: name of its data with --path and without. remarks: on the columns.
    """

    task: str
    word: str
    columns: Sequence[TableColumn]
    real: str
    stand_in: str
    remarks: tuple[str, ...] = ()
    field: str = "problem"


EQUATION = FoldedTask(
    "math23k",
    "equation",
    # For a text that is no formula, TED is the number of nodes of the right tree; "read" leaves such texts out.
    [
        TableColumn("Tree Match", "math23k", "tree_match"),
        TableColumn("Solve Rate", "math23k", "solve_rate"),
        TableColumn("TED", "math23k", "TED", scale=1.0, digits=3),
        TableColumn("TED, read", "math23k", "TED_read", scale=1.0, digits=3),
        TableColumn("read", "math23k", "read"),
    ],
    "Math23K in English",
    "the generated stand-in, whose wording is simple",
    (
        "In percent, but for TED; mean ± standard deviation over folds.",
        "Solve Rate compares with the stated answer. TED charges what could not be read with all of the right nodes; "
        "“TED, read” leaves it out, as the paper does. A number is one node; in the paper each digit is.",
    ),
    field="text_en",
)


def make_parser(description: str, folded_task: FoldedTask = EQUATION) -> Any:
    """The parser of all experiments, with folds as seeds, --path and --only."""
    parser = command.make_parser(description, OUT, FOLDS)
    parser.add_argument(
        "--path", default="", help=f"file or folder of {folded_task.real}; without it, generated data"
    )
    parser.add_argument("--only", default="", help="systems, separated by commas")
    texts.add_option(parser)
    return parser


def run(options: argparse.Namespace, systems: Mapping[str, str], folded_task: FoldedTask = EQUATION) -> Results:
    """(task, system) → fold → result; fold n is trained with seed n.

    Args:
      systems: name → argument of configs/mathgpt.py, such as "without=tpe".
    """
    task = folded_task.task
    is_wanted = command.parse_only(options.only, [task], systems)
    chosen_systems = [(name, words) for name, words in systems.items() if is_wanted(task, name)]
    results: Results = {(task, name): {} for name, _ in chosen_systems}
    for fold in options.seeds:
        cells = [make_cell(options, name, words, fold, folded_task) for name, words in chosen_systems]
        for (cell_task, name), by_fold in runs.run(cells, [fold], options.out).items():
            results.setdefault((task if cell_task == f"{task}-{fold}" else cell_task, name), {}).update(by_fold)
    return results


def make_cell(
    options: argparse.Namespace, name: str, words: str, fold: int, folded_task: FoldedTask = EQUATION
) -> RunCell:
    """The cell of a system on a fold, with the pre-training that it starts from."""
    start = pretraining.make_start(options, name, words)
    return RunCell(f"{folded_task.task}-{fold}", name, make_config(options, words, fold, folded_task), start)


def make_config(options: argparse.Namespace, words: str, fold: int, folded_task: FoldedTask = EQUATION) -> Any:
    """The config of a system on a fold."""
    from numjax.bundled.configs import mathgpt

    argument = [
        options.scale,
        f"task={folded_task.word}",
        *filter(None, [words]),
        *["as_published"] * options.as_published,
    ]
    config: Any = mathgpt.get_config(",".join(argument))
    with config.unlocked():
        config.log_every = 50 if options.scale == "smoke" else 250
        config.task.update(path=options.path, fold=fold)
        if options.scale == "smoke":
            config.task.size = SMOKE_SIZE
    return config


def make_trials(labels: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """The JSON's entry on trials of a table, whatever its task: what was tried on Math23K holds for all."""
    is_tried = options.scale in ("laptop", overnight.NAME)
    return {"trials": {label: TRIALS.get(label, 0) for label in labels}} if is_tried else {}


def make_remarks(
    options: argparse.Namespace, folded_task: FoldedTask = EQUATION, counts: texts.Counts | None = None
) -> Sequence[str]:
    """Remarks on a table's data, and on the texts of its pre-training."""
    return [
        f"On {folded_task.real if options.path else folded_task.stand_in}; a tenth of what is not "
        "test for validation, the epoch with the lowest loss there counts.",
        *folded_task.remarks,
        pretraining.describe(counts or {}),
    ]


# Systems of Table 3 at overnight that copy numbers by design, and their labels.
COPYING = (
    {"linked": "numbers=linked", "pointed": "numbers=pointed"},
    {"linked": "MathGPT, digits linked at the output", "pointed": "MathGPT, numbers that point"},
)
# Settings that were tried at laptop beside the first, label → number: how positions start (`starts`).
TRIALS = dict.fromkeys(("GPT", "MathGPT", *COPYING[1].values()), 1)
# Table → the module that draws its picture.
DRAWN_BY = {"table3": "mathgpt.table3"}


def add_copying(
    options: argparse.Namespace, systems: Mapping[str, str], labels: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Table 3's systems and their labels, at overnight with those that copy numbers by design."""
    more_systems, more_labels = COPYING if options.scale == overnight.NAME else ({}, {})
    return {**systems, **more_systems}, {**labels, **more_labels}


def write_table(
    name: str,
    title: str,
    doc: str | None,
    systems: Mapping[str, str],
    labels: Mapping[str, str],
    paper: Mapping[str, Mapping[str, tuple[float, ...]]],
    words: Sequence[str] | None,
    folded_task: FoldedTask = EQUATION,
) -> tuple[argparse.Namespace, str, list[dict[str, Any]]]:
    """Runs what is missing and writes NAME.{md,json} and its pictures.

    Returns:
      (options, the Markdown, entries of `tables.compare`).

    Args:
      systems: see `run`. labels: of these and of the paper's other systems, in the order of the rows.
      paper: system → title of a column → mean and deviation, as far as the paper has them.
    """
    options = command.parse_options(make_parser(doc or "", folded_task), words)
    if name == "table3":
        systems, labels = add_copying(options, systems, labels)
    first_words = next(iter(systems.values()))
    config = make_config(options, first_words, options.seeds[0], folded_task)
    counts = pretraining.prepare(options, config, folded_task.field)
    results = run(options, systems, folded_task)
    rows = [
        TableRow(
            label,
            system if system in systems else None,
            {column: Published(*figures) for column, figures in paper.get(system, {}).items()},
        )
        for system, label in labels.items()
    ]
    entries = tables.compare(results, rows, folded_task.columns, REFERENCE)
    parts = {"": (entries, folded_task.columns)}
    extra = make_trials([labels[system] for system in systems], options)
    extra |= {"drawn_by": DRAWN_BY[name]} if name in DRAWN_BY else {}
    remarks = make_remarks(options, folded_task, counts)
    text = report.publish(name, title, remarks, parts, results, options, labels[REFERENCE], extra, per="fold")
    return options, text, entries
