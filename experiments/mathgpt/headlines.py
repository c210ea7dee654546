"""What MathGPT's tables on headlines share: datasets, systems, a config a task, and the tables' form.

OFEQ-10k and EXEQ-300k are MathSum's files; where only a part of them is at hand, `--splits=divided` divides that.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, report, runs, tables
from numjax.bundled.experiments.runs import Cell
from numjax.bundled.experiments.tables import Column, Published, Row

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

# Title of a column → mean and deviation; without one, deviations are not given.
Numbers = Mapping[str, tuple[float, ...]]
TEXT_METRICS = {"BLEU-4": "BLEU-4", "ROUGE-L": "ROUGE-L", "METEOR": "METEOR_exact_stem"}


def columns(task: str) -> list[Column]:
    """The metrics of a task (headline, next_formula, next_text)."""
    found = [Column(title, task, metric, digits=1) for title, metric in TEXT_METRICS.items()]
    if task == "next_formula":
        # TED counts a text that is no formula as the number of nodes that it lacks; "read" leaves such texts out.
        found += [
            Column("TED", task, "TED", scale=1.0, digits=3),
            Column("TED, read", task, "TED_read", scale=1.0, digits=3),
            Column("read", task, "read", digits=1),
        ]
    return found


def parser(description: str) -> Any:
    """The options of all experiments, with --dataset, --path, --splits and --only."""
    made = command.parser(description, OUT)
    made.add_argument("--dataset", choices=list(DATASETS), default="exeq", help="whose table it is; exeq by default")
    made.add_argument("--path", default="", help="folder of post.* and title.*; without it, generated questions")
    made.add_argument(
        "--splits",
        choices=["files", "divided"],
        default="files",
        help="those of the files, or what there is divided anew",
    )
    made.add_argument("--only", default="", help="tasks, systems or task/system, separated by commas")
    return made


def cell(options: argparse.Namespace, task: str, system: str) -> Cell:
    """A system on a task."""
    from numjax.bundled.configs import mathgpt

    argument = [options.scale, f"task={task}", SYSTEMS[system], *["as_published"] * options.as_published]
    made: Any = mathgpt.get_config(",".join(filter(None, argument)))
    with made.unlocked():
        made.log_every = 50 if options.scale == "smoke" else 100
        made.task.update(path=options.path, splits=options.splits)
        if options.scale == "smoke":
            made.task.size = SMOKE_SIZE
    return Cell(f"{options.dataset}-{task}", system, made)


def remarks(options: argparse.Namespace, tasks: Sequence[str]) -> list[str]:
    """What a table says of its data."""
    whose = DATASETS[options.dataset]
    data = f"On {whose}, splits {options.splits}" if options.path else f"Not on {whose} but on generated questions"
    said = [
        f"{data}; the epoch with the lowest loss on validation counts.",
        "In percent, but for TED; mean ± standard deviation over seeds; every system is trained from scratch, the "
        + "paper's start from GPT-2 and MathGPT from Wikipedia's mathematics too. Formulas are compared as the text "
        + "that their trees print, the same for both systems.",
        "METEOR here has exact and stemmed matches alone; the paper's knows synonyms and paraphrases too.",
    ]
    if "next_formula" in tasks:
        said.append(
            "TED charges what could not be read with all of the right nodes; “TED, read” leaves it out, as the paper "
            + "does. A number is one node; in the paper each digit is."
        )
    return said


def table(
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
    wanted = command.only(options.only, TASKS, SYSTEMS)
    results: runs.Results = {}
    for task in tasks:
        cells = [cell(options, task, system) for system in SYSTEMS if wanted(task, system)]
        for (_, system), of in runs.run(cells, options.seeds, options.out).items():
            results[task, system] = of
    parts = {}
    for task, heading in tasks.items():
        rows = [
            Row(
                LABELS[system],
                system if system in SYSTEMS else None,
                {column: Published(*numbers) for column, numbers in paper[task].get(system, {}).items()},
            )
            for system in LABELS
        ]
        parts[heading] = tables.compare(results, rows, columns(task), REFERENCE), columns(task)
    return report.publish(name, title, remarks(options, list(tasks)), parts, results, options, LABELS[REFERENCE])
