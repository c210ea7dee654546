"""What is said to be inside the noise: paired differences by test problem, and intervals over seeds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ml_collections import ConfigDict

from numjax.bundled.experiments import noise, runs
from numjax.bundled.experiments.runs import Cell

VIEWS = 4


def written(tmp_path, monkeypatch, right: dict[str, np.ndarray]):
    """Predictions of systems with two seeds: right[system] holds 0 or 1 by [seed, problem]; each in four views."""
    monkeypatch.setattr(runs, "workdir", lambda cell, seed, out: out / cell.system / str(seed))
    for system, of in right.items():
        for seed, row in enumerate(of):
            folder = tmp_path / system / str(seed) / "predictions"
            folder.mkdir(parents=True)
            lines = [{"id": f"{view}-{at}", "right": int(x)} for at, x in enumerate(row) for view in range(VIEWS)]
            (folder / "task.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cells = [Cell("task", system, ConfigDict()) for system in right]
    return cells, {("task", system): dict.fromkeys(range(len(of))) for system, of in right.items()}


def test_differences_are_resampled_by_problem(tmp_path, monkeypatch, rng):
    base = rng.integers(0, 2, (2, 400))
    right = {"base": base, "same": base.copy(), "better": np.maximum(base, rng.random((2, 400)) < 0.3)}
    cells, results = written(tmp_path, monkeypatch, right)

    def found(problem):
        made = noise.differences(cells, results, tmp_path, "base", "task.jsonl", lambda row: row["right"], problem)
        return {one["system"]: one for one in made}

    alone, together = found(str), found(lambda name: name.partition("-")[2])
    assert set(alone) == {"same", "better"} and alone["better"]["answers"] == 1600
    assert (alone["better"]["items"], together["better"]["items"]) == (1600, 400)
    assert together["same"]["mean"] == together["same"]["low"] == together["same"]["high"] == 0
    better = together["better"]
    assert better["mean"] == pytest.approx(100 * (right["better"] - base).mean())
    # Views of a problem that are right or wrong together tell as much as one of them: twice the interval.
    assert better["high"] - better["low"] == pytest.approx(
        2 * (alone["better"]["high"] - alone["better"]["low"]), rel=0.2
    )
    # Against the formula of a mean of independent differences.
    error = 100 * (right["better"] - base).mean(0).std() / 400**0.5
    assert better["high"] - better["low"] == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert better["error"] == pytest.approx(100 * base.mean(0).std() / 400**0.5)
    said = noise.lines(list(together.values()), {"same": "Same", "better": "Better"}, "Base")
    assert ["inside the noise" in line for line in said] == [True, False] and "400 problems" in said[0]


def test_seeds_without_predictions_are_left_out(tmp_path, monkeypatch):
    cells, results = written(tmp_path, monkeypatch, {"base": np.zeros((2, 3)), "other": np.ones((2, 3))})

    def found():
        return noise.differences(cells, results, tmp_path, "base", "task.jsonl", lambda row: row["right"])

    assert found()[0]["seeds"] == [0, 1]
    (tmp_path / "other" / "0" / "predictions" / "task.jsonl").unlink()
    assert (found()[0]["seeds"], found()[0]["mean"]) == ([1], 100)
    (tmp_path / "base" / "1" / "predictions" / "task.jsonl").unlink()
    assert found() == []


def test_intervals_of_means(rng):
    """A share of 95% of them holds what is estimated."""
    drawn = rng.normal(0, 1, (20_000, 3))
    (line,) = noise.interval(3)
    width = float(line.split(" standard deviations")[0].rpartition(" ")[2])
    held = np.abs(drawn.mean(1)) < width * drawn.std(1, ddof=1)
    assert held.mean() == pytest.approx(0.95, abs=0.006)
    assert noise.interval(1) == []
