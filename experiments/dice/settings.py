"""Shared by the tables of magnitude classification: systems, configs and data."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import command, magnitudes, noise
from numjax.bundled.experiments.runs import Results, RunCell
from numjax.tools.command import Parser

OUT = "runs/dice-{scale}"
TASK = "magnitude"
# Name → (label, words of the config); systems differ in the vector of a number's token.
SYSTEMS = {
    "bilstm": ("BiLSTM, one vector for all numbers", ""),
    "dice": ("BiLSTM with DICE-2", "embed=dice"),
    "dice_d": ("BiLSTM with DICE-D", "embed=dice_d"),
    "prototype": ("BiLSTM with prototypes", "embed=prototype"),
}
REFERENCE = "dice"
LABEL = SYSTEMS[REFERENCE][0]
# A split that the experiments of NumGPT were not tuned on.
DATA_SEED = 1
SMOKE_SIZE = 400


def make_cell(options: argparse.Namespace, system: str, size: int = 0) -> RunCell:
    """The cell of a system at the scale of the options; `size` is its width, by default the scale's."""
    from numjax.bundled.configs import dice

    words = [options.scale, SYSTEMS[system][1], "as_published" * options.as_published, f"size={size}" * bool(size)]
    config: Any = dice.get_config(",".join(filter(None, words)))
    task: Mapping[str, Any] = {"path": options.path, "variant": options.variant, "data_seed": DATA_SEED}
    with config.unlocked():
        config.log_every = 50 if options.scale == "smoke" else 250
        config.task.update(task)
        if options.scale == "smoke":
            config.task.size = SMOKE_SIZE
        if system == "bilstm":
            del config.embeds.numeral
    return RunCell(TASK, f"{system}-{size}" if size else system, config)


def bootstrap_micro_f1(
    cells: Sequence[RunCell], results: Results, options: argparse.Namespace, reference: str
) -> list[dict[str, Any]]:
    """Bootstrapped differences in micro-F1, which is accuracy here, resampled by record."""

    def is_right(row: Mapping[str, Any]) -> float:
        return float(row["prediction"] == row["reference"]["label"])

    return noise.bootstrap_differences(cells, results, options.out, reference, f"{TASK}.jsonl", is_right)


def parse_options(parser: Parser, words: Sequence[str] | None) -> argparse.Namespace:
    """The parsed options, with --path and --variant of the dataset: by default titles, as published comments."""
    magnitudes.add_options(parser, "")
    options = command.parse_options(parser, words)
    options.variant = options.variant or ("comments" if options.as_published else "titles")
    magnitudes.check_options(options)
    return options


def make_remarks(options: argparse.Namespace) -> list[str]:
    """Remarks on the data and on the choice of the epoch."""
    choice_split = "test, as in the paper" if options.as_published else "validation"
    classes = "0 … 6, 7 counted as 6" if options.as_published else "0 … 7"
    return [
        magnitudes.describe_data(options),
        f"F1 in percent on test over the magnitudes {classes}, at the epoch that was best on "
        f"{choice_split}; a class that "
        "is neither there nor predicted counts as 0.",
        *noise.describe_interval(len(options.seeds)),
    ]
