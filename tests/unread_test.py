"""Numbers that a model does not read whole are named, in training and for what a user types."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest

from numjax import modes
from numjax.bundled.configs import schemes
from numjax.config import blocks
from numjax.numeral.exact import is_inside, to_numeral
from numjax.system import assemble
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
    (line,) = (line for line in printed.splitlines() if "train:" in line and "not read whole" in line)
    assert "this system reads numbers (at most 20 digits, at most 1 behind the point, first digit to 10^2)" in line
    modes.run(config, tmp_path / "run", "generate", prompts=["1007 + 2 =", "12 + 0.04 =", "1007 + 5 ="])
    printed = capsys.readouterr().err
    assert "2 of 5 different numbers are not read whole, such as 1007, 0.04: this system reads" in printed
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps({"id": "input-20240115", "question": "20000 + 2 ="}) + "\n")
    modes.run(config, tmp_path / "run", "predict", input=str(path))
    # The other numbers are 2, and the 0 that stands for the answer.
    assert "1 of 3 different numbers are not read whole, such as 20000:" in capsys.readouterr().err


def test_a_model_that_holds_all_numbers_says_nothing(tmp_path, capsys):
    config = train(tmp_path / "run")
    capsys.readouterr()
    modes.run(config, tmp_path / "run", "generate", prompts=["1007 + 0.25 ="])
    assert "not read whole" not in capsys.readouterr().err


def test_a_part_of_a_number_is_named_by_the_number(tmp_path):
    config = schemes.get_config("fone_slots,smoke")
    with config.unlocked():
        config.embeds.numeral.update(integer=4, fraction=2)
    system = assemble(config, tmp_path, lambda: [{"id": "0", "question": "1 + 2 =", "answer": "3"}])
    row = system.encode(system.scheme.parse("3456700034 and 12.123456789"))
    surfaces, values = [n.surface for n in row.numbers], [n.value for n in row.numbers]
    line = system.name_unread(surfaces, to_numeral(values, 20))
    assert line.startswith("2 of 3 different numbers are not read whole, such as 3456700034, 12.123456789:")
    assert system.name_unread([], to_numeral([], 20)) == ""
