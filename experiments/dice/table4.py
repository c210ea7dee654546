"""Table 4: the magnitude of masked numbers by the width of tokens and states, from 32 to 512.

python -m experiments.dice.table4 --path=FOLDER        # your copy of the files of Numeracy-600K
python -m experiments.dice.table4 --sizes=32,128       # a generated stand-in, not comparable with the paper
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, magnitudes, noise, plots, report, runs, tables
from numjax.bundled.experiments.dice import settings
from numjax.bundled.experiments.dice.table3 import COLUMNS, make_published
from numjax.bundled.experiments.tables import TableRow
from numjax.errors import UsageError

SIZES = (32, 64, 128, 256, 512)
SYSTEM = "dice_d"
REFERENCE = 256
PAPER = {32: (74.63, 45.92), 64: (74.90, 45.99), 128: (75.55, 46.36), 256: (75.56, 45.56), 512: (74.14, 46.80)}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table4.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", settings.OUT)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)), help="widths, separated by commas")
    options = settings.parse_options(parser, words)
    cells = [settings.make_cell(options, SYSTEM, size) for size in parse_widths(options.sizes)]
    results = runs.run(cells, options.seeds, options.out)
    name = magnitudes.name_table("table4", options)

    rows = [TableRow(f"{size}", f"{SYSTEM}-{size}", make_published(PAPER[size])) for size in SIZES]
    entries = tables.compare(results, rows, COLUMNS, f"{SYSTEM}-{REFERENCE}")
    title = magnitudes.make_title(
        "Table 4: magnitudes of masked numbers by width, DICE-D", magnitudes.describe_files(options)
    )
    differences = settings.bootstrap_micro_f1(cells, results, options, f"{SYSTEM}-{REFERENCE}")
    extra = {**magnitudes.describe_files(options), "noise": differences}
    extra["drawn_by"] = "dice.table4"
    parts = {"": (entries, COLUMNS)}
    labels = {f"{SYSTEM}-{size}": f"Width {size}" for size in SIZES}
    remarks = settings.make_remarks(options) + noise.describe_differences(differences, labels, f"width {REFERENCE}")
    text = report.publish(name, title, remarks, parts, results, options, f"width {REFERENCE}", extra)
    report.print_report(text, options, f"{name}.md", f"{name}.json", f"{name}.png")


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: F1 over the width, a line for each mean; the paper's lines only on its data."""
    entries = content["tables"][content["name"]]
    is_real = not magnitudes.name_other(content)
    lines, changes = [], []
    for source, suffix in (("here", ""), ("paper", ", the paper"))[: 1 + is_real]:
        for column in COLUMNS:
            points = [
                (float(entry["row"]), entry[source]["mean"], entry[source]["std"])
                for entry in entries
                if entry["column"] == column.title and entry[source]
            ]
            if not points:
                continue
            lines.append(plots.Line(column.title + suffix, points))
            if source == "here":
                means = [mean for _, mean, _ in points]
                changes.append(f"{column.title} varies by {max(means) - min(means):.1f}")
    if not lines:
        return {}
    widths = [x for x, _, _ in lines[0].points]
    title = f"From width {widths[0]:g} to {widths[-1]:g}, {' and '.join(changes)} points"
    title = magnitudes.make_title(title, content)
    x = plots.Axis("Width of tokens and states (dimensions)", True, ticks=SIZES)
    return {
        f"{content['name']}.png": plots.draw_lines(title, {"": lines}, x, plots.Axis("F1, test (%)", limits=(0, 100)))
    }


def parse_widths(words: str) -> list[int]:
    """The widths of --sizes.

    Raises:
      UsageError: a width is not in the table.
    """
    sizes_by_word = {str(size): size for size in SIZES}
    if unknown_words := [word for word in words.split(",") if word not in sizes_by_word]:
        raise UsageError(f"--sizes={words}: {unknown_words[0]!r} is none of {', '.join(sizes_by_word)}")
    return [sizes_by_word[word] for word in words.split(",")]


if __name__ == "__main__":
    command.entry(main)
