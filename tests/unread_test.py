"""Numbers that a model does not read whole are named, in training and for what a user types."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from numjax import modes
from numjax.bundled.configs import schemes
from numjax.config import blocks
from numjax.numeral.exact import is_inside, to_numeral
from numjax.types import NumberRange
from tests import drawn
from tests.swapped import SETTINGS

RANGES = [
    NumberRange(),
    NumberRange(signed=False),
    NumberRange(digits=3),
    NumberRange(places=2),
    NumberRange(places=0, high=3),
    NumberRange(low=-2, high=2),
    NumberRange(digits=0),
]


@pytest.mark.parametrize("numbers", RANGES, ids=NumberRange.describe)
def test_many_numbers_belong_to_a_range_as_each_does(numbers, rng):
    """The numerals keep 6 digits; how many a number has is known all the same."""
    values = [*drawn.draw_decimals(rng, 500), *map(Decimal, ("0", "-0", "0.00", "1000", "1e3", "999.5", "9999999"))]
    assert is_inside(to_numeral([*values, None], 6), numbers).tolist() == [*map(numbers.holds, values), True]


def train(folder, *words: str):
    config = schemes.get_config("fone,smoke")
    with config.unlocked():
        blocks.apply_changes(config, words)
        config.update_from_flattened_dict(SETTINGS | {"optim.steps": 1, "eval.test": False})
    modes.run(config, folder, "train")
    return config


def test_a_run_names_the_numbers_that_its_model_does_not_hold(tmp_path, capsys):
    """With three places, fone reads 1007 as 7: this is said before a step is made, and where a user types it."""
    config = train(
        tmp_path / "run", "embeds.numeral=fone:integer=3,fraction=1", "heads.next=fone:integer=3,fraction=1"
    )
    printed = capsys.readouterr().err
    (line,) = (line for line in printed.splitlines() if "train:" in line and "cannot be held" in line)
    assert "this system holds numbers (at most 20 digits, at most 1 behind the point, first digit to 10^2)" in line
    modes.run(config, tmp_path / "run", "generate", prompts=["1007 + 2 =", "12 + 0.04 =", "1007 + 5 ="])
    printed = capsys.readouterr().err
    assert "2 of 5 numbers cannot be held as they are, such as 1007, 0.04: this system holds" in printed
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps({"id": "a", "question": "20000 + 2 ="}) + "\n")
    modes.run(config, tmp_path / "run", "predict", input=str(path))
    assert "1 of 2 numbers cannot be held as they are, such as 20000:" in capsys.readouterr().err


def test_a_model_that_holds_all_numbers_says_nothing(tmp_path, capsys):
    config = train(tmp_path / "run")
    capsys.readouterr()
    modes.run(config, tmp_path / "run", "generate", prompts=["1007 + 0.25 ="])
    assert "cannot be held" not in capsys.readouterr().err
