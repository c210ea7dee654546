"""NumGPT and a plain GPT on measurement estimation, in minutes on a CPU: a table and the picture of Fig. 1.

    python -m experiments.numgpt.quickstart --out=runs/quickstart

One seed, at the laptop scale of Table 1 but for half the epochs, so that it ends in minutes: its accuracies are
below the table's. Stop it and start it again: it goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from numjax.bundled.experiments import command, report, runs, tables
from numjax.bundled.experiments.numgpt import fig1, settings, table1
from numjax.bundled.experiments.tables import TableRow
from numjax.runtime import log

SYSTEMS = ("gpt", "numgpt")
SHORT = {"optim": {"epochs": 10}}


def main(words: Sequence[str] | None = None) -> None:
    """Trains, evaluates, draws, and says where everything is."""
    parser = command.make_parser(__doc__ or "", "runs/quickstart")
    parser.set_defaults(seeds=1)
    options = command.parse_options(parser, words)
    start = time.monotonic()
    changes = SHORT if options.scale == "laptop" else None
    cells = [settings.make_cell(options, "mme", system, changes=changes) for system in SYSTEMS]
    log.say("NumGPT against a plain GPT: does an answer fit a question such as “How many grams are 2 eggs?”")
    results = runs.run(cells, options.seeds, options.out)
    columns = [column for column in table1.COLUMNS if column.task == "mme"]
    constant = {columns[0].title: table1.measure_majority(cells[0])}
    rows = [TableRow("MAJ", "majority", table1.make_published("majority"), constant)]
    rows += [TableRow(settings.SYSTEMS[system], system, table1.make_published(system)) for system in SYSTEMS]
    entries = tables.compare(results, rows, columns, settings.REFERENCE)
    remarks = [
        "Accuracy in percent on test; the paper's models are 12 layers × 768, on 16,000 samples for 50 epochs."
    ]
    title = "Measurement estimation: NumGPT and GPT"
    text = report.publish("table", title, remarks, {"": (entries, columns)}, results, options, settings.LABEL)
    log.say("drawing Fig. 1")
    numbers = fig1.list_answers()
    curves = fig1.compute_curves(cells, results, options.out, numbers)
    fig1.write(options, curves, numbers, results)
    report.print_report(
        text + "\n" + fig1.format_table(curves), options, "table.md", "table.json", "fig1.png", "fig1.md", "fig1.json"
    )
    log.say(f"done in {log.format_duration(time.monotonic() - start)}")


if __name__ == "__main__":
    command.entry(main)
