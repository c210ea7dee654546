"""Anchor in text: questions with words and numbers, of NumGPT's and LUNA's tasks, and what its parts are worth there.

python -m experiments.candidates.text                          # laptop: a first look, 3,000 statements
python -m experiments.candidates.text --scale=overnight        # all records: ten hours on 2 cores without TAT-QA
python -m experiments.candidates.text --only=mme,gnc/anchor    # some of them
python -m experiments.candidates.text --only=tatqa --tatqa=FOLDER   # TAT-QA's files, else generated questions
python -m experiments.candidates.text --only=tatqa --tatqa=FOLDER --bert=minilm3    # from weights of make pretrained
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from numjax.bundled.experiments import command, overnight, report, runs, tables
from numjax.bundled.experiments.luna import table3
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.tables import TableColumn, TableRow

OUT = "runs/candidates-text-{scale}"
TASKS = {"mme": "MME", "gnc": "GNC", "tatqa": "TAT-QA"}
METRICS = {"tatqa": "em"}  # else the accuracy
# System → its arguments of configs/anchor.py, or of configs/luna.py with numtok=anchor, and its label.
OURS = {
    "anchor": ("", "anchor"),
    "anchor_unsized": ("size=off", "without the size in headers"),
    "anchor_single": ("ngram=off", "without the digits before a digit"),
    "anchor_unaligned": ("align=off", "without the alignment"),
    "anchor_limbs": ("limb=3", "three digits a position"),
}
THEIRS = ("digits", "numgpt")  # systems of configs/numgpt.py
LUNA = ("no_pretraining", "baseline")  # rows of LUNA's Table 3, beside anchor on TAT-QA
# What a header tells, but eight digits, at one position: instead of a number's pieces, or behind them; on TAT-QA.
HEADERS = {
    "header": ("replace", "a header alone, with eight digits"),
    "behind": ("addback", "pieces, and such a header behind them"),
}
FIRST_DIGITS = 8
REFERENCE = "anchor"


def list_systems() -> dict[str, str]:
    """System → its label in the table."""
    labels = {name: label for name, (_, label) in OURS.items()} | {s: label for s, (_, label) in HEADERS.items()}
    labels |= {s: settings.SYSTEMS[s] for s in THEIRS}
    return labels | {s: f"LUNA, {table3.CHOICES[s].label}" for s in LUNA}


def has_cell(task: str, system: str) -> bool:
    """Whether the table has the system on the task."""
    return system in ((REFERENCE, "anchor_limbs", *HEADERS, *LUNA) if task == "tatqa" else (*OURS, *THEIRS))


def make_cell(options: argparse.Namespace, task: str, system: str) -> RunCell:
    """A system on a task, with the problems, sizes and settings of NumGPT's Table 1, or of LUNA's Table 3."""
    from numjax.bundled.configs import anchor

    scale = options.scale
    if task == "tatqa":
        choice = table3.CHOICES[system if system in LUNA else "baseline"]
        if system in OURS:
            choice = choice._replace(numtok=",".join(filter(None, ("anchor", OURS[system][0]))))
        elif system in HEADERS:
            choice = choice._replace(numtok=HEADERS[system][0], numbed="leading")
        config = table3.make_config(options, choice, task, "bert")
        if system in HEADERS:
            with config.unlocked():
                config.embeds.numeral.digits = FIRST_DIGITS
        return RunCell(task, system, config)
    theirs = settings.make_config(scale, task, system if system in THEIRS else "numgpt")
    if system in THEIRS:
        return RunCell(task, system, theirs)
    words = [scale, f"task={task}", *filter(None, OURS[system][0].split(","))]
    config: Any = anchor.get_config(",".join(words))
    with config.unlocked():
        config.log_every = theirs.log_every
        config.task = theirs.task
    return RunCell(task, system, config)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes text.{md,json}."""
    parser = command.make_parser(__doc__ or "", OUT, command.SEEDS | {"overnight": 3})
    parser.add_argument("--only", default="", help="tasks, systems or task/system, separated by commas")
    parser.add_argument("--tatqa", default="", help="folder of TAT-QA's files")
    parser.add_argument("--bert", choices=overnight.INSTALLED, default="", help="weights that TAT-QA starts from")
    parser.set_defaults(tabfact="", roberta="")
    options = command.parse_options(parser, words)
    if options.scale == overnight.NAME:
        options.bert = options.bert or overnight.MINILM
    labels = list_systems()
    is_wanted = command.parse_only(options.only, TASKS, labels)
    cells = [
        make_cell(options, task, system)
        for task in TASKS
        for system in labels
        if is_wanted(task, system) and has_cell(task, system)
    ]
    results = runs.run(cells, options.seeds, options.out)
    tasks = dict.fromkeys(cell.task for cell in cells)
    columns = [TableColumn(TASKS[task], task, METRICS.get(task, "accuracy")) for task in tasks]
    rows = [TableRow(label, system) for system, label in labels.items()]
    remarks = [
        "In percent on test, at the epoch that was best on validation: accuracy, and on TAT-QA exact match; mean ± "
        "standard deviation.",
        "All rows have the settings that were chosen on NumGPT for its Table 1, and on TAT-QA those of LUNA's Table "
        "3; nothing was tried for the others.",
    ]
    if options.bert and "tatqa" in tasks:
        layers = "" if options.bert == overnight.MINILM else "the first three layers of "
        remarks.append(f"On TAT-QA the encoder starts from {layers}all-MiniLM-L6-v2.")
    parts = {"": (tables.compare(results, rows, columns, REFERENCE), columns)}
    title = "Numbers in questions with words: anchor and its parts"
    tried = {labels[system]: count for system, count in table3.TRIALS.items() if system in labels}
    tried = dict.fromkeys(labels.values(), 0) | settings.PILOT | tried
    tried = {label: tried[label] for label in dict.fromkeys(labels[cell.system] for cell in cells)}
    trials = {"trials": tried} if options.scale != "smoke" else {}
    text = report.publish("text", title, remarks, parts, results, options, OURS[REFERENCE][1], trials)
    report.print_report(text, options, "text.md", "text.json")


if __name__ == "__main__":
    command.entry(main)
