"""Anchor in text: questions with words and numbers, of NumGPT's tasks, and what each of its parts is worth there.

python -m experiments.candidates.text                          # laptop: a first look, 3,000 statements
python -m experiments.candidates.text --scale=overnight        # all records: 42 runs, ten hours on 2 cores
python -m experiments.candidates.text --only=mme,gnc/anchor    # some of them
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numjax.bundled.experiments import command, report, runs, tables
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.tables import TableColumn, TableRow

OUT = "runs/candidates-text-{scale}"
TASKS = {"mme": "MME", "gnc": "GNC"}
# System → its arguments of configs/anchor.py and its label.
OURS = {
    "anchor": ("", "anchor"),
    "anchor_unsized": ("size=off", "without the size in headers"),
    "anchor_single": ("ngram=off", "without the digits before a digit"),
    "anchor_unaligned": ("align=off", "without the alignment"),
    "anchor_limbs": ("limb=3", "three digits a position"),
}
THEIRS = ("digits", "numgpt")  # systems of configs/numgpt.py
REFERENCE = "anchor"


def make_cell(scale: str, task: str, system: str) -> RunCell:
    """A system on a task, with the problems, sizes and settings of NumGPT's Table 1."""
    from numjax.bundled.configs import anchor

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
    options = command.parse_options(parser, words)
    labels = {name: label for name, (_, label) in OURS.items()} | {s: settings.SYSTEMS[s] for s in THEIRS}
    is_wanted = command.parse_only(options.only, TASKS, labels)
    cells = [make_cell(options.scale, task, system) for task in TASKS for system in labels if is_wanted(task, system)]
    results = runs.run(cells, options.seeds, options.out)
    tasks = dict.fromkeys(cell.task for cell in cells)
    columns = [TableColumn(TASKS[task], task, "accuracy") for task in tasks]
    rows = [TableRow(label, system) for system, label in labels.items()]
    remarks = [
        "Accuracy in percent on test, at the epoch that was best on validation; mean ± standard deviation.",
        "All rows have the settings that were chosen on NumGPT for its Table 1; nothing was tried for the others.",
    ]
    parts = {"": (tables.compare(results, rows, columns, REFERENCE), columns)}
    title = "Numbers in questions with words: anchor and its parts"
    trials = {"trials": dict.fromkeys(labels.values(), 0) | settings.PILOT} if options.scale != "smoke" else {}
    text = report.publish("text", title, remarks, parts, results, options, OURS[REFERENCE][1], trials)
    report.print_report(text, options, "text.md", "text.json")


if __name__ == "__main__":
    command.entry(main)
