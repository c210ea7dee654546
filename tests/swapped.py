"""Trains a config with parts changed as by `--set`, for the tests of single parts."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

from numjax import api, modes
from numjax.config import blocks

SETTINGS = {
    "optim.steps": 3,
    "eval.examples": 8,
    "eval.batch_size": 8,
    "decode.max_tokens": 12,
    "data.train_size": 32,
}


def train_with_changes(folder: pathlib.Path, config: Any, *words: str) -> tuple[api.Loaded, dict[str, float]]:
    """Trains three steps at smoke scale. Asserts that the losses are finite and that the test split was evaluated.

    Returns (the model, the metrics of the last evaluation on validation).
    """
    with config.unlocked():
        blocks.apply_changes(config, words)
        for path, value in SETTINGS.items():
            config.update_from_flattened_dict({path: value})
    modes.run(config, folder, "train")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    validation_metrics = [line for line in lines if line["split"] == "validation"][-1]
    assert np.isfinite([line["loss"] for line in lines if "loss" in line]).all()
    assert any(line["split"] == "test" for line in lines)
    return api.load(folder), validation_metrics
