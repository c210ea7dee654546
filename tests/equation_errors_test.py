"""Errors of equations: the shares that experiments/mathgpt/errors.py counts."""

from __future__ import annotations

import json

import pytest

from numjax.bundled.experiments.mathgpt import errors
from numjax.expr import latex


def test_form_operators_and_numbers_are_counted_separately(tmp_path):
    pairs = [
        ("x = 2 + 3", "x = 2 + 3"),  # all right
        ("x = 2 + 5", "x = 2 + 3"),  # one number is wrong
        ("x = 3 \\times 2", "x = 2 + 3"),  # the operator is wrong
        ("x = 2 \\times 3 + 4", "x = 4 + 3 \\times 2"),  # the order is wrong
        (None, "x = 2"),
    ]

    def tree(text):
        return None if text is None else latex.parse(text).to_json()

    rows = [
        {"prediction": tree(prediction), "reference": {"tree": tree(reference)}} for prediction, reference in pairs
    ]
    file = tmp_path / "predictions.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert errors.measure_pairs(errors.load_pairs(file)) == pytest.approx(
        {"form": 2 / 5, "operators": 3 / 5, "numbers": 3 / 5, "known": 8 / 9, "short": 1 / 4, "long": 0.0}
    )
    assert not errors.measure_pairs(iter(()))
