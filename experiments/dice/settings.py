"""What the tables of magnitude classification share: systems, configs and the data they run on."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, noise
from numjax.bundled.experiments.runs import Cell, Results
from numjax.tools.command import Parser

OUT = "runs/dice-{scale}"
TASK = "magnitude"
# Words of the config → label; they differ in what stands in the place of a number's token.
SYSTEMS = {
    "bilstm": ("BiLSTM, one vector for all numbers", ""),
    "dice": ("BiLSTM with DICE-2", "embed=dice"),
    "dice_d": ("BiLSTM with DICE-D", "embed=dice_d"),
    "prototype": ("BiLSTM with prototypes", "embed=prototype"),
}
REFERENCE = "dice"
LABEL = SYSTEMS[REFERENCE][0]
# Another split than the one that the experiments of NumGPT tried things out on.
DATA_SEED = 1
SMOKE_SIZE = 400


def cell(options: argparse.Namespace, system: str, size: int = 0) -> Cell:
    """A system on the task at the scale of the options; `size` is its width, by default the scale's."""
    from numjax.bundled.configs import dice

    words = [options.scale, SYSTEMS[system][1], "as_published" * options.as_published, f"size={size}" * bool(size)]
    made: Any = dice.get_config(",".join(filter(None, words)))
    task: Mapping[str, Any] = {"path": options.path, "variant": options.variant, "data_seed": DATA_SEED}
    with made.unlocked():
        made.log_every = 50 if options.scale == "smoke" else 250
        made.task.update(task)
        if options.scale == "smoke":
            made.task.size = SMOKE_SIZE
        if system == "bilstm":
            del made.embeds.numeral
    return Cell(TASK, f"{system}-{size}" if size else system, made)


def noise_of(
    cells: Sequence[Cell], results: Results, options: argparse.Namespace, reference: str
) -> list[dict[str, Any]]:
    """Differences in micro-F1, which is accuracy here, resampled by record."""

    def right(row: Mapping[str, Any]) -> float:
        return float(row["prediction"] == row["reference"]["label"])

    return noise.differences(cells, results, options.out, reference, f"{TASK}.jsonl", right)


def parse(parser: Parser, words: Sequence[str] | None) -> argparse.Namespace:
    """The options, with --path and --variant of the dataset: titles, as published comments."""
    parser.add_argument("--path", default="", help="folder of the Numeracy-600K files")
    parser.add_argument("--variant", choices=("titles", "comments"), default="")
    options = command.parse(parser, words)
    options.variant = options.variant or ("comments" if options.as_published else "titles")
    return options


def remarks(options: argparse.Namespace) -> list[str]:
    """What the data are, and how an epoch was chosen."""
    if options.path:
        data = f"Data: {options.variant} of Numeracy-600K in {options.path}."
    else:
        data = (
            f"Data: a generated **stand-in** for the {options.variant} of Numeracy-600K, not the dataset. The "
            "numbers show that the pipeline works; they do not compare with the paper's."
        )
    chosen = "test, as in the paper" if options.as_published else "validation"
    classes = "0 … 6, 7 counted as 6" if options.as_published else "0 … 7"
    return [
        data,
        f"F1 in percent on test over the magnitudes {classes}, at the epoch that was best on {chosen}; a class that "
        "is neither there nor predicted counts as 0.",
        *noise.interval(len(options.seeds)),
    ]
