"""The protocol of every table: the best checkpoint is chosen on validation, and the test split is scored once."""

from __future__ import annotations

import json

import jax
import numpy as np
import pytest

from numjax import modes
from numjax.evals import report
from tests.runs_test import cache, tiny  # noqa: F401  (the fixture builds datasets once)

# By evaluation: validation is best in the second, test would be best in the last and is worst in the second.
CURVES = {"validation": [0.5, 0.9, 0.6, 0.7], "test": [0.6, 0.1, 0.8, 0.95]}


def compute_fingerprint(params) -> float:
    return float(sum(np.abs(np.asarray(x, np.float64)).sum() for x in jax.tree.leaves(params)))


@pytest.fixture
def calls(monkeypatch):
    """(split, fingerprint of the parameters) of every evaluation; scores follow `CURVES` by the parameters' age."""
    calls: list[tuple[str, float]] = []
    ages: dict[float, int] = {}

    def score_split(system, compiled, params, encoded, split, workdir, *args, **options):
        fingerprint = compute_fingerprint(params)
        age = ages.setdefault(fingerprint, len(ages))
        calls.append((split, fingerprint))
        return {"accuracy": CURVES[split][age], "loss": 1 - CURVES[split][age]}

    monkeypatch.setattr(report, "score_split", score_split)
    return calls


def train(folder, **changes):
    steps = {"optim.steps": 4, "eval.every": 1, "checkpoint.every": 1, "eval.test": True}
    # Steps 1, 2, 3 and 4 are evaluated.
    return modes.run(tiny(**(steps | changes)), str(folder), "train")


def test_the_best_is_chosen_on_validation_and_test_is_scored_once(calls, tmp_path):
    results = train(tmp_path)
    training_calls, final_calls = calls[:-2], calls[-2:]
    assert [split for split, _ in training_calls] == ["validation"] * 4
    fingerprints = [fingerprint for _, fingerprint in training_calls]
    assert len(set(fingerprints)) == 4, "each step changes the parameters"
    assert final_calls == [("validation", fingerprints[1]), ("test", fingerprints[1])]
    assert results["validation"]["accuracy"] == 0.9 and results["test"]["accuracy"] == 0.1
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["accuracy"] for row in rows if row["split"] == "test"] == [0.1]


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
