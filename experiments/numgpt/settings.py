"""What the tables and figures of NumGPT share: the systems, their configs, and how results are written down."""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled.experiments import trials
from numjax.bundled.experiments.runs import RunCell

SYSTEMS = {
    "gpt": "GPT, subwords",
    "digits": "GPT, digits",
    "dice": "GPT + DICE",
    "numgpt": "NumGPT",
}
REFERENCE = "numgpt"
LABEL = SYSTEMS[REFERENCE]
OUT = "runs/numgpt-{scale}"
# A pilot read the test split that data seed 0 makes; the tables have one that nobody has looked at.
DATA_SEED = 1
# A run from which the number of epochs of `overnight` follows read a test split too.
OVERNIGHT_DATA_SEED = 2
# What was tried by hand, on NumGPT alone, to set the scale `laptop`: label → number of trials (README, "Pilot").
PILOT = {LABEL: 9}
TUNED = ("laptop", "overnight")  # the scales that have the pilot's settings
# Settings that all systems share, for --trials: the pilot's. The last one varies first.
GRID = {
    "backbone.dropout": (0.0, 0.1),
    "backbone.init_std": (0.08, 0.02),
    "optim.learning_rate": (1e-3, 3e-4, 2e-3),
}
# Runs of the other tasks are too long to be tried several times at this scale.
TRIED_OVERNIGHT = "mme"
# Enough for statistics, few enough for seconds; a multiple of 40.
SMOKE_SIZE = 400


def make_config(
    scale: str, task: str, system: str, as_published: bool = False, changes: Mapping[str, Any] | None = None
) -> Any:
    """The config of a system on a task.

    Args:
      task, system: as in configs/numgpt.py.
      changes: block → its changed keys, such as {"embeds": {"numeral": {"sigma": 5.0}}}.
    """
    from numjax.bundled.configs import numgpt

    words = [scale, f"task={task}", f"system={system}"] + ["as_published"] * as_published
    config: Any = numgpt.get_config(",".join(words))
    with config.unlocked():
        config.log_every = 50 if scale == "smoke" else 250
        if task != "text":
            config.task.data_seed = OVERNIGHT_DATA_SEED if scale == "overnight" else DATA_SEED
        if task == "generation":
            config.task.answer = "text"  # as in the paper: NGR is the share of outputs that are a number
        if scale == "smoke" and task != "text":
            config.task.size = SMOKE_SIZE
        config.update(changes or {})
    return config


def prepare(cells: Sequence[RunCell], options: argparse.Namespace) -> tuple[list[RunCell], dict[str, Any]]:
    """The cells with the settings of their trials, and the JSON's entries on trials (`trials.prepare`)."""
    labels = SYSTEMS | {f"{system}-pretrained": f"{label}, pre-trained" for system, label in SYSTEMS.items()}
    manual_trials = PILOT if options.scale in TUNED else {}

    def find_tried(cell: RunCell) -> RunCell:
        if options.scale != "overnight" or cell.start is not None:
            return cell
        return make_cell(options, TRIED_OVERNIGHT, cell.system)

    return trials.prepare(cells, options, GRID, labels, manual_trials, find_tried)


def make_cell(
    options: argparse.Namespace,
    task: str,
    system: str,
    start: RunCell | None = None,
    changes: Mapping[str, Any] | None = None,
) -> RunCell:
    """A system on a task at the scale of the options; `start` makes it a fine-tuning."""
    name = system if start is None else f"{system}-pretrained"
    return RunCell(task, name, make_config(options.scale, task, system, options.as_published, changes), start)


def make_pretraining(options: argparse.Namespace, system: str, text: str) -> RunCell:
    """The pre-training of a system on a folder of text."""
    folder = str(pathlib.Path(text).expanduser().resolve())
    config = make_config(options.scale, "text", system, options.as_published, {"task": {"path": folder}})
    return RunCell("text", system, config)
