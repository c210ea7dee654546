"""The benchmarks' harness: turns, ratios, verdicts, and contenders that fail. No test measures time."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pytest

from numjax.bundled.experiments.benchmarks import __main__ as bench
from numjax.bundled.experiments.benchmarks import (
    corpus,
    input_pipeline,
    number_writing,
    pairs,
    scheme_cost,
    startup,
    train_step,
)
from numjax.bundled.experiments.grid.report import clock
from numjax.errors import UsageError

TINY = dict(layers=1, width=16, heads=2, length=8, rows=2, vocab=100)


def make_contender(name: str, code: str) -> pairs.Contender:
    return pairs.Contender(
        name, [sys.executable, "-c", "from numjax.bundled.experiments.benchmarks import pairs\n" + code]
    )


def make_result(**seconds: list[float]) -> dict:
    return {"contenders": {name: {"seconds": values, "peak_mib": sum(values)} for name, values in seconds.items()}}


def test_contenders_take_turns(tmp_path):
    log = tmp_path / "log"
    code = "pairs.serve(lambda n: open({0!r}, 'a').write('{1}' * n) and {{'last': n}}, version='v{1}')"
    contenders = [make_contender(name, code.format(str(log), name)) for name in "ab"]
    result = pairs.drive(contenders, rounds=3, units=2, say=lambda _: None)
    assert log.read_text() == "aabb" * 4  # one round warms up
    for name in "ab":
        entry = result["contenders"][name]
        assert (entry["version"], entry["last"]) == (f"v{name}", 2)
        assert len(entry["seconds"]) == len(entry["cpu_seconds"]) == 3 and entry["peak_mib"] > 1
    json.dumps(result)


def test_prints_of_a_contender_are_not_taken_as_answers():
    result = pairs.drive([make_contender("a", "pairs.serve(lambda n: print('noise'))")], 1, say=lambda _: None)
    assert result["rounds"] == 1


def test_memory_is_that_of_the_process_itself():
    ballast = bytearray(os.urandom(1)) * (200 << 20)
    small = pairs.drive([make_contender("a", "pairs.serve(lambda n: None)")], 1, say=lambda _: None)
    code = "x = bytearray(b'x') * (100 << 20)\npairs.serve(lambda n: None)"
    large = pairs.drive([make_contender("a", code)], 1, say=lambda _: None)
    growth = large["contenders"]["a"]["peak_mib"] - small["contenders"]["a"]["peak_mib"]
    assert 95 < growth < 120
    assert small["contenders"]["a"]["peak_mib"] < 150 < len(ballast) >> 20


@pytest.mark.parametrize("code", ["raise SystemExit(1)", "pairs.serve(lambda n: 1 / 0)"])
def test_a_contender_that_ends_is_named(code, capfd):
    with pytest.raises(UsageError, match="contender broken ended early"):
        pairs.drive([make_contender("broken", code)], 1, say=lambda _: None)


def test_ratios_are_taken_round_by_round():
    # The machine is ten times slower in the second round; a ratio of medians would say 1.0.
    result = make_result(slow=[2.0, 20.0, 3.0], fast=[1.0, 10.0, 3.0])
    assert pairs.ratio(result, "slow", "fast") == {"median": 2.0, "least": 1.0, "most": 2.0}
    assert pairs.memory_ratio(result, "fast", "slow") == pytest.approx(14 / 25)


@pytest.mark.parametrize(
    ("measured", "lower", "verdict"),
    [(1.5, False, "below"), (1.6, False, "floor"), (1.9, False, "goal"), (0.71, True, "below")],
)
def test_verdicts(measured, lower, verdict):
    floor, goal = (0.7, 0.6) if lower else (1.6, 1.9)
    row = pairs.BenchmarkRow("x", measured, floor=floor, goal=goal, lower=lower)
    assert row.verdict == verdict and pairs.format_table([row]).endswith(verdict)
    assert not row._replace(floor=None, goal=None).verdict


def test_missing_peers_are_named(tmp_path):
    assert "make compare" in pairs.explain_missing(tmp_path / "python", ["torch"])
    assert "no_such_package" in pairs.explain_missing(sys.executable, ["json", "no_such_package"])
    assert pairs.explain_missing(sys.executable, ["json"]) == ""


def test_every_benchmark_is_listed_and_unknown_ones_are_refused():
    assert {"train_step", "generate", "numerals", "input_pipeline", "startup", "distance"} <= set(
        bench.load_benchmarks()
    )
    with pytest.raises(UsageError, match="train_step"):
        bench.main(["--only=nothing"])


@pytest.mark.whole
def test_train_step_reports_pairs_and_leaves_out_absent_peers(tmp_path, capsys):
    words = [f"--{name}={value}" for name, value in TINY.items()]
    report = train_step.main([*words, "--rounds=1", f"--peer={tmp_path / 'python'}", f"--out={tmp_path / 'x.json'}"])
    assert "torch is left out" in capsys.readouterr().err
    assert set(report["contenders"]) == {"gpt", "numgpt"} and set(report["pairs"]) == {"numgpt / gpt"}
    assert all(row.floor is None for row in train_step.make_rows(report))  # floors hold for the usual shape only
    assert json.loads((tmp_path / "x.json").read_text())["shape"] == TINY
    # Uniform guesses at the start; NumGPT's loss also counts its selector and numbers.
    assert report["contenders"]["gpt"]["first_loss"] == pytest.approx(4.6, abs=0.1)
    with pytest.raises(UsageError, match="contenders"):
        train_step.main(["--contenders=gpt,keras"])


def test_goals_depend_on_the_shape():
    spread = {"speed": {"median": 1.7, "least": 1.0, "most": 2.0}, "memory": 0.65}
    pair = {"contenders": {}, "pairs": {"gpt / torch": spread, "gpt / torch-tuned": spread}}
    usual = {row.what: row for row in train_step.make_rows({"shape": train_step.SHAPE, **pair})}
    assert usual["train gpt / torch tokens/s"].verdict == usual["train gpt / torch peak memory"].verdict == "floor"
    assert usual["train gpt / torch-tuned tokens/s"].verdict == "goal"
    wide = {row.what: row for row in train_step.make_rows({"shape": train_step.WIDE_SHAPE, **pair})}
    assert wide["train 12/768 gpt / torch tokens/s"].goal == 1.8
    assert not wide["train 12/768 gpt / torch peak memory"].verdict


RUN = dict(layers=1, width=16, heads=2, length=32, rows=2)


@pytest.mark.whole
def test_batches_are_counted_and_absent_peers_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("NUMJAX_DATA", str(tmp_path))  # the folder is empty, so the text is generated
    words = [f"--{name}={value}" for name, value in RUN.items()]
    words += ["--rounds=1", "--batches=3", "--steps=2", "--megabytes=0.05", f"--peer={tmp_path / 'python'}"]
    report = input_pipeline.main(words)
    assert "torch is left out" in capsys.readouterr().err
    assert set(report["contenders"]) == {"gpt", "numgpt"} and report["text"] == "made up" and not report["pairs"]
    for entry in report["contenders"].values():
        assert 0.8 * 2 * 32 < entry["positions"] <= 2 * 32  # packed: next to no padding
    assert 0 <= report["waited_percent"] <= 100
    assert all(row.floor is None for row in input_pipeline.make_rows(report))
    with pytest.raises(UsageError, match="contenders"):
        input_pipeline.main(["--contenders=keras"])


def test_the_peers_get_the_loaders_rows(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMJAX_DATA", str(tmp_path))
    corpus.write_text(tmp_path / "text", 0.05)
    assert input_pipeline.work_with_steps(RUN, tmp_path, 0) == {}
    rows = np.load(tmp_path / "packed.npy")
    _, loader = input_pipeline.make_loader("gpt", RUN, tmp_path)
    batch, *_ = loader.batch(0)
    np.testing.assert_array_equal(rows[:2, :-1], batch.inputs.ids)
    assert len(rows) == 2 * loader.batches_of_epoch()


@pytest.mark.whole
def test_a_start_is_timed_up_to_its_first_step(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMJAX_DATA", str(tmp_path))
    # The cache keeps the compiled step, however fast it compiles.
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    corpus.write_text(tmp_path / "text", 0.05)
    times = startup.start_run(corpus.make_flags(tmp_path, RUN), tmp_path / "run", tmp_path / "cache")
    order = ["imported", "assemble", "load_data", "make_compiled", "start", "first_batch", "dispatched", "total"]
    for suffix in ("", "_cpu"):
        values = [times[name + suffix] for name in order]
        assert values == sorted(values) and values[0] > 0
    assert list(tmp_path.glob("cache/*"))
    with pytest.raises(UsageError, match="ended before its first step"):
        startup.start_run(["--config=nothing"], tmp_path / "other", tmp_path / "cache")


def test_starts_are_compared_round_by_round():
    start = {"imported": 1.0, "dispatched": 2.5, "total": 4.0, "imported_cpu": 1.0, "dispatched_cpu": 2.0}
    seconds = {"cold": [start | {"total": 8.0}] * 2, "warm": [start] * 2}
    seconds |= {name: [{"total": 2.0 if "numjax" in name else 1.0}] * 2 for name in startup.IMPORTS}
    rows = {row.what: row for row in startup.make_rows({"shape": startup.SHAPE, "seconds": seconds})}
    assert rows["start warm, imports to first step"].measured == 1.5
    assert rows["start warm, imports to first step"].verdict == "floor"
    assert (
        rows["start warm / cold"].measured == 0.5
        and rows["import numjax.modes over import jax, flax, optax"].measured == 2
    )


@pytest.mark.whole
def test_the_costs_of_schemes_are_those_beside_digits(capsys):
    result = scheme_cost.main(["--rows=fone,agg", "--rounds=1", "--steps=1"])
    digits, fone, agg = (result["rows"][row] for row in ("digits", "fone", "agg"))
    assert (digits["positions"], fone["positions"], agg["positions"]) == (8, 1, 9)
    assert fone["length"] < digits["length"] <= agg["length"]
    # The sum of digits has no parameters; FoNE has the kernel and the text's vector of its fusion, and its head.
    places, width = 18, 64
    fusion = (width + 2 * places + 1) * width + width + 2 * places + 1
    head = 2 * width + width * (2 * places + 1)
    assert agg["parameters"] == digits["parameters"] == fone["parameters"] - fusion - head
    table = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("| `") for line in table) == 3 and digits["ratio"]["median"] == 1
    with pytest.raises(UsageError, match="'digit' is no row"):
        scheme_cost.main(["--rows=digit"])


@pytest.mark.whole
def test_rows_of_the_grid_are_timed_once_on_problems_of_all_columns(tmp_path, capsys):
    out = tmp_path / "step_times.smoke.json"
    words = ["--problems=grid", "--rounds=1", "--steps=1", f"--out={out}"]
    scheme_cost.main(["--rows=xval", *words])
    first = json.loads(out.read_text())
    scheme_cost.main(["--rows=xval,fone", *words])
    second = json.loads(out.read_text())
    assert list(second["rows"]) == ["digits", "xval", "fone"]
    scheme_cost.main(["--rows=xval", "--add=bare=fone heads.next.projected=False", *words])
    third = json.loads(out.read_text())["rows"]
    assert list(third) == ["digits", "xval", "fone", "bare"]
    assert third["bare"]["parameters"] < third["fone"]["parameters"], "the change counts"
    assert {row: second["rows"][row] for row in first["rows"]} == first["rows"], "they are not timed again"
    assert first["rows"]["xval"]["length"] < first["rows"]["digits"]["length"]
    times = clock.load(out, "smoke")
    assert times.seconds["digits"] * 1000 == pytest.approx(first["rows"]["digits"]["step_ms"])
    ratio = second["rows"]["fone"]["ratio"]["median"]
    assert times.seconds["fone"] == pytest.approx(times.seconds["digits"] * ratio)
    capsys.readouterr()


def test_a_row_of_ones_own_is_timed_on_the_grids_problems():
    with pytest.raises(UsageError, match="add --problems=grid"):
        scheme_cost.main(["--add=bare=fone heads.next.projected=False"])
    with pytest.raises(UsageError, match="no row 'fne' to start from"):
        scheme_cost.main(["--add=bare=fne", "--problems=grid"])


def test_step_times_of_other_problems_or_machines_are_not_added_to(tmp_path):
    out = tmp_path / "step_times.cpu.json"
    settings = scheme_cost.Settings("cpu", "grid", 1, 1)
    content = scheme_cost.start_result(settings, None)
    for change, message in (
        ({"problems": "additions"}, "has problems 'additions', not 'grid': choose another file"),
        ({"scale": "smoke"}, "has scale 'smoke'"),
        ({"rounds": 7}, "has rounds 7, not 1"),
        ({"machine": content["machine"] | {"cores": 99}}, "was measured with cores 99, and here it is"),
    ):
        out.write_text(json.dumps(content | change))
        with pytest.raises(UsageError, match=message):
            scheme_cost.start_result(settings, str(out))
    out.write_text("[1]")
    with pytest.raises(UsageError, match="no result of this benchmark"):
        scheme_cost.start_result(settings, str(out))


@pytest.mark.whole
def test_what_a_row_writes_is_as_long_as_its_answers(capsys):
    result = number_writing.main(["--rows=digits,carry", "--rounds=1", "--writes=1", "--batch=2", "--scale=smoke"])
    digits, carry = (result["rows"][row] for row in ("digits", "carry"))
    # A space, [F], twelve digits, [/F] and the end; a space, [NUM] and the end.
    assert (digits["tokens"], carry["tokens"]) == (16, 3)
    assert set(carry) == {"tokens", "all", "written"} and digits.keys() == carry.keys()
    assert sum(line.startswith("| `") for line in capsys.readouterr().out.splitlines()) == 2
    with pytest.raises(UsageError, match="'digit' is no row"):
        number_writing.main(["--rows=digit"])
    with pytest.raises(UsageError, match="must be positive"):
        number_writing.main(["--batch=0"])
