"""Table 2: magnitude classification on Numeracy-600K, micro- and macro-F1.

    python -m experiments.numgpt.table2 --path=FOLDER        # your copy of the dataset's files
    python -m experiments.numgpt.table2 --variant=news --path=FOLDER    # AG News and Financial PhraseBank
    python -m experiments.numgpt.table2                      # a generated stand-in, not comparable with the paper

The dataset cannot be passed on (its terms forbid it), so without --path a stand-in of the same form is made up.
The paper's baselines match the updated titles, so titles are the default; --variant=comments is the other half.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, magnitudes, plots, report, runs, tables, trials
from numjax.bundled.experiments.numgpt import settings
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow

COLUMNS = (TableColumn("micro-F1", "magnitude", "micro_f1"), TableColumn("macro-F1", "magnitude", "macro_f1"))
NEWS_EPOCHS = 10  # three quarters of the 8,000 records, each in words of its own
SYSTEMS = ("gpt", "digits", "numgpt")
PRETRAINED = ("gpt", "numgpt")

# Micro- and macro-F1 in percent; those without a deviation are single numbers that the paper quotes.
QUOTED = {
    "LR": (62.49, 30.81),
    "CNN": (69.27, 35.96),
    "GRU": (70.92, 38.43),
    "BiGRU": (71.49, 39.94),
    "CRNN": (69.50, 36.15),
    "CNN-capsule": (63.11, 29.41),
    "GRU-capsule": (70.73, 33.57),
    "BiGRU-capsule": (71.49, 34.18),
    "BiLSTM with DICE": (75.56, 46.80),
}
PAPER = {
    "gpt": ((79.45, 0.45), (53.86, 0.84)),
    "numgpt": ((78.97, 0.24), (53.30, 1.12)),
    "gpt-pretrained": ((79.42, 0.15), (53.79, 0.68)),
    "numgpt-pretrained": ((81.32, 0.13), (56.47, 0.08)),
}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table2.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", settings.OUT)
    magnitudes.add_options(parser, "titles")
    parser.add_argument("--only", default="", help="systems, separated by commas")
    parser.add_argument("--text", default="", help="folder of text: pre-train on it, then fine-tune, too")
    trials.add_option(parser, settings.GRID)
    options = command.parse_options(parser, words)
    magnitudes.check_options(options)
    is_wanted = command.parse_only(options.only, ["magnitude"], SYSTEMS)
    task: dict[str, Any] = {"variant": options.variant, "path": options.path}
    if options.scale == "paper":
        task["size"] = 0
    if options.scale == "smoke":
        task["size"] = settings.SMOKE_SIZE

    changes: dict[str, Any] = {"task": task}
    if options.variant == magnitudes.NEWS and options.scale == "laptop":
        changes["optim"] = {"epochs": NEWS_EPOCHS}

    systems = [system for system in SYSTEMS if is_wanted("magnitude", system)]
    cells = [settings.make_cell(options, "magnitude", system, changes=changes) for system in systems]
    if options.text:
        for system in (s for s in PRETRAINED if s in systems):
            start = settings.make_pretraining(options, system, options.text)
            cells.append(settings.make_cell(options, "magnitude", system, start, changes))
    cells, trial_entries = settings.prepare(cells, options)
    results = runs.run(cells, options.seeds, options.out)
    name = magnitudes.name_table("table2", options)

    columns = list(COLUMNS)
    rows = [TableRow(name, None, _make_published([(n, None) for n in numbers])) for name, numbers in QUOTED.items()]
    rows += [TableRow(settings.SYSTEMS[s], s, _make_published(PAPER.get(s, ()))) for s in SYSTEMS]
    rows += [
        TableRow(f"{settings.SYSTEMS[s]}, pre-trained", f"{s}-pretrained", _make_published(PAPER[f"{s}-pretrained"]))
        for s in PRETRAINED
    ]
    entries = tables.compare(results, rows, columns, settings.REFERENCE)
    remarks = [
        magnitudes.describe_data(options),
        "F1 in percent over the 8 magnitudes 0 … 7; a class that is neither there nor predicted counts as 0.",
    ]
    if not options.text:
        remarks.append(
            "Pre-trained then fine-tuned: not run (it needs --text=FOLDER); the paper's numbers stand alone."
        )
    title = magnitudes.make_title("Table 2: magnitude classification", magnitudes.describe_files(options))
    extra = {
        **magnitudes.describe_files(options),
        "drawn_by": "numgpt.table2",
    } | trial_entries
    text = report.publish(name, title, remarks, {"": (entries, columns)}, results, options, settings.LABEL, extra)
    report.print_report(text, options, f"{name}.md", f"{name}.json", f"{name}.png")


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: F1 by system."""
    columns = [column.title for column in COLUMNS]
    other = magnitudes.name_other(content)
    return {f"{content['name']}.png": plots.draw_spread(content, columns, "F1, test (%)", other)}


def _make_published(pairs: Sequence[tuple[float, float | None]]) -> dict[str, Published]:
    return {column.title: Published(*pair) for column, pair in zip(COLUMNS, pairs, strict=False)}


if __name__ == "__main__":
    command.entry(main)
