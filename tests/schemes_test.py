"""The rows of configs/schemes.py: each fits together, and each learns 32 sums by heart as exactly as it can write."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pytest

import numjax
from numjax import modes
from numjax.build import build
from numjax.bundled import data as datasets
from numjax.bundled.configs import schemes
from numjax.bundled.data.arithmetic.operations import OPERATIONS
from numjax.config import fit
from numjax.tasks.arithmetic import match_digits
from numjax.text import vocab as vocabularies
from tests.runs_test import cache  # noqa: F401  (the fixture builds datasets once)

SUMS = {"operations": "add", "size": 32, "test": 4, "length": 4, "longer": "", "seed": 0}
# What one hidden state and a squared error can say of a number of four digits: its size, not its digits.
REAL_VALUED = {"xval": 0.5, "numgpt": 0.005}  # relative error
REAL_VALUED |= {"xval_linear5": 0.5, "xval_log1p": 0.5, "xval_bittokens": 0.5, "ple": 0.5, "periodic": 0.5}


def make_config(row: str):
    config = schemes.get_config(f"{row},smoke")
    options = {"task.size": 32, "task.test": 4, "task.length": 4, "task.longer": "", "optim.batch_size": 32}
    options |= {"optim.learning_rate": 5e-3, "optim.weight_decay": 0.0, "eval.every": 600, "eval.examples": 4}
    if row == "dice":
        options["embeds.numeral.high"] = 1e4  # as published, the range is that of the corpus
    with config.unlocked():
        config.update_from_flattened_dict(options | {"eval.test": False})
    return config


@pytest.mark.parametrize("row", schemes.ROWS)
def test_a_row_is_a_system_whose_parts_fit(row):
    for task in ("add", "sort"):
        config = schemes.get_config(f"{row},task={task}")
        assert config == schemes.get_config(f"row={row},cpu,task={task}")
        fit.check(config, build("tasks", config.task))


SLOT_ROWS = [row for row, change in schemes.ROWS.items() if change["scheme"]["name"] == "replace"]


def test_every_operation_is_a_task():
    assert set(schemes.TASKS) == {*OPERATIONS, "all"}


@pytest.mark.parametrize("row", SLOT_ROWS)
def test_only_values_tell_the_sums_of_a_slot_row_apart(row):
    """Neither a number's length nor its digits show in the ids, so nothing leaks past the embedding."""
    config = schemes.get_config(row)
    vocabulary = vocabularies.build({"name": "sentencepiece", "size": 320}, ["12 + 34 = 46"])
    scheme = build("text", {k: v for k, v in config.scheme.items() if k != "vocab"}, vocab=vocabulary)
    task = build("tasks", config.task)
    rows = [scheme.encode(task.prompt_from_text(text, scheme.parse)) for text in ("1 + 2", "123456 + 0.5", "-7 + 99")]
    assert all(np.array_equal(row.ids, rows[0].ids) for row in rows)
    assert len({tuple(number.value for number in row.numbers) for row in rows}) == 3


def test_an_unknown_row_names_those_that_are_near():
    with pytest.raises(ValueError, match="did you mean digits"):
        schemes.get_config("digitz")


@pytest.mark.whole
@pytest.mark.parametrize("row", schemes.ROWS)
def test_a_row_learns_sums_by_heart(row, tmp_path):
    modes.run(make_config(row), str(tmp_path / "run"), "train")
    model = numjax.load(tmp_path / "run")
    records = [dict(record) for record in datasets.load("arithmetic", "train", **SUMS)]
    predictions = [prediction["prediction"] for prediction in model.predict(records)]
    assert all(prediction is not None for prediction in predictions)
    for record, prediction in zip(records, predictions, strict=True):
        gold, value = Decimal(record["answer"]), Decimal(prediction)
        if row in REAL_VALUED:
            assert abs(value - gold) <= Decimal(REAL_VALUED[row]) * gold + 1
        else:
            assert value == model.system.scheme.nearest(gold)
            assert value == gold or match_digits(value, gold) < 1
