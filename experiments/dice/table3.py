"""Table 3: the magnitude of masked numbers, by a BiLSTM with attention that reads the other numbers as DICE vectors.

    python -m experiments.dice.table3 --path=FOLDER        # your copy of the files of Numeracy-600K
    python -m experiments.dice.table3                      # a generated stand-in, not comparable with the paper

The terms of the dataset forbid passing it on, so without --path a stand-in of the same form is generated. The paper's
appendix names market comments, but its baselines match the titles of the dataset's update: see README.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, magnitudes, noise, plots, report, runs, tables
from numjax.bundled.experiments.dice import settings
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow

COLUMNS = (TableColumn("micro-F1", settings.TASK, "micro_f1"), TableColumn("macro-F1", settings.TASK, "macro_f1"))
QUOTED = {
    "LR": (62.49, 30.81),
    "CNN": (69.27, 35.96),
    "GRU": (70.92, 38.43),
    "BiGRU": (71.49, 39.94),
    "CRNN": (69.50, 36.15),
    "CNN-capsule": (63.11, 29.41),
    "GRU-capsule": (70.73, 33.57),
    "BiGRU-capsule": (71.49, 34.18),
}
# The best micro-F1 is of one size, the best macro-F1 of another.
PAPER = {"dice_d": (75.56, 46.80)}


def make_published(pair: Sequence[float]) -> dict[str, Published]:
    """The paper's numbers by column."""
    return {column.title: Published(number) for column, number in zip(COLUMNS, pair, strict=False)}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table3.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", settings.OUT)
    parser.add_argument("--only", default="", help="systems, separated by commas")
    options = settings.parse_options(parser, words)
    is_wanted = command.parse_only(options.only, [settings.TASK], settings.SYSTEMS)
    cells = [settings.make_cell(options, system) for system in settings.SYSTEMS if is_wanted(settings.TASK, system)]
    results = runs.run(cells, options.seeds, options.out)
    name = magnitudes.name_table("table3", options)

    rows = [TableRow(label, None, make_published(pair)) for label, pair in QUOTED.items()]
    rows += [TableRow(label, s, make_published(PAPER.get(s, ()))) for s, (label, _) in settings.SYSTEMS.items()]
    entries = tables.compare(results, rows, COLUMNS, settings.REFERENCE)
    title = magnitudes.make_title("Table 3: magnitudes of masked numbers", magnitudes.describe_files(options))
    differences = settings.bootstrap_micro_f1(cells, results, options, settings.REFERENCE)
    extra = {**magnitudes.describe_files(options), "noise": differences}
    extra["drawn_by"] = "dice.table3"
    parts = {"": (entries, COLUMNS)}
    labels = {system: label for system, (label, _) in settings.SYSTEMS.items()}
    remarks = settings.make_remarks(options) + noise.describe_differences(differences, labels, settings.LABEL)
    text = report.publish(name, title, remarks, parts, results, options, settings.LABEL, extra)
    report.print_report(text, options, f"{name}.md", f"{name}.json", f"{name}.png")


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: F1 by system."""
    columns = [column.title for column in COLUMNS]
    other = magnitudes.name_other(content)
    return {f"{content['name']}.png": plots.draw_spread(content, columns, "F1, test (%)", other)}


if __name__ == "__main__":
    command.entry(main)
