"""A run in which parts were swapped by `--set`, as the tests of single parts want it."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np

from numjax import api
from numjax.config import blocks
from numjax.train import runs

SETTINGS = {
    "optim.steps": 3,
    "eval.examples": 8,
    "eval.batch_size": 8,
    "decode.max_tokens": 12,
    "data.train_size": 32,
}


def trained(folder: pathlib.Path, config: Any, *words: str) -> tuple[api.Loaded, dict[str, float]]:
    """(the model of a run of three steps at smoke scale, what the last look at validation said). Its losses are
    finite, and what it generates is text."""
    with config.unlocked():
        blocks.apply_changes(config, words)
        for path, value in SETTINGS.items():
            config.update_from_flattened_dict({path: value})
    runs.run(config, folder, "train")
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    seen = [line for line in lines if line["split"] == "validation"][-1]
    assert np.isfinite([line["loss"] for line in lines if "loss" in line]).all()
    assert any(line["split"] == "test" for line in lines)
    return api.load(folder), seen
