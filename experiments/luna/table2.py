"""Table 2: what probes that are trained together with a number encoder read off its vectors.

    python -m experiments.luna.table2 --path=FOLDER                     # tatqa/ and tabfact/ in it; every row
    python -m experiments.luna.table2 --path=FOLDER --only=char_lstm    # one row
    python -m experiments.luna.table2 --path=FOLDER --as_published      # the released split and selection
    python -m experiments.luna.table2                                   # generated tables

Decoding, addition, subtraction: root mean squared error of the significand, accuracy of the exponent; accuracy of the
largest of three. What was stopped goes on from its last epoch.
"""

from __future__ import annotations

from collections.abc import Sequence

from numjax.bundled.experiments import command, report, tables
from numjax.bundled.experiments.luna import numbers, settings, toys
from numjax.bundled.experiments.luna.toys import Cell, Sizes
from numjax.bundled.experiments.runs import Results
from numjax.bundled.experiments.tables import Column, Published, Row
from numjax.runtime import log

SEEDS = {"smoke": 1, "laptop": 3, "paper": 3}
SIZES = {
    "smoke": Sizes(items=400, held=60, dim=16, hidden=8, epochs=2, batch_size=32, tables=60),
    # The paper's examples, in four tenths of its steps: see the README for how the rate was found.
    "laptop": Sizes(items=300_000, held=5_000, dim=64, hidden=64, epochs=12, learning_rate=6e-3),
    "paper": Sizes(items=300_000, held=60_000, dim=768, hidden=768),
}
# Scale → row → its encoder. The paper does not say which sizes its Table 2 is of.
SPECS = {
    "smoke": {
        "char_lstm": "char_lstm:hidden=8",
        "char_former": "char_former:hidden=8,mlp_width=16",
        "dice": "dice_linear",
    },
    "laptop": {
        "char_lstm": "char_lstm:hidden=64",
        # LUNA's 0.1M is of 8 units, with an MLP of 2,048 for each character: an hour's work.
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
# What `--as_published` turns back.
PUBLISHED = {"char_lstm": "", "char_former": "padded=true", "dice": "as_published=true"}
REFERENCE = "char_lstm"
CONSTANT = "the same answer always"

NAMES = {"decode": "decode", "add": "add", "subtract": "subtract"}
COLUMNS = [
    column
    for task, title in NAMES.items()
    for column in (
        Column(f"{title} sig", toys.TASK, f"{task}_significand", 1.0, 3),
        Column(f"{title} exp", toys.TASK, f"{task}_exponent"),
    )
]
COLUMNS.append(Column("list max", toys.TASK, "max"))
PAPER = {
    "char_lstm": (0.0946, 99.97, 0.5572, 99.46, 1.367, 97.17, 98.55),
    "char_former": (0.1799, 99.85, 0.6718, 99.44, 1.546, 96.86, 97.71),
    "dice": (2.309, 67.90, 2.453, 69.29, 3.819, 39.53, 92.45),
}
QUOTED = {"RoBERTa": (2.400, 34.75, 2.332, 37.80, 4.166, 52.16, 32.84)}


def cell(row: str, scale: str, as_published: bool) -> Cell:
    """A row at a scale."""
    spec, more = SPECS[scale][row], PUBLISHED[row] if as_published else ""
    return Cell(row, f"{spec}{',' if ':' in spec else ':'}{more}" if more else spec)


def published(quoted: Sequence[float]) -> dict[str, Published]:
    """The paper's numbers by column."""
    return {column.title: Published(number) for column, number in zip(COLUMNS, quoted, strict=True)}


def main(words: Sequence[str] | None = None) -> None:
    """Runs what is missing, then writes table2.{md,json}."""
    parser = command.parser(__doc__ or "", settings.OUT, SEEDS)
    parser.add_argument("--path", default="", help="folder with the files of tatqa and tabfact")
    parser.add_argument("--only", default="", help="rows, separated by commas")
    options = command.parse(parser, words)
    wanted, sizes = command.only(options.only, [toys.TASK], LABELS), SIZES[options.scale]
    results: Results = {}
    for row in LABELS:
        if wanted(toys.TASK, row):
            made = cell(row, options.scale, options.as_published)
            log.say(f"{LABELS[row]}: {made.spec}")
            results[toys.TASK, row] = toys.run(
                made, options.seeds, options.out, sizes, options.path, options.as_published
            )
    found = toys.data(options.path, sizes, 0, options.as_published)
    scale_of = {column.title: toys.constant(found)[column.metric] * column.scale for column in COLUMNS}
    rows = [Row(LABELS[row], row, published(PAPER[row])) for row in LABELS]
    rows += [Row(label, None, published(quoted)) for label, quoted in QUOTED.items()]
    rows.append(Row(CONSTANT, None, {}, scale_of))
    entries = tables.compare(results, rows, COLUMNS, REFERENCE)
    extra = {"sizes": sizes._asdict(), "specs": SPECS[options.scale], "seen": toys.seen(found)}
    text = report.publish(
        "table2",
        "Table 2: probes trained together with number encoders",
        _remarks(options, sizes, found),
        {"": (entries, COLUMNS)},
        results,
        options,
        LABELS[REFERENCE],
        extra,
    )
    report.say_where(text, options, "table2.md", "table2.json")


def _remarks(options, sizes: Sizes, found: toys.Data) -> list[str]:
    tabfact = "training split" if options.path and numbers.listed(options.path) else "all tables: no train_id.json"
    tatqa = ", ".join(file.name for file in numbers.files_of(options.path)) if options.path else ""
    where = (
        f"Numbers of the tables of TAT-QA ({tatqa}) and TabFact ({tabfact})."
        if options.path
        else "Generated tables, a **stand-in**: the numbers show that the pipeline works and do not compare with the "
        "paper's."
    )
    train, _, test = found.parts
    counts = [" / ".join(f"{len(items):,}" for items in part) for part in (train, test)]
    split = (
        "The released split: the first 80%, not shuffled, with repetition; the epoch is chosen on test. "
        f"{100 * toys.seen(found):.1f}% of the test numbers that stand alone are training numbers."
        if options.as_published
        else "Shuffled and without repetition; every held-out example has a number that training has not seen; the "
        "epoch is chosen on a third split."
    )
    return [
        "sig: root mean squared error of the significand; exp: accuracy of the exponent, −2 … 7, in per cent; list "
        "max: accuracy in per cent, of three. Mean ± standard deviation over seeds.",
        where + " " + split,
        f"Single numbers / pairs / triples: {counts[0]} to train on, {counts[1]} to test on, seed 0; the paper has "
        f"300,000 of each in all. {sizes.epochs} epochs; vectors of {sizes.dim} dimensions.",
    ]


if __name__ == "__main__":
    command.entry(main)
