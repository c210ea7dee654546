"""Table 2: list maximum, decoding and addition from frozen vectors of numbers (the probes of Wallace et al. 2019).

    python -m experiments.dice.table2                                  # every row; each can resume
    python -m experiments.dice.table2 --only=dice_d                    # DICE-D's row
    python -m experiments.dice.table2 --only=decode/dice_d,decode/random --ranges=99,999
    python -m experiments.dice.table2 --only=max-99/dice_d             # one range of one probe
    python -m experiments.dice.table2 --table=glove.txt                # a GloVe or word2vec text file of your own
    python -m experiments.dice.table2 --embed="prototype:dim=128,sigma=1"   # an embedding of the library, its options

Accuracy of list maximum, and root mean squared error of decoding and addition, on numbers that no network was trained
on.
"""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, noise, plots, report, tables
from numjax.bundled.experiments.dice import probing
from numjax.bundled.experiments.dice.probing import ProbeCell
from numjax.bundled.experiments.runs import Results
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow
from numjax.errors import UsageError
from numjax.inspect import vectors
from numjax.probes.probe import PROBES, ProbeSizes
from numjax.runtime import log

OUT = "runs/dice-{scale}"
HIGHS = (99, 999, 9999)
TITLES = {"max": "max", "decode": "decode", "decode_linear": "linear decode", "add": "add"}
# Probe → heading of its panel and name of its axis, in the picture.
HEADINGS = {
    "max": ("list maximum", "share wrong"),
    "decode": ("decoding", "RMSE"),
    "decode_linear": ("linear decoding", "RMSE"),
    "add": ("addition", "RMSE"),
}
SIZES = {"smoke": ProbeSizes(train=200, held=40, hidden=8, epochs=2), "laptop": ProbeSizes(), "paper": ProbeSizes()}
# A step of five BiLSTMs takes 12 ms on a core: the paper's 5,000 steps an epoch are for an accelerator.
LISTS = {"smoke": 200, "laptop": 20_000, "paper": 100_000}
SEEDS = {"smoke": 2, "laptop": 5, "paper": 5}

# Name → (label, specification of the vectors).
SYSTEMS = {
    "random": ("random vectors", "random:dim=300"),
    "untrained_cnn": ("untrained CNN", "char_cnn:dim=400,filters=100,char_dim=64,project=false"),
    "untrained_lstm": ("untrained LSTM", "char_lstm:dim=200,hidden=100,char_dim=64,pool=last,project=false"),
    "value": ("value", "value"),
    "digit_sum": ("digit sum, eq. 1", "digit_sum:dim=300,init_std=1.0"),
    "prototype": ("prototype", "prototype:dim=64,init_std=1.0"),
    "dice_2": ("DICE-2", "dice:form=2,dim=300"),
    "dice_d_fixed": ("DICE-D, sphere", "dice:form=d,dim=300,as_printed=false"),
    "dice_d": ("DICE-D, as printed", "dice:form=d,dim=300,as_printed=true"),
}
REFERENCE = "dice_d"
LABEL = SYSTEMS[REFERENCE][0]

# List maximum, decoding, addition, each on [0, 99], [0, 999], [0, 9999]. The paper gives no deviations.
PAPER = {
    "random": (0.16, 0.23, 0.21, 29.86, 292.88, 2882.62, 42.03, 410.33, 4389.39),
    "untrained_cnn": (0.97, 0.87, 0.84, 2.64, 9.67, 44.40, 1.41, 14.43, 69.14),
    "untrained_lstm": (0.70, 0.66, 0.55, 7.61, 46.5, 210.34, 5.11, 45.69, 510.19),
    "value": (0.99, 0.88, 0.68, 1.20, 11.23, 275.50, 0.30, 15.98, 654.33),
    "dice_d": (0.98, 0.87, 0.96, 0.43, 0.83, 3.16, 0.75, 2.79, 29.95),
}
QUOTED = {
    "Word2Vec": (0.90, 0.78, 0.71, 2.34, 18.77, 333.47, 0.75, 21.23, 210.07),
    "GloVe": (0.90, 0.78, 0.72, 2.23, 13.77, 174.21, 0.80, 16.51, 180.31),
    "ELMo": (0.98, 0.88, 0.76, 2.35, 13.48, 62.20, 0.94, 15.50, 45.71),
    "BERT": (0.95, 0.62, 0.52, 3.21, 29.00, 431.78, 4.56, 67.81, 454.78),
    "char-CNN, trained": (0.97, 0.93, 0.88, 2.50, 4.92, 11.57, 1.19, 7.75, 15.09),
    "char-LSTM, trained": (0.98, 0.92, 0.76, 2.55, 8.65, 18.33, 1.21, 15.11, 25.37),
    "NAQANet": (0.91, 0.81, 0.72, 2.99, 14.19, 62.17, 1.11, 11.33, 90.01),
    "NAQANet without GloVe": (0.88, 0.90, 0.82, 2.87, 5.34, 35.39, 1.45, 9.91, 60.70),
}
PRINTED = tuple((name, high) for name in ("max", "decode", "add") for high in HIGHS)


def make_column(name: str, high: int) -> TableColumn:
    """The column of a probe and its range."""
    return TableColumn(f"{TITLES[name]} {high}", f"{name}-{high}", "score", 1.0, 3 if name == "max" else 2)


def make_published(numbers: Sequence[float]) -> dict[str, Published]:
    """The paper's numbers by column."""
    return {make_column(*pair).title: Published(number) for pair, number in zip(PRINTED, numbers, strict=False)}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table2.{md,json,png}."""
    parser = command.make_parser(__doc__ or "", OUT, SEEDS)
    parser.add_argument("--only", default="", help="probes, probes of a range (max-99), rows or PROBE/ROW, by commas")
    parser.add_argument("--ranges", default="99,999,9999", help="highest numbers, separated by commas")
    parser.add_argument("--embed", action="append", default=[], help="a row of your own: name:key=value,…")
    parser.add_argument("--table", action="append", default=[], help="a row of your own: a file of vectors")
    parser.add_argument("--epochs", type=int, default=0, help="at most so many; by default the paper's 1,000")
    options = command.parse_options(parser, words)
    highs = parse_ranges(options.ranges, "smoke" if options.scale == "smoke" else "")
    user_rows = parse_user_rows(options.embed, options.table)
    systems = user_rows or SYSTEMS
    is_wanted = command.parse_only(
        options.only, [*PROBES, *(f"{name}-{high}" for name in PROBES for high in highs)], systems
    )
    sizes = SIZES[options.scale]
    if options.epochs < 0:
        raise UsageError(f"--epochs={options.epochs}: give how many at most, 1 or more")
    sizes = sizes._replace(epochs=options.epochs or sizes.epochs)

    cells = [
        ProbeCell(row, spec, name, high)
        for row, (_, spec) in systems.items()
        for high in highs
        for name in PROBES
        if is_wanted(name, row) or is_wanted(f"{name}-{high}", row)
    ]
    results: Results = {}
    for number, cell in enumerate(cells, 1):
        log.say(f"{cell.task}/{cell.row}, cell {number} of {len(cells)}")
        cell_sizes = sizes._replace(train=LISTS[options.scale]) if cell.probe == "max" else sizes
        results_by_seed = probing.run(cell, options.seeds, options.out, cell_sizes, options.as_published)
        results[cell.task, cell.row] = results_by_seed

    rows = [TableRow(label, row, make_published(PAPER.get(row, ()))) for row, (label, _) in SYSTEMS.items()]
    rows += [TableRow(label, row) for row, (label, _) in user_rows.items()]
    rows += [TableRow(label, None, make_published(numbers)) for label, numbers in QUOTED.items()]
    columns = [make_column(name, high) for name in PROBES for high in highs]
    entries = tables.compare(results, rows, columns, REFERENCE)
    stopping_split = "the test split, as published" if options.as_published else "a third split"
    remarks = [
        "List maximum: accuracy. Decoding and addition: root mean squared error. Mean ± standard deviation over "
        f"seeds, each with a split, an order and initial parameters of its own; {stopping_split} stops "
        f"the training and chooses the epoch, of {sizes.epochs} at most. The paper's numbers are of one run "
        "each, stopped and measured on the same split.",
        f"Training has {LISTS[options.scale]:,} lists and {sizes.train:,} pairs; the paper 100,000 of each.",
        *noise.describe_interval(len(options.seeds)),
        f"List maximum is of {sizes.held:,} lists a seed: one accuracy of 0.9 has a standard error of "
        f"{(0.09 / sizes.held) ** 0.5:.3f}.",
        *find_missing_numbers(results),
    ]
    title = "Table 2: what small networks read off frozen vectors of numbers"
    extra = {"systems": systems, "sizes": sizes._asdict(), "lists": LISTS[options.scale], "drawn_by": "dice.table2"}
    text = report.publish("table2", title, remarks, {"": (entries, columns)}, results, options, LABEL, extra)
    files = ["table2.md", "table2.json"]
    if any(entry["here"] for entry in entries):
        files.append("table2.png")
    report.print_report(text, options, *files)


def parse_ranges(words: str, smoke: str = "") -> list[int]:
    """The highest numbers of --ranges; at smoke only the first.

    Raises:
      UsageError: one is not a whole number, or its range is empty.
    """
    if not re.fullmatch(r"-?[0-9]+(,-?[0-9]+)*", words):
        raise UsageError(f"--ranges={words}: give whole numbers separated by commas, such as 99,999")
    highs = [int(word) for word in words.split(",")]
    if min(highs) < 1:
        raise UsageError(f"--ranges={words}: the range 0 … {min(highs)} is empty: give its highest number")
    return highs[:1] if smoke else highs


def parse_user_rows(embeds: Sequence[str], files: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The user's own rows: name → (label, spec).

    Raises:
      UsageError: two rows have the same name, or a file is missing.
    """
    rows: dict[str, tuple[str, str]] = {}
    for spec in (*embeds, *files):
        if spec in files and not pathlib.Path(spec).expanduser().is_file():
            raise UsageError(f"--table={spec}: there is no such file")
        vectors.parse_spec(spec)
        label = pathlib.Path(spec).name if spec in files else spec
        row = "".join(c if c.isalnum() or c in "._=-" else "-" for c in label)
        if row in rows:
            raise UsageError(f"{label} is given twice")
        rows[row] = (label, spec)
    return rows


def find_missing_numbers(results) -> list[str]:
    """A remark for each table of vectors that lacks numbers of a range."""
    remarks = []
    for (task, row), by_seed in results.items():
        high = int(task.rpartition("-")[2])
        count = next((int(r.metrics["training"]["numbers"]) for r in by_seed.values() if r.metrics), high + 1)
        if count < high + 1:
            remarks.append(f"{row} has vectors of {count:,} of the {high + 1:,} numbers of {task}.")
    return remarks


def draw(content: Mapping[str, Any]) -> dict[str, plots.Figure]:
    """The figure: errors by row, a panel for each probe, a mark for each range; open marks are the paper's."""
    entries = content["tables"][content["name"]]
    columns = [(*split_task(column["task"]), column["title"]) for column in content["columns"][content["name"]]]
    rows = list(dict.fromkeys(entry["row"] for entry in entries if entry["here"]))
    if not rows:
        return {}
    by_cell = {(entry["row"], entry["column"]): entry for entry in entries}

    def list_errors(probe: str, column: str, source: str) -> list[tuple[float, float | None] | None]:
        numbers = [by_cell.get((row, column), {}).get(source) for row in rows]
        return [find_error(probe, number) if number else None for number in numbers]

    panels = {}
    for probe, (heading, unit) in HEADINGS.items():
        all_dots = []
        for high, column in sorted((high, column) for name, high, column in columns if name == probe):
            name = f"0 to {high:,}"
            all_dots.append(plots.Dots(name, list_errors(probe, column, "here")))
            all_dots.append(plots.Dots("the paper", list_errors(probe, column, "paper"), beside=name))
        if any(any(dots.numbers) for dots in all_dots):
            axis = plots.Axis(unit, limits=(-0.06, 1.06), ticks=(0, 1)) if probe == "max" else plots.Axis(unit, True)
            panels[heading] = (axis, [dots for dots in all_dots if any(dots.numbers)])
    return {"table2.png": plots.draw_dots(make_title(by_cell, columns, rows), rows, panels)}


def split_task(task: str) -> tuple[str, int]:
    """(probe, highest number) of a task such as "max-99"."""
    probe, _, high = task.rpartition("-")
    return probe, int(high)


def find_error(probe: str, number: Mapping[str, Any]) -> tuple[float, float | None]:
    """(error, standard deviation) of an entry: of list maximum the share of wrong answers."""
    return (1 - number["mean"] if probe == "max" else number["mean"]), number["std"]


def make_title(
    by_cell: Mapping[tuple[str, str], Mapping[str, Any]], columns: Sequence[tuple[str, int, str]], rows: Sequence[str]
) -> str:
    """The message: which row has the least error most often, or, of one row, how often the paper's is no smaller."""
    best: Counter[str] = Counter()
    n_measures = n_good = n_compared = 0
    for probe, _, column in columns:
        cells = {row: cell for row in rows if (cell := by_cell.get((row, column))) and cell["here"]}
        errors = {row: find_error(probe, cell["here"])[0] for row, cell in cells.items()}
        if errors:
            n_measures += 1
            best[min(errors, key=lambda row: errors[row])] += 1
        if paper := cells.get(rows[0], {}).get("paper"):
            n_compared += 1
            n_good += errors[rows[0]] <= find_error(probe, paper)[0]
    if len(rows) == 1 and n_compared:
        return f"{rows[0]}: errors no larger than the paper's in {n_good} of {n_compared} measures"
    (row, count), *_ = best.most_common(1)
    return f"{row} has the least error in {count} of {n_measures} measures"


if __name__ == "__main__":
    command.entry(main)
