"""Table 2: probes that are trained together with a number encoder, on its vectors.

    python -m experiments.luna.table2 --path=FOLDER                     # tatqa/ and tabfact/ in it; every row
    python -m experiments.luna.table2 --path=FOLDER --only=char_lstm    # one row
    python -m experiments.luna.table2 --path=FOLDER --trials=4          # the learning rate of each row by validation
    python -m experiments.luna.table2 --path=FOLDER --as_published      # the released split and selection
    python -m experiments.luna.table2                                   # generated tables

Decoding, addition, subtraction: root mean squared error of the significand, accuracy of the exponent. List maximum:
accuracy of the largest of three. A stopped run resumes from its last epoch.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from typing import Any

from numjax.bundled.experiments import command, report, stored, tables, trials
from numjax.bundled.experiments.luna import numbers, settings, toys
from numjax.bundled.experiments.luna.toys import EncoderCell, ToySizes
from numjax.bundled.experiments.runs import Results
from numjax.bundled.experiments.tables import Published, TableColumn, TableRow
from numjax.runtime import log

SEEDS = {"smoke": 1, "laptop": 3, "paper": 3}
SIZES = {
    "smoke": ToySizes(items=400, held=60, dim=16, hidden=8, epochs=2, batch_size=32, tables=60),
    # The paper's examples, in four tenths of its steps: the README says how the learning rate was chosen.
    "laptop": ToySizes(items=300_000, held=5_000, dim=64, hidden=64, epochs=12, learning_rate=6e-3),
    "paper": ToySizes(items=300_000, held=60_000, dim=768, hidden=768),
}
# Scale → row → its encoder. The paper does not give the sizes of its Table 2.
SPECS = {
    "smoke": {
        "char_lstm": "char_lstm:hidden=8",
        "char_former": "char_former:hidden=8,mlp_width=16",
        "dice": "dice_linear",
    },
    "laptop": {
        "char_lstm": "char_lstm:hidden=64",
        # LUNA's 0.1M has 8 units, and an MLP of 2,048 for each character: that takes an hour.
        "char_former": "char_former:hidden=64,mlp_width=256",
        "dice": "dice_linear",
    },
    "paper": {
        "char_lstm": "char_lstm:parameters=1M",
        "char_former": "char_former:parameters=1M",
        "dice": "dice_linear",
    },
}
LABELS = settings.NUMBEDS
# Options of each encoder with `--as_published`.
PUBLISHED = {"char_lstm": "", "char_former": "padded=true", "dice": "as_published=true"}
REFERENCE = "char_lstm"
CONSTANT = "the same answer always"

NAMES = {"decode": "decode", "add": "add", "subtract": "subtract"}
COLUMNS = [
    column
    for task, title in NAMES.items()
    for column in (
        TableColumn(f"{title} sig", toys.TASK, f"{task}_significand", 1.0, 3),
        TableColumn(f"{title} exp", toys.TASK, f"{task}_exponent"),
    )
]
COLUMNS.append(TableColumn("list max", toys.TASK, "max"))
# With --trials: rates, each tried for half the epochs and a quarter of the examples of laptop.
RATES = {"learning_rate": (1e-3, 3e-3, 6e-3, 1.2e-2)}
TRIAL = {"items": 76_800, "epochs": 6}
# Settings that were tried by hand at laptop, label → number: the same rates in the same way (README).
TRIALS = {"CharLSTM": 4}
PAPER = {
    "char_lstm": (0.0946, 99.97, 0.5572, 99.46, 1.367, 97.17, 98.55),
    "char_former": (0.1799, 99.85, 0.6718, 99.44, 1.546, 96.86, 97.71),
    "dice": (2.309, 67.90, 2.453, 69.29, 3.819, 39.53, 92.45),
}
QUOTED = {"RoBERTa": (2.400, 34.75, 2.332, 37.80, 4.166, 52.16, 32.84)}


def make_cell(row: str, scale: str, as_published: bool) -> EncoderCell:
    """The cell of a row at a scale."""
    spec, extra_options = SPECS[scale][row], PUBLISHED[row] if as_published else ""
    return EncoderCell(row, f"{spec}{',' if ':' in spec else ':'}{extra_options}" if extra_options else spec)


def make_published(quoted: Sequence[float]) -> dict[str, Published]:
    """The paper's numbers by column."""
    return {column.title: Published(number) for column, number in zip(COLUMNS, quoted, strict=True)}


def choose_rates(
    cells: Sequence[EncoderCell], options: argparse.Namespace, sizes: ToySizes
) -> tuple[dict[str, ToySizes], dict[str, Any]]:
    """(row → its sizes, with the rate of least loss on validation, the JSON's entries of the trials).

    Raises:
      UsageError: there are not so many rates, or all trials of a row diverged.
    """
    tried, chosen, records, results = trials.list_trials(RATES, options.trials), {}, {}, []
    fewer = {name: min(value, getattr(sizes, name)) for name, value in TRIAL.items()}
    for cell in cells:
        scores = []
        for changes in tried:
            smaller = sizes._replace(**fewer, **changes)
            folder, seeds = options.out / stored.TRIALS, [trials.SEED]
            by_seed = toys.run(cell, seeds, folder, smaller, options.path, options.as_published, test=False)
            results.append(by_seed[trials.SEED])
            scores.append(-results[-1].metrics.get("validation", {}).get("loss", math.inf))
        name = f"{toys.TASK}/{cell.row}"
        best, records[name] = trials.choose_best(name, tried, scores, "-loss")
        chosen[cell.row] = sizes._replace(**best)
    return chosen, trials.pack_trials(records, results)


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table2.{md,json}."""
    parser = command.make_parser(__doc__ or "", settings.OUT, SEEDS)
    parser.add_argument("--path", default="", help="folder with the files of tatqa and tabfact")
    parser.add_argument("--only", default="", help="rows, separated by commas")
    trials.add_option(parser, RATES)
    options = command.parse_options(parser, words)
    is_wanted, sizes = command.parse_only(options.only, [toys.TASK], LABELS), SIZES[options.scale]
    cells = [make_cell(row, options.scale, options.as_published) for row in LABELS if is_wanted(toys.TASK, row)]
    sizes_by_row, trial_entries = dict.fromkeys(LABELS, sizes), {}
    if options.trials:
        sizes_by_row, trial_entries = choose_rates(cells, options, sizes)
    results: Results = {}
    for cell in cells:
        log.say(f"{LABELS[cell.row]}: {cell.spec}")
        row_sizes = sizes_by_row[cell.row]
        results[toys.TASK, cell.row] = toys.run(
            cell, options.seeds, options.out, row_sizes, options.path, options.as_published
        )
    examples = toys.draw_examples(options.path, sizes, 0, options.as_published)
    constants = {column.title: toys.score_constant(examples)[column.metric] * column.scale for column in COLUMNS}
    rows = [TableRow(LABELS[row], row, make_published(PAPER[row])) for row in LABELS]
    rows += [TableRow(label, None, make_published(quoted)) for label, quoted in QUOTED.items()]
    rows.append(TableRow(CONSTANT, None, {}, constants))
    entries = tables.compare(results, rows, COLUMNS, REFERENCE)
    extra = {"sizes": sizes._asdict(), "specs": SPECS[options.scale], "seen": toys.measure_overlap(examples)}
    if options.trials:
        extra |= {"trials": {LABELS[cell.row]: options.trials for cell in cells}, **trial_entries}
    elif options.scale == "laptop" and not options.as_published:
        extra["trials"] = dict.fromkeys(LABELS.values(), 0) | TRIALS
    text = report.publish(
        "table2",
        "Table 2: probes trained together with number encoders",
        _make_remarks(options, sizes, examples),
        {"": (entries, COLUMNS)},
        results,
        options,
        LABELS[REFERENCE],
        extra,
    )
    report.print_report(text, options, "table2.md", "table2.json")


def _make_remarks(options, sizes: ToySizes, examples: toys.ExampleSplits) -> list[str]:
    tabfact = (
        "training split" if options.path and numbers.load_train_ids(options.path) else "all tables: no train_id.json"
    )
    tatqa = ", ".join(file.name for file in numbers.list_tatqa_files(options.path)) if options.path else ""
    source_note = (
        f"Numbers of the tables of TAT-QA ({tatqa}) and TabFact ({tabfact})."
        if options.path
        else "Generated tables, a **stand-in**: the numbers show that the pipeline works and do not compare with the "
        "paper's."
    )
    train, _, test = examples.parts
    counts = [" / ".join(f"{len(items):,}" for items in part) for part in (train, test)]
    split = (
        "The released split: the first 80%, not shuffled, with repetition; the epoch is chosen on test. "
        f"{100 * toys.measure_overlap(examples):.1f}% of the test numbers that stand alone are training numbers."
        if options.as_published
        else "Shuffled and without repetition; every held-out example has a number that training has not seen; the "
        "epoch is chosen on a third split."
    )
    return [
        "sig: root mean squared error of the significand; exp: accuracy of the exponent, −2 … 7, in per cent; list "
        "max: accuracy in per cent, of three. Mean ± standard deviation over seeds.",
        source_note + " " + split,
        f"Single numbers / pairs / triples: {counts[0]} to train on, {counts[1]} to test on, seed 0; the paper has "
        f"300,000 of each in all. {sizes.epochs} epochs; vectors of {sizes.dim} dimensions.",
    ]


if __name__ == "__main__":
    command.entry(main)
