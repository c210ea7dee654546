"""A row of the grid end to end: a scheme, and a stranger's embedding by one flag."""

from __future__ import annotations

import json
import math
import shutil
import sys
from types import SimpleNamespace

import pytest

import numjax
from numjax.bundled.experiments import identity, stored, trials
from numjax.bundled.experiments.grid import __main__ as grid
from numjax.bundled.experiments.grid import cells, rows, runner, scoring, training
from numjax.bundled.experiments.grid.report import files
from numjax.errors import Diverged, Preempted
from numjax.evals import report
from numjax.system import System
from numjax.train import loop
from numjax.train.loop import Splits
from tests.grid_jobs import TINY, make_job
from tests.runs_test import cache  # noqa: F401  (the fixture builds datasets once)

WAVES = """
import flax.linen as nn
import jax.numpy as jnp

from numjax import protocols


class Embed(protocols.Embed, nn.Module):
    dim: int = 64
    kind = "numeral"

    def __call__(self, numerals, features=None):
        size = jnp.where(numerals.n_digits > 0, numerals.log10, 0.0)
        return jnp.sin(size[..., None] * 2.0 ** jnp.arange(self.dim))
"""
ADDITION = "waves=fone embeds.numeral=strange_waves"


@pytest.fixture(scope="module", autouse=True)
def module_of_a_stranger(tmp_path_factory):
    folder = tmp_path_factory.mktemp("working")
    (folder / "strange_waves.py").write_text(WAVES)
    sys.path.insert(0, str(folder))
    yield folder
    sys.path.remove(str(folder))


@pytest.fixture(scope="module")
def grid_folder(tmp_path_factory, cache, module_of_a_stranger):  # noqa: F811
    """The cells of two rows. The first row's process ends after its training, before its cells are written."""
    out = tmp_path_factory.mktemp("grid")
    job = make_job("digits", out)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring, "score_cell", lambda *_: sys.exit(9))
        with pytest.raises(SystemExit):
            runner.run_job(job)
    (metrics,) = out.glob("runs/*/seed_0/metrics.jsonl")
    before = [row for row in map(json.loads, metrics.open()) if row["split"] == "train"]
    outcomes = [runner.run_job(job), runner.run_job(make_job("waves", out, additions=[ADDITION]))]
    assert [outcome.state for outcome in outcomes] == [runner.DONE] * 2, outcomes
    after = [row for row in map(json.loads, metrics.open()) if row["split"] == "train"]
    assert after == before and before[-1]["step"] == TINY.steps  # no step was taken twice
    return out


def test_cells_are_whole_and_no_score_is_above_its_ceiling(grid_folder):
    loaded = list(cells.load_cells(grid_folder))
    assert {(cell["row"], cell["column"]) for cell in loaded} == {
        (row, column) for row in ("digits", "waves") for column in TINY.columns
    }
    for cell in loaded:
        assert set(cells.FIELDS) <= set(cell) and cell["diverged"] is cell["not_applicable"] is None
        assert cell["steps"] == 6 and cell["parameters"] > 1000 and cell["slots_per_number"] >= 1
        assert 0 < cell["score_seconds"] <= cell["overhead_seconds"]
        assert cell["seconds"] > 0 and cell["ms_per_step"] == pytest.approx(1000 * cell["seconds"] / 6, rel=0.01)
        assert set(cell["ceiling"]) == {"all", *cell["streams"]} and "inside" in cell["streams"]
        for stream, metrics in {"all": cell["metrics"], **cell["streams"]}.items():
            assert 0 <= metrics["exact"] <= cell["ceiling"][stream] <= 1
            assert set(metrics) == set(scoring.METRICS)
        assert [point["step"] for point in cell["curve"]] == [3, 6]
        assert 0 < len(cell["examples"]) <= 12
        assert cell["settings"]["learning_rate"] == 1e-3 and cell["settings"]["tried"] == {}
        shared = grid_folder / "settings" / f"{cell['key']}.json"
        assert identity.make_key(json.loads(shared.read_text())) == cell["key"]
        code = cells.load_code(grid_folder, cell)
        assert code["numjax.train.loop"] and code["numjax.bundled.experiments.grid.scoring"]
    by_row = {cell["row"]: cell for cell in loaded if cell["column"] == "max"}
    assert by_row["waves"]["slots_per_number"] == 1 < by_row["digits"]["slots_per_number"]
    assert cells.load_code(grid_folder, by_row["waves"])["strange_waves"]
    assert "strange_waves" in by_row["waves"]["settings"]["parts"]["embeds"]
    assert by_row["digits"]["metrics"]["calibration_error"] is not None
    assert by_row["waves"]["metrics"]["calibration_error"] is None  # its head states no probability of a number


def test_the_time_of_a_step_is_that_of_the_steps_asked_for(tmp_path):
    rates = {100: 2.0, 200: 2.0, 300: 2.2, 400: 0.5, 500: 0.7}
    lines = [{"split": "train", "step": step, "seconds_per_step": rate} for step, rate in rates.items()]
    lines.append({"split": "validation", "step": 500, "loss": 1.0})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert training.load_seconds_per_step(tmp_path) == 2.0
    assert training.load_seconds_per_step(tmp_path, after=300) == pytest.approx(0.6)
    assert training.load_seconds_per_step(tmp_path, after=500) == 0
    # The first interval of a process compiles, and is as long as the median one.
    assert training.sum_step_seconds(tmp_path) == pytest.approx(100 * (2.0 + 2.0 + 2.2 + 0.5 + 0.7))
    assert training.sum_step_seconds(tmp_path, after=250) == pytest.approx(50 * 0.7 + 100 * (0.5 + 0.7))
    assert training.sum_step_seconds(tmp_path, after=500) == 0


CODE = {"module": "digest"}


def test_the_learning_rate_is_the_best_on_validation_after_a_short_run(tmp_path, monkeypatch):
    config = rows.make_config(rows.list_rows()["digits"], TINY._replace(steps=600, warmup=50), TINY.columns)
    losses, calls, given = {5e-4: 2.0, 1e-3: 1.5, 4e-3: None, 8e-3: math.nan}, [], []

    def train(system, splits, folder, seed, score, compiled, note):
        optim = system.config.optim
        given.append(compiled)
        calls.append((optim.learning_rate, optim.steps, optim.warmup, seed, splits.test, system.config.eval.test))
        if losses[optim.learning_rate] is None:
            raise Diverged("the loss is nan")
        return {"validation": {"loss": losses[optim.learning_rate]}}, f"compiled by {optim.learning_rate}"

    monkeypatch.setattr(training, "train", train)
    system = System(config, *[None] * (len(System._fields) - 1))
    prepared = training.Prepared(system, Splits("train", "validation", "test"), [], [])
    lease = SimpleNamespace(check=lambda: None, guard=lambda function: function)
    assert training.choose_learning_rate(prepared, tmp_path, list(losses)[:2], lease, CODE)[0] == 1e-3
    rate, tried, compiled = training.choose_learning_rate(prepared, tmp_path, list(losses), lease, CODE)
    assert rate == 1e-3 and tried["0.004"] is None and list(tried) == ["0.0005", "0.001", "0.004", "0.008"]
    assert [call[0] for call in calls] == list(losses)  # finished trials are not run again
    assert given == [None, "compiled by 0.0005", None, None] and compiled == "compiled by 0.008"
    assert {call[1:] for call in calls} == {(60, 5, trials.SEED, None, False)}
    (tmp_path / "trials.json").unlink()
    rate, tried, _ = training.choose_learning_rate(prepared, tmp_path, [4e-3, 8e-3], lease, CODE)
    assert rate is None and tried["0.004"] is None and math.isnan(tried["0.008"])


def test_trials_that_are_cut_short_keep_their_code(tmp_path, monkeypatch):
    def stop(*_, **__):
        raise Preempted("stopped at step 3")

    monkeypatch.setattr(training, "train", stop)
    config = rows.make_config(rows.list_rows()["digits"], TINY, TINY.columns)
    system = System(config, *[None] * (len(System._fields) - 1))
    prepared = training.Prepared(system, Splits("train", "validation", "test"), [], [])
    lease = SimpleNamespace(check=lambda: None, guard=lambda function: function, path=tmp_path)
    for code in (CODE, {"module": "other"}):
        with pytest.raises(Preempted):
            training.choose_learning_rate(prepared, tmp_path, [4e-3, 8e-3], lease, code)
    assert stored.load_code(tmp_path / "trials") == {"module": "digest+other"}


def test_a_seed_takes_the_learning_rate_from_the_cells_of_another(tmp_path, monkeypatch):
    """Trials on another machine might choose another, and the map shows cells of one learning rate."""
    calls, losses = [], {1e-3: 1.5, 2e-3: 1.7, 4e-3: 1.0}

    def train(system, splits, folder, seed, *_, **__):
        rate = system.config.optim.learning_rate
        calls.append((seed, rate))
        if seed != trials.SEED:
            raise Diverged("the loss is nan at step 3")
        return {"validation": {"loss": losses[rate]}}, None

    def run(job):
        calls.clear()
        shutil.rmtree(tmp_path / "runs", ignore_errors=True)
        assert runner.run_job(job).state == runner.DONE
        return cells.load_cell(job.path("copy"))

    monkeypatch.setattr(training, "train", train)
    job = make_job("digits", tmp_path, TINY._replace(rates=(1e-3, 4e-3)))
    first = run(job)
    assert calls == [(trials.SEED, 1e-3), (trials.SEED, 4e-3), (0, 4e-3)]
    losses[4e-3] = 2.0
    second = run(job._replace(seed=1))
    assert calls == [(1, 4e-3)] and second["settings"] == first["settings"]
    # Also where trials were begun here.
    (shared,) = tmp_path.glob("runs/*")
    (shared / "trials.json").write_text('{"0.001": 0.5}')
    job.path("copy").unlink()
    calls.clear()
    assert runner.run_job(job).state == runner.DONE and calls == [(0, 4e-3)]
    # Nothing is taken from cells of other rates, or, where the same code is asked for, of other code.
    run(job._replace(seed=2, scale=TINY._replace(rates=(1e-3, 2e-3))))
    assert calls == [(trials.SEED, 1e-3), (trials.SEED, 2e-3), (2, 1e-3)]
    old = cells.write_once(tmp_path, "code", {"numjax.train.loop": "01d"})
    for path in (tmp_path / "cells").glob("*.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"code": old}))
    run(job._replace(seed=3))
    assert calls == [(3, 4e-3)]
    run(job._replace(seed=4, same_code=True))
    assert calls == [(trials.SEED, 1e-3), (trials.SEED, 4e-3), (4, 1e-3)]
    run(job._replace(seed=5, same_code=True))
    assert calls == [(5, 1e-3)]
    # Of cells whose code nobody knows neither.
    shutil.rmtree(tmp_path / "code")
    run(job._replace(seed=6))
    assert calls[0] == (trials.SEED, 1e-3)


def diverge(*_, **__):
    raise Diverged("the loss is nan at step 3")


def test_a_row_that_diverges_with_every_learning_rate_is_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "train", diverge)
    job = make_job("digits", tmp_path, TINY._replace(rates=(1e-3, 4e-3)))
    outcome = runner.run_job(job)
    assert (outcome.state, outcome.cells) == (runner.DONE, 2)
    for column in job.columns:
        cell = cells.load_cell(job.path(column))
        assert cell["diverged"] == "every learning rate diverged in its trial: 0.001, 0.004"
        assert cell["settings"]["tried"] == {"0.001": None, "0.004": None}
        assert cell["settings"]["learning_rate"] is None and cell["metrics"]["exact"] == cell["seconds"] == 0
    assert runner.run_job(job).state == runner.KEPT
    # The next seed knows it from the trials of the first.
    assert runner.run_job(job._replace(seed=1)).state == runner.DONE
    made = files.write(tmp_path)
    assert not made.faults and "0.0 (2, 2 diverged)" in (tmp_path / "grid.md").read_text()


def test_a_run_that_diverges_is_a_result(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "train", diverge)
    job = make_job("digits", tmp_path)
    assert runner.run_job(job).state == runner.DONE
    cell = cells.load_cell(job.path("max"))
    assert cell["diverged"] == "the loss is nan at step 3" and cell["metrics"]["exact"] == 0
    assert cell["curve"] == [] and cell["ceiling"]["all"] == 1


def test_a_seed_after_another_compiles_nothing_and_has_the_cells_of_one_alone(tmp_path, monkeypatch):
    prepared, compiled = [], []
    monkeypatch.setattr(training, "_prepare", watch(training._prepare, prepared))
    monkeypatch.setattr(loop, "make_compiled", watch(loop.make_compiled, compiled))
    after = [make_job("digits", tmp_path / "after", seed=seed) for seed in (0, 1)]
    for job in after:
        assert runner.run_job(job).state == runner.DONE
    assert len(prepared) == len(compiled) == 1
    alone = make_job("digits", tmp_path / "alone", seed=1)
    assert runner.run_job(alone).state == runner.DONE
    assert len(prepared) == len(compiled) == 2
    for column in alone.columns:
        first, second, third = (cells.load_cell(job.path(column)) for job in (*after, alone))
        for name in ("metrics", "streams", "examples", "settings"):
            assert second[name] == third[name]
        assert first["examples"] != second["examples"]


def watch(function, calls):
    """The function, which adds its arguments to `calls`."""

    def call(*args, **kwargs):
        calls.append((args, kwargs))
        return function(*args, **kwargs)

    return call


def test_what_is_not_scored_changes_no_cell(grid_folder, tmp_path, monkeypatch):
    (metrics,) = grid_folder.glob("runs/tiny.digits.*/seed_0/metrics.jsonl")
    lines = {line["split"]: line for line in map(json.loads, metrics.open())}
    assert "loss" not in lines["test"] and "exact" in lines["test"]
    assert "loss" in lines["validation_best"] and "exact" not in lines["validation_best"]
    monkeypatch.setattr(training, "score_run", report.score_split)
    job = make_job("digits", tmp_path)
    assert runner.run_job(job).state == runner.DONE
    for column in job.columns:
        fast, full = (cells.load_cell(each.path(column)) for each in (make_job("digits", grid_folder), job))
        for name in ("metrics", "streams", "examples", "ceiling", "settings"):
            assert fast[name] == full[name]
        assert [point["exact"] for point in fast["curve"]] == [point["exact"] for point in full["curve"]]


def take_over(job):
    """What another machine leaves after it has waited for `leases.PATIENCE`: its own lease."""
    (path,) = (job.folder / "leases").glob(f"{job.name}.json")
    path.write_text('{"host": "elsewhere", "pid": 1, "since": "2030-01-01T00:00:00"}')


def test_a_holder_that_lost_its_lease_writes_no_cell(tmp_path, monkeypatch, capsys):
    job = make_job("copy", tmp_path)
    write_cell = cells.write_cell

    def write_and_sleep(job, cell):
        write_cell(job, cell)
        take_over(job)

    monkeypatch.setattr(cells, "write_cell", write_and_sleep)
    outcome = runner.run_job(job)
    assert outcome.state == runner.HELD and "is with process 1 on elsewhere since 2030" in outcome.message
    assert [path.exists() for path in map(job.path, job.columns)] == [True, False]
    lines = [line for line in capsys.readouterr().err.splitlines() if "lost it, and writes no more" in line]
    assert len(lines) == 1 and job.name in lines[0]
    assert (tmp_path / "leases" / f"{job.name}.json").exists(), "the lease of the other is not removed"


@pytest.mark.parametrize("moment", ["score", "line"])
def test_a_training_that_lost_its_lease_stops_before_it_saves(moment, tmp_path, monkeypatch, cache):  # noqa: F811
    job = make_job("digits", tmp_path)
    train = training.train

    def train_and_sleep(system, splits, folder, seed, score, compiled, note):
        def score_late(*args, **kwargs):
            take_over(job)
            return score(*args, **kwargs)

        def note_late(seconds):
            take_over(job)
            return note(seconds)

        ways = {"score": (score_late, note), "line": (score, note_late)}
        return train(system, splits, folder, seed, ways[moment][0], compiled, note=ways[moment][1])

    monkeypatch.setattr(training, "train", train_and_sleep)
    assert runner.run_job(job).state == runner.HELD
    (folder,) = tmp_path.glob("runs/*/seed_0")
    lines = (folder / "metrics.jsonl").read_text().splitlines() if (folder / "metrics.jsonl").exists() else []
    assert len(lines) == (2 if moment == "score" else 0), lines  # of steps 1 and 2
    assert not [path for kind in ("best", "checkpoints") for path in (folder / kind).glob("[0-9]*")]
    assert not list(tmp_path.glob("cells/*"))


def test_examples_are_the_same_for_all_rows(grid_folder):
    asked = {}
    for cell in cells.load_cells(grid_folder):
        asked.setdefault(cell["column"], []).append([(e["stream"], e["prompt"], e["gold"]) for e in cell["examples"]])
    assert all(first == second for first, second in asked.values())


@pytest.mark.parametrize("row", ["digits", "oracle"])
def test_cells_of_other_code_are_run_again_once_where_the_same_code_is_asked_for(row, grid_folder, tmp_path):
    """With the trials of the old code and a trace of it in the run, they would be run again each time."""
    out = tmp_path / "grid"
    shutil.copytree(grid_folder, out)
    job = make_job(row, out)
    runner.run_job(job)
    for cell in [cells.load_cell(job.path(column)) for column in job.columns]:
        old = cells.write_once(out, "code", dict.fromkeys(cells.load_code(out, cell), "01d"))
        job.path(cell["column"]).write_text(json.dumps(cell | {"code": old}))
    for path in out.glob("runs/*digits*/*/code.json"):
        path.write_text(json.dumps(dict.fromkeys(json.loads(path.read_text()), "01d")))
    (run,) = out.glob("runs/*digits*")
    (run / "trials.json").write_text("{}")
    stored.start_code(run / "trials", {"numjax.train.loop": "01d"})
    strict = job._replace(same_code=True)
    assert [runner.run_job(j).state for j in (job, strict, strict)] == [runner.KEPT, runner.DONE, runner.KEPT]
    assert len(list((out / "replaced").iterdir())) == 2
    if row == "digits":
        assert not (run / "trials.json").exists() and (run / "seed_0" / "best").exists()


def test_a_row_whose_task_refuses_a_column_has_no_meaning_there(tmp_path):
    scale = TINY._replace(columns=("sort",))
    job = make_job("number", tmp_path, scale, additions=["number=fone task.answer=number"])
    assert runner.run_job(job).state == runner.DONE
    assert "more than a plain number" in cells.load_cell(job.path("sort"))["not_applicable"]
    assert runner.run_job(job).state == runner.KEPT


def test_cells_that_are_there_are_not_run_again(grid_folder):
    stamps = {path: path.stat().st_mtime_ns for path in (grid_folder / "cells").iterdir()}
    assert runner.run_job(make_job("digits", grid_folder)).state == runner.KEPT
    assert {path: path.stat().st_mtime_ns for path in (grid_folder / "cells").iterdir()} == stamps
    assert not list((grid_folder / "leases").glob("*.json"))


def test_the_model_of_a_cell_can_be_loaded(grid_folder, module_of_a_stranger):
    (folder,) = grid_folder.glob("runs/tiny.waves.*/seed_0")
    model = numjax.load(folder, trust=True)
    assert model.embed("12").shape == (TINY.width,)
    assert model.system.config.backbone.dtype == "float32", "cells do not depend on the device"
    assert not (folder / "checkpoints").exists()


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("waves", "give NAME=ROW and changes"),
        ("a b=digits", "give NAME=ROW and changes"),
        ("mine=digitz", "no row 'digitz' to start from: did you mean digits"),
        ("digits=fone", "there is a row digits already"),
        ("mine=fone embeds.numeral=fon", "did you mean fone"),
        ("mine=fone embeds=fone", "the path of this block is embeds.NAME"),
        ("mine=digits backbone.layers=6", "the scale decides backbone.layers: choose --scale, or --size"),
        ("mine=digits backbone=decoder:layers=6", "the scale decides backbone.layers"),
        ("mine=digits optim.steps=9", "the scale decides optim.steps"),
        ("mine=digits task.length=9", "all rows have the same problems"),
        ("mine=digits heads.next=classify", "task arithmetic wants an answer that head"),
    ],
)
def test_an_addition_that_cannot_be_a_row_is_one_line(word, says):
    with pytest.raises(ValueError, match=says) as caught:
        rows.list_rows([word])
    assert "\n" not in str(caught.value) and "--add=" in str(caught.value)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rows=digitz"], "no such row: did you mean digits"),
        (["--columns=plus"], "the grid has no such column"),
        (["--columns=sort"], "the scale smoke has no such column"),
        (["--size=6x512"], "the scale smoke has a fixed size"),
        (["--scale=full", "--size=6x100"], "a width that 64 divides"),
        (["--scale=full", "--size=2x²"], "give LAYERSxWIDTH"),
        (["--rows=oracle", "--known=nowhere"], "it holds no SCALE/cells/ROW.json.gz"),
        (["--seeds=0"], "give how many"),
        (["--workers=0"], "--workers must be at least 1"),
        (["--resources=timeout"], "give NAME=VALUE"),
    ],
)
def test_a_wrong_command_is_one_line(words, says, tmp_path):
    with pytest.raises(ValueError, match=says) as caught:
        grid.main([*words, "--dirty", f"--out={tmp_path}"])
    assert "\n" not in str(caught.value)
