"""The protocol behind every table: the best checkpoint is chosen on validation, and the test split is read once."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from numjax.evals import report
from numjax.train import runs
from tests.runs_test import cache, tiny  # noqa: F401  (the fixture builds datasets once)

# By evaluation: validation is best in the second, test would be best in the last and is worst in the second.
CURVES = {"validation": [0.5, 0.9, 0.6, 0.7], "test": [0.6, 0.1, 0.8, 0.95]}


def fingerprint(params) -> float:
    return float(sum(np.abs(np.asarray(x, np.float64)).sum() for x in jax.tree.leaves(params)))


@pytest.fixture
def calls(monkeypatch):
    """(split, fingerprint of the parameters) of every evaluation; scores follow `CURVES` by the parameters' age."""
    calls: list[tuple[str, float]] = []
    ages: dict[float, int] = {}

    def score_split(system, compiled, params, encoded, split, workdir, *args, **options):
        mark = fingerprint(params)
        age = ages.setdefault(mark, len(ages))
        calls.append((split, mark))
        return {"accuracy": CURVES[split][age], "loss": 1 - CURVES[split][age]}

    monkeypatch.setattr(report, "score_split", score_split)
    return calls


def train(folder, **changes):
    steps = {"optim.steps": 4, "eval.every": 1, "checkpoint.every": 1, "eval.test": True}
    # Steps are evaluated from the first on: steps 1, 2, 3 and 4.
    return runs.run(tiny(**(steps | changes)), str(folder), "train")


def test_the_best_is_chosen_on_validation_and_test_is_read_once(calls, tmp_path):
    results = train(tmp_path)
    in_training, at_the_end = calls[:-2], calls[-2:]
    assert [split for split, _ in in_training] == ["validation"] * 4
    marks = [mark for _, mark in in_training]
    assert len(set(marks)) == 4, "each step changes the parameters"
    assert at_the_end == [("validation", marks[1]), ("test", marks[1])]
    assert results["validation"]["accuracy"] == 0.9 and results["test"]["accuracy"] == 0.1
    written = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["accuracy"] for row in written if row["split"] == "test"] == [0.1]


def test_without_a_choice_the_last_state_is_scored(calls, tmp_path):
    results = train(tmp_path, **{"eval.best": False})
    assert calls[-1] == ("test", calls[3][1]) and results["test"]["accuracy"] == 0.95


def test_less_is_better_where_the_task_says_so(calls, tmp_path, monkeypatch):
    from numjax.tasks import statement

    monkeypatch.setattr(statement.Task, "metric", "-loss")
    monkeypatch.setitem(CURVES, "validation", [0.9, 0.2, 0.95, 0.7])
    train(tmp_path)
    assert calls[-1] == ("test", calls[2][1]), "the third has the smallest loss"


def test_equal_scores_keep_the_earlier_one_and_nan_is_never_best(calls, tmp_path, monkeypatch):
    monkeypatch.setitem(CURVES, "validation", [float("nan"), 0.8, 0.8, float("nan")])
    train(tmp_path)
    assert calls[-1] == ("test", calls[1][1])
