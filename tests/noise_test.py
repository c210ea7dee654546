"""Tests of noise: paired differences by test problem, and intervals over seeds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from ml_collections import ConfigDict

from numjax.bundled.experiments import noise, runs
from numjax.bundled.experiments.runs import RunCell

VIEWS = 4


def write_predictions(tmp_path, monkeypatch, outcomes: dict[str, np.ndarray]):
    """Writes predictions of systems with two seeds: outcomes[system] is 0 or 1 by [seed, problem], in four views."""
    monkeypatch.setattr(runs, "workdir", lambda cell, seed, out: out / cell.system / str(seed))
    for system, rows in outcomes.items():
        for seed, row in enumerate(rows):
            folder = tmp_path / system / str(seed) / "predictions"
            folder.mkdir(parents=True)
            lines = [{"id": f"{view}-{i}", "right": int(x)} for i, x in enumerate(row) for view in range(VIEWS)]
            (folder / "task.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cells = [RunCell("task", system, ConfigDict()) for system in outcomes]
    return cells, {("task", system): dict.fromkeys(range(len(rows))) for system, rows in outcomes.items()}


def test_differences_are_resampled_by_problem(tmp_path, monkeypatch, rng):
    base = rng.integers(0, 2, (2, 400))
    outcomes = {"base": base, "same": base.copy(), "better": np.maximum(base, rng.random((2, 400)) < 0.3)}
    cells, results = write_predictions(tmp_path, monkeypatch, outcomes)

    def bootstrap(problem):
        differences = noise.bootstrap_differences(
            cells, results, tmp_path, "base", "task.jsonl", lambda row: row["right"], problem
        )
        return {difference["system"]: difference for difference in differences}

    by_row, by_problem = bootstrap(str), bootstrap(lambda name: name.partition("-")[2])
    assert set(by_row) == {"same", "better"} and by_row["better"]["answers"] == 1600
    assert (by_row["better"]["items"], by_problem["better"]["items"]) == (1600, 400)
    assert by_problem["same"]["mean"] == by_problem["same"]["low"] == by_problem["same"]["high"] == 0
    better = by_problem["better"]
    assert better["mean"] == pytest.approx(100 * (outcomes["better"] - base).mean())
    # A problem's views are right or wrong together and count as one sample: the interval is twice as wide.
    assert better["high"] - better["low"] == pytest.approx(
        2 * (by_row["better"]["high"] - by_row["better"]["low"]), rel=0.2
    )
    # Against the formula of a mean of independent differences.
    error = 100 * (outcomes["better"] - base).mean(0).std() / 400**0.5
    assert better["high"] - better["low"] == pytest.approx(2 * 1.96 * error, rel=0.1)
    assert better["error"] == pytest.approx(100 * base.mean(0).std() / 400**0.5)
    lines = noise.describe_differences(list(by_problem.values()), {"same": "Same", "better": "Better"}, "Base")
    assert ["inside the noise" in line for line in lines] == [True, False] and "400 problems" in lines[0]


def test_seeds_without_predictions_are_left_out(tmp_path, monkeypatch):
    cells, results = write_predictions(tmp_path, monkeypatch, {"base": np.zeros((2, 3)), "other": np.ones((2, 3))})

    def bootstrap():
        return noise.bootstrap_differences(cells, results, tmp_path, "base", "task.jsonl", lambda row: row["right"])

    assert bootstrap()[0]["seeds"] == [0, 1]
    (tmp_path / "other" / "0" / "predictions" / "task.jsonl").unlink()
    assert (bootstrap()[0]["seeds"], bootstrap()[0]["mean"]) == ([1], 100)
    (tmp_path / "base" / "1" / "predictions" / "task.jsonl").unlink()
    assert bootstrap() == []


def test_folds_have_other_problems_and_count_together(tmp_path, monkeypatch, rng):
    outcomes = {"base": rng.integers(0, 2, (3, 50)), "other": rng.integers(0, 2, (3, 50))}
    monkeypatch.setattr(runs, "workdir", lambda cell, seed, out: out / cell.task / cell.system / str(seed))
    for system, folds in outcomes.items():
        for fold, row in enumerate(folds):
            folder = tmp_path / f"fold{fold}" / system / str(fold) / "predictions"
            folder.mkdir(parents=True)
            lines = [json.dumps({"id": f"{fold}-{i}", "right": int(x)}) for i, x in enumerate(row)]
            (folder / "task.jsonl").write_text("\n".join(lines))
    cells = [RunCell("task", system, ConfigDict()) for system in outcomes]
    (entry,) = noise.bootstrap_differences(
        cells,
        {("task", system): dict.fromkeys(range(3)) for system in outcomes},
        tmp_path,
        "base",
        "task.jsonl",
        lambda row: row["right"],
        find_cell=lambda cell, fold: cell._replace(task=f"fold{fold}"),
    )
    assert (entry["items"], entry["seeds"]) == (150, [0, 1, 2])
    assert entry["mean"] == pytest.approx(100 * (outcomes["other"].mean() - outcomes["base"].mean()))


def test_intervals_contain_the_mean_in_95_percent(rng):
    """The interval contains the estimated mean in 95% of cases."""
    samples = rng.normal(0, 1, (20_000, 3))
    (line,) = noise.describe_interval(3)
    width = float(line.split(" standard deviations")[0].rpartition(" ")[2])
    is_inside = np.abs(samples.mean(1)) < width * samples.std(1, ddof=1)
    assert is_inside.mean() == pytest.approx(0.95, abs=0.006)
    assert noise.describe_interval(1) == []
