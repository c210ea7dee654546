"""Where equations go wrong: the shares that experiments/mathgpt/errors.py counts."""

from __future__ import annotations

import json

import pytest

from numjax.bundled.experiments.mathgpt import errors
from numjax.expr import latex


def test_what_is_right_of_an_equation_is_counted_apart(tmp_path):
    wrote = [
        ("x = 2 + 3", "x = 2 + 3"),  # all right
        ("x = 2 + 5", "x = 2 + 3"),  # a number is not
        ("x = 3 \\times 2", "x = 2 + 3"),  # the operator is not
        ("x = 2 \\times 3 + 4", "x = 4 + 3 \\times 2"),  # the places are not
        (None, "x = 2"),
    ]

    def tree(text):
        return None if text is None else latex.parse(text).to_json()

    rows = [{"prediction": tree(said), "reference": {"tree": tree(wanted)}} for said, wanted in wrote]
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert errors.measure_pairs(errors.load_pairs(file)) == pytest.approx(
        {"form": 2 / 5, "operators": 3 / 5, "numbers": 3 / 5, "known": 8 / 9, "short": 1 / 4, "long": 0.0}
    )
    assert not errors.measure_pairs(iter(()))
