"""Shared by MathGPT's tables on headlines: datasets, systems, the config of each task, and the tables' form.

OFEQ-10k and EXEQ-300k are MathSum's files; if only a part of them is available, `--splits=divided` divides it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, report, runs, tables, texts
from numjax.bundled.experiments.mathgpt import pretraining, settings
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow

OUT = "runs/mathgpt-headlines-{scale}"
DATASETS = {"exeq": "EXEQ-300k", "ofeq": "OFEQ-10k"}
SYSTEMS = {"gpt": "system=gpt", "mathgpt": ""}
TASKS = ("headline", "next_formula", "next_text")
LABELS = {
    "mathbert": "MathBERT",
    "mathsum": "MathSum",
    "gpt": "GPT",
    "gpt-wiki": "GPT, pre-trained on Wikipedia's mathematics",
    "mathgpt": "MathGPT",
}
REFERENCE = "mathgpt"
# Enough for statistics, few enough for seconds.
SMOKE_SIZE = 120

# Title of a column → mean and, if the paper gives it, deviation.
Numbers = Mapping[str, tuple[float, ...]]
TEXT_METRICS = {"BLEU-4": "BLEU-4", "ROUGE-L": "ROUGE-L", "METEOR": "METEOR_exact_stem"}


def make_columns(task: str) -> list[TableColumn]:
    """The metrics of a task (headline, next_formula, next_text)."""
    columns = [TableColumn(title, task, metric, digits=1) for title, metric in TEXT_METRICS.items()]
    if task == "next_formula":
        # For a text that is no formula, TED is the number of nodes of the right tree; "read" leaves such texts out.
        columns += [
            TableColumn("TED", task, "TED", scale=1.0, digits=3),
            TableColumn("TED, read", task, "TED_read", scale=1.0, digits=3),
            TableColumn("read", task, "read", digits=1),
        ]
    return columns


def make_parser(description: str) -> Any:
    """The parser of all experiments, with --dataset, --path, --splits and --only."""
    parser = command.make_parser(description, OUT, command.SEEDS | {"overnight": 3})
    parser.add_argument(
        "--dataset", choices=list(DATASETS), default="exeq", help="whose table it is; exeq by default"
    )
    parser.add_argument("--path", default="", help="folder of post.* and title.*; without it, generated questions")
    parser.add_argument(
        "--splits",
        choices=["files", "divided"],
        default="files",
        help="the files' splits, or new splits of whatever the files hold",
    )
    parser.add_argument("--only", default="", help="tasks, systems or task/system, separated by commas")
    texts.add_option(parser)
    return parser


def make_cell(options: argparse.Namespace, task: str, system: str) -> RunCell:
    """The cell of a system on a task."""
    from numjax.bundled.configs import mathgpt

    argument = [options.scale, f"task={task}", SYSTEMS[system], *["as_published"] * options.as_published]
    config: Any = mathgpt.get_config(",".join(filter(None, argument)))
    with config.unlocked():
        config.log_every = 50 if options.scale == "smoke" else 100
        config.task.update(path=options.path, splits=options.splits)
        if options.scale == "smoke":
            config.task.size = SMOKE_SIZE
    start = pretraining.make_start(options, system, SYSTEMS[system])
    return RunCell(f"{options.dataset}-{task}", system, config, start)


def make_remarks(options: argparse.Namespace, tasks: Sequence[str]) -> list[str]:
    """Remarks on a table's data."""
    dataset = DATASETS[options.dataset]
    data = (
        f"On {dataset}, splits {options.splits}" if options.path else f"Not on {dataset} but on generated questions"
    )
    remarks = [
        f"{data}; the epoch with the lowest loss on validation counts.",
        "In percent, but for TED; mean ± standard deviation over seeds. The paper's systems start from GPT-2 and "
        + "MathGPT from Wikipedia's mathematics too. Formulas are compared as the text that their trees print, the "
        + "same for both systems.",
        "METEOR here has exact and stemmed matches alone; the paper's knows synonyms and paraphrases too.",
    ]
    if "next_formula" in tasks:
        remarks.append(
            "TED charges what could not be read with all of the right nodes; “TED, read” leaves it out, as the paper "
            + "does. A number is one node; in the paper each digit is."
        )
    return remarks


def write_table(
    options: argparse.Namespace,
    name: str,
    title: str,
    tasks: Mapping[str, str],
    paper: Mapping[str, Mapping[str, Numbers]],
) -> str:
    """Runs what is missing and writes NAME.{md,json}; returns the text.

    Args:
      tasks: task → heading of its part. paper: task → system → its numbers.
    """
    is_wanted = command.parse_only(options.only, TASKS, SYSTEMS)
    counts = pretraining.prepare(options, make_cell(options, "headline", REFERENCE).config, "headline")
    results: runs.Results = {}
    for task in tasks:
        cells = [make_cell(options, task, system) for system in SYSTEMS if is_wanted(task, system)]
        for (cell_task, system), by_seed in runs.run(cells, options.seeds, options.out).items():
            is_start = cell_task != f"{options.dataset}-{task}"
            results[cell_task if is_start else task, system] = by_seed
    parts = {}
    for task, heading in tasks.items():
        rows = [
            TableRow(
                LABELS[system],
                system if system in SYSTEMS else None,
                {column: Published(*numbers) for column, numbers in paper[task].get(system, {}).items()},
            )
            for system in LABELS
        ]
        parts[heading] = tables.compare(results, rows, make_columns(task), REFERENCE), make_columns(task)
    remarks = [*make_remarks(options, list(tasks)), pretraining.describe(counts)]
    extra = settings.make_trials([LABELS[system] for system in SYSTEMS], options)
    return report.publish(name, title, remarks, parts, results, options, LABELS[REFERENCE], extra)
