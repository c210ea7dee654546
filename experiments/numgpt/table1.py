"""Table 1: accuracy on measurement estimation (MME), number comparison (GNC) and word problems (MWPAS).

    python -m experiments.numgpt.table1                      # laptop: from scratch, 2 cores
    python -m experiments.numgpt.table1 --scale=overnight --trials=3   # all records, ten hours on 2 cores
    python -m experiments.numgpt.table1 --scale=paper --text=FOLDER    # and pre-trained, then fine-tuned
    python -m experiments.numgpt.table1 --only=mme,gnc/numgpt

MWPAS twice: with `plain` negatives (wrong operation, random), the paper's likely mix, and with `hard` ones
(near misses and one-digit edits too). The paper's numbers stand beside the plain set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.build import build
from numjax.bundled.experiments import command, plots, report, runs, tables, trials
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow
from numjax.errors import DataError
from numjax.pipeline import source

TASKS = {"mme": "MME", "gnc": "GNC", "mwpas": "MWPAS plain", "mwpas_hard": "MWPAS hard"}
COLUMNS = [TableColumn(title, task, "accuracy") for task, title in TASKS.items()]
KINDS = {
    "positive": "right answers",
    "wrong_operation": "wrong operation",
    "random": "random",
    "near_miss": "near miss",
    "digit_edit": "one digit changed",
}
# The models that the paper pre-trains.
PRETRAINED = ("gpt", "numgpt")

# Accuracy in percent over 5 runs.
PAPER = {
    "majority": ((50.48, 0.0), (50.93, 0.0), (50.93, 0.0)),
    "gpt": ((78.99, 1.81), (95.16, 0.28), (49.85, 0.63)),
    "dice": ((73.68, 0.43), (75.09, 1.21), (49.17, 1.04)),
    "numgpt": ((97.16, 0.55), (95.45, 0.57), (88.05, 0.99)),
    "gpt-pretrained": ((72.02, 3.63), (93.84, 1.29), (49.17, 0.82)),
    "numgpt-pretrained": ((98.11, 0.38), (95.82, 0.17), (86.16, 3.26)),
}


def make_published(system: str) -> dict[str, Published]:
    """The paper's numbers of a system by column."""
    numbers = PAPER.get(system, ())
    return {column.title: Published(*pair) for column, pair in zip(COLUMNS, numbers, strict=False)}


def measure_majority(cell: RunCell) -> float:
    """Percent right by always giving the more frequent label of the test split."""
    task: Any = build("tasks", cell.config.task)
    records = source.load(task.dataset, "test", cell.config.data.dir or None)
    if not records:
        raise DataError(f"{cell.task} has no test split")
    return 100 * Counter(record["label"] for record in records).most_common(1)[0][1] / len(records)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table1.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", settings.OUT, command.SEEDS | {"overnight": 3})
    parser.add_argument("--only", default="", help="tasks, systems or task/system, separated by commas")
    parser.add_argument("--text", default="", help="folder of text: pre-train on it, then fine-tune, too")
    trials.add_option(parser, settings.GRID)
    options = command.parse_options(parser, words)
    is_wanted = command.parse_only(options.only, TASKS, settings.SYSTEMS)

    pairs = [(task, system) for task in TASKS for system in settings.SYSTEMS if is_wanted(task, system)]
    cells = [settings.make_cell(options, task, system) for task, system in pairs]
    if options.text:
        starts = {system: settings.make_pretraining(options, system, options.text) for system in PRETRAINED}
        cells += [settings.make_cell(options, t, s, starts[s]) for t, s in pairs if s in PRETRAINED]
    cells, trial_entries = settings.prepare(cells, options)
    results = runs.run(cells, options.seeds, options.out)

    constant = {TASKS[cell.task]: measure_majority(cell) for cell in {cell.task: cell for cell in cells}.values()}
    rows = [TableRow("MAJ", "majority", make_published("majority"), constant)]
    rows += [TableRow(label, system, make_published(system)) for system, label in settings.SYSTEMS.items()]
    rows += [
        TableRow(f"{settings.SYSTEMS[s]}, pre-trained", f"{s}-pretrained", make_published(f"{s}-pretrained"))
        for s in PRETRAINED
    ]
    columns = [column for column in COLUMNS if column.title in constant]
    entries = tables.compare(results, rows, columns, settings.REFERENCE)
    parts = {"": (entries, columns)}
    for task in ("mwpas", "mwpas_hard"):
        kinds = [TableColumn(title, task, f"accuracy_{kind}", digits=1) for kind, title in KINDS.items()]
        by_kind = [e for e in tables.compare(results, rows[1:], kinds, settings.REFERENCE) if e["here"]]
        if by_kind:
            kind_columns = [column for column in kinds if any(entry["column"] == column.title for entry in by_kind)]
            parts[f"{TASKS[task]}: accuracy by kind of answer"] = (by_kind, kind_columns)
    remarks = ["Accuracy in percent on test, at the epoch that was best on validation; mean ± standard deviation."]
    if not options.text:
        remarks.append(
            "Pre-trained then fine-tuned: not run (it needs --text=FOLDER); the paper's numbers stand alone."
        )
    if options.scale == "overnight":
        remarks.append(
            "The number of epochs follows from one run of NumGPT on GNC, on other data; no other row was tried so."
            + f" Settings were tried on {TASKS[settings.TRIED_OVERNIGHT]} and hold for all tasks."
            * bool(options.trials)
        )
    text = report.publish(
        "table1",
        "Table 1: accuracy on the synthetic tasks",
        remarks,
        parts,
        results,
        options,
        settings.LABEL,
        trial_entries | {"drawn_by": "numgpt.table1"},
    )
    report.print_report(text, options, "table1.md", "table1.json", "table1.png")


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: accuracy by system, a panel for each task."""
    entries = content["tables"][content["name"]]
    titles = [column["title"] for column in content["columns"][content["name"]]]
    best = tables.describe_best(entries, titles)
    axis = plots.Axis("accuracy (%)", limits=(-4, 104), ticks=(0, 50, 100))
    axes = dict.fromkeys(titles, axis)
    return {f"{content['name']}.png": plots.draw_entries(f"Highest mean accuracy: {best}", entries, axes, True)}


if __name__ == "__main__":
    command.entry(main)
