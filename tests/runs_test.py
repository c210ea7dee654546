"""Whole runs: seeds, stops at NaN, signals, and messages for bad input. Faults are in faults_test.py."""

from __future__ import annotations

import contextlib
import functools
import gzip
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

from numjax import modes
from numjax.config import blocks, command_line, origin
from numjax.errors import DataError, Diverged, Preempted, UsageError
from numjax.evals import report
from numjax.modes import evaluate, inputs
from numjax.modes.data import load_data
from numjax.modes.predict import predict_records
from numjax.modes.train import summarise
from numjax.runtime import log, signals
from numjax.system import assemble
from numjax.train import inherit, loop
from numjax.train import step as train_steps
from numjax.train.checkpoint import Checkpoints
from numjax.train.workdir import claim

ROOT = pathlib.Path(__file__).resolve().parents[1]
TINY = {
    "task.size": 400,
    "eval.examples": 32,
    "optim.batch_size": 8,
    "optim.steps": 40,
    "eval.every": 20,
    "checkpoint.every": 5,
    "log_every": 1,
    "eval.test": False,
}


def tiny(argument: str = "smoke", **changes):
    """Returns a config that trains in seconds; keys have dots as in flags."""
    from numjax.bundled.configs import numgpt

    config = numgpt.get_config(argument)
    with config.unlocked():
        for key, value in (TINY | changes).items():
            *path, last = key.split(".")
            block = config
            for part in path:
                block = block[part]
            block[last] = value
    return config


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """Datasets built once for the whole session."""
    shared = pathlib.Path(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())))
    folder = tmp_path_factory.getbasetemp().parent / f"numjax-data-{shared.name}"
    os.environ["NUMJAX_CACHE"] = str(folder)
    return folder


def lines(workdir: pathlib.Path, split: str = "train") -> list[dict]:
    rows = [json.loads(line) for line in (workdir / "metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if row["split"] == split]


def command(workdir: pathlib.Path, *words: str, config: str = "numgpt:smoke") -> list[str]:
    flags = [f"--config.{k}={v}" for k, v in TINY.items() if k != "task.size"]
    return [
        sys.executable, "-m", "numjax.main", f"--config={config}", f"--workdir={workdir}", *flags, *words,
    ]  # fmt: skip


def start(*args, **kwargs) -> subprocess.Popen:
    return subprocess.Popen(
        command(*args, **kwargs), cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def finish(process: subprocess.Popen) -> tuple[int, str]:
    out, err = process.communicate(timeout=240)
    return process.returncode, out + err


def wait_for_step(process: subprocess.Popen, step: int) -> None:
    for line in process.stderr:
        match = re.match(r"step (\d+)/", line)
        if match and int(match[1]) >= step:
            return
    raise AssertionError("the run ended before the step")


def test_sigterm_saves_says_how_to_resume_and_exits_143(tmp_path):
    process = start(tmp_path, "--config.optim.steps=4000")
    wait_for_step(process, 8)
    process.send_signal(signal.SIGTERM)
    code, output = finish(process)
    assert code == 143
    match = re.search(r"stopped at step (\d+), which is saved: run the same command to go on", output)
    assert match, output
    assert (tmp_path / "checkpoints" / match[1]).is_dir()


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    results = modes.run(tiny(), str(folder), "train")
    return folder, results


def test_a_finished_run_has_the_files_of_the_contract(finished_run):
    folder, results = finished_run
    assert json.loads((folder / "config.json").read_text())["optim"]["steps"] == 40
    assert {row["split"] for row in map(json.loads, (folder / "metrics.jsonl").open())} == {
        "train", "validation", "validation_best",
    }  # fmt: skip
    assert list(folder.glob("events.*")) and (folder / "checkpoints" / "40").is_dir()
    predictions = [json.loads(line) for line in (folder / "predictions" / "mme.validation.jsonl").open()]
    accuracy = np.mean([row["prediction"] == row["reference"]["label"] for row in predictions])
    assert results["validation"]["accuracy"] == pytest.approx(accuracy)


def test_another_config_in_the_workdir_is_refused(finished_run):
    with pytest.raises(UsageError, match=r"made by another config \(backbone.layers was 2, now 1\)"):
        modes.run(tiny(**{"backbone.layers": 1}), str(finished_run[0]), "train")


@pytest.mark.parametrize("mode", ["check", "train"])
def test_an_unknown_schedule_is_refused_before_the_model_is_made(mode, tmp_path, monkeypatch):
    monkeypatch.setattr(train_steps, "init_params", None)  # nothing calls it
    with pytest.raises(UsageError, match=r"^optim\.schedule must be one of constant, cosine, linear, not 'cosin'"):
        modes.run(tiny(**{"optim.schedule": "cosin"}), str(tmp_path), mode)


def test_a_config_without_training_is_replaced_with_its_files(tmp_path):
    with pytest.raises(UsageError, match="cosin"):
        modes.run(tiny(**{"optim.schedule": "cosin"}), str(tmp_path), "train")
    modes.run(tiny(**{"scheme.vocab.size": 400}), str(tmp_path), "check")
    (tmp_path / "skipped.jsonl").write_text("{}\n")
    with pytest.raises(
        UsageError, match="has no checkpoint yet: train it"
    ):  # there is no run to load: the config stays
        modes.run(tiny(), str(tmp_path), "eval")
    assert origin.load_config(tmp_path)["scheme"]["vocab"]["size"] == 400
    (tmp_path / "config.json").write_text("{")  # cut short
    summary = modes.run(tiny(**{"scheme.vocab.size": 500, "optim.steps": 1, "eval.every": 1}), str(tmp_path), "check")
    assert (
        summary["vocabulary"]
        == modes.run(tiny(**{"scheme.vocab.size": 500}), str(tmp_path / "new"), "check")["vocabulary"]
    )
    assert not (tmp_path / "skipped.jsonl").exists()
    assert origin.load_config(tmp_path)["scheme"]["vocab"]["size"] == 500


@pytest.mark.parametrize("path", ["checkpoints/5", "best/5", "seed_1/checkpoints/5", "seed_0/best/5"])
def test_another_config_is_refused_wherever_a_checkpoint_lies(tmp_path, path):
    config = tiny()
    claim(tmp_path, config)
    partial = tmp_path / (path + ".orbax-checkpoint-tmp-1")
    partial.mkdir(parents=True)
    claim(tmp_path, tiny(**{"optim.clip": 0.5}))
    partial.rename(tmp_path / path)
    with pytest.raises(UsageError, match=r"made by another config \(optim.clip was 0.5, now 1.0\)"):
        claim(tmp_path, config)


def test_an_option_that_a_part_got_later_has_its_default_in_an_older_workdir(tmp_path):
    config = tiny()
    saved = json.loads(json.dumps(config.to_dict()))
    for block, option in (("scheme", "rules"), ("backbone", "scan"), ("backbone", "remat")):
        assert option in config[block], f"{block}.{option} is an option"
        del functools.reduce(dict.__getitem__, block.split("."), saved)[option]
    origin.save_config(tmp_path, saved)
    (tmp_path / "checkpoints" / "5").mkdir(parents=True)
    claim(tmp_path, config)
    origin.save_config(tmp_path, saved)
    with pytest.raises(UsageError, match=r"made by another config \(backbone.remat was 'none', now 'full'\)"):
        claim(tmp_path, tiny(**{"backbone.remat": "full"}))


@pytest.mark.parametrize("word", ["+objectives.extra=ntl:head=label", "+heads.aux=token", "+positions.place=abacus"])
def test_a_block_that_an_older_workdir_lacks_is_another_config(tmp_path, word):
    config = tiny()
    claim(tmp_path, config)
    (tmp_path / "checkpoints" / "5").mkdir(parents=True)
    with pytest.raises(UsageError, match="made by another config"):
        claim(tmp_path, blocks.apply_changes(config, [word]))


def test_a_run_continues_with_other_settings_of_the_machine(finished_run, data_dir):
    changes = {"data.threads": 1, "data.prefetch": 3, "data.workers": 0, "data.memory": 64, "eval.test": True}
    changes |= {"eval.batch_size": 16, "data.dir": str(data_dir)}
    results = modes.run(tiny(**changes), str(finished_run[0]), "train")
    assert results["validation"]["accuracy"] == pytest.approx(finished_run[1]["validation"]["accuracy"])
    assert "test" in results and origin.load_config(finished_run[0])["eval"]["batch_size"] == 16


@pytest.mark.parametrize(
    ("scores", "best_step"), [((math.nan, 0.3, 0.2), 20), ((0.1, math.nan, 0.2), 30), ((math.nan,) * 3, None)]
)
def test_a_validation_that_counted_nothing_is_never_the_best(tmp_path, monkeypatch, scores, best_step):
    accuracies, original = iter(scores), report.score_split

    def score_split(system, compiled, params, encoded, split, workdir, **options):
        metrics = original(system, compiled, params, encoded, split, workdir, **options)
        return metrics | {"accuracy": next(accuracies)} if workdir is None else metrics  # not in the last evaluation

    monkeypatch.setattr(report, "score_split", score_split)
    modes.run(tiny(**{"optim.steps": 30, "eval.every": 10}), str(tmp_path), "train")
    with contextlib.closing(Checkpoints(tmp_path / "best")) as best:
        assert (best.steps() or [None])[-1] == best_step


def test_a_lost_best_checkpoint_gives_way_to_later_ones(tmp_path, monkeypatch):
    """Several better ones after the last saved step push the saved step's own out, and a kill loses those."""
    scores, original = iter((0.9, None, 0.3, 0.2)), report.score_split

    def score_split(system, compiled, params, encoded, split, workdir, **options):
        if workdir is None and (score := next(scores)) is None:
            raise InterruptedError
        metrics = original(system, compiled, params, encoded, split, workdir, **options)
        return metrics | {"accuracy": score} if workdir is None else metrics

    monkeypatch.setattr(report, "score_split", score_split)
    config = tiny(**{"optim.steps": 30, "eval.every": 10, "checkpoint.every": 10})
    with pytest.raises(InterruptedError):
        modes.run(config, str(tmp_path), "train")
    shutil.rmtree(tmp_path / "best" / "10")
    modes.run(config, str(tmp_path), "train")
    with contextlib.closing(Checkpoints(tmp_path / "best")) as best:
        assert best.steps() == [20]


@pytest.mark.parametrize("pattern", ["^embeds_", "^backbone/"])
def test_a_run_with_stacked_layers_and_frozen_parameters_continues(pattern, tmp_path, monkeypatch):
    config = tiny(**{"optim.steps": 10, "backbone.scan": True, "optim.rates": ((pattern, 0.0), ("no_such", 0.5))})
    said = []
    monkeypatch.setattr(loop.log, "say", said.append)
    modes.run(config, str(tmp_path / "straight"), "train")
    assert "config.optim.rates: the path of no parameter has 'no_such' in it" in said
    with monkeypatch.context() as patch:
        patch.setattr(signals.Signals, "stop_at", lambda self, step: step == 7)
        with pytest.raises(Preempted, match="stopped at step 7"):
            modes.run(config, str(tmp_path / "stopped"), "train")
    modes.run(config, str(tmp_path / "stopped"), "train")
    losses = [[row["loss"] for row in lines(tmp_path / name)] for name in ("straight", "stopped")]
    assert losses[0] == losses[1] and len(losses[0]) == 9


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    modes.run(tiny(**{"optim.steps": 20}), str(tmp_path), "train")
    bad = tiny(**{"optim.steps": 20, "optim.learning_rate": 1e30, "optim.clip": 0.0})
    with pytest.raises(Diverged, match=r"the loss is (nan|inf|-inf) at step \d+"):
        modes.run(bad, str(tmp_path / "diverging"), "train")
    with pytest.raises(Diverged, match="all 2 seeds diverged"):
        with bad.unlocked():
            bad.num_seeds = 2
        modes.run(bad, str(tmp_path / "seeds"), "train")
    report = json.loads((tmp_path / "seeds" / "seeds.json").read_text())
    assert set(report["diverged"]) == {"0", "1"}


def test_a_metric_that_counted_nothing_is_no_obstacle_to_the_summary_of_seeds():
    outcomes = {seed: {"test": {"nothing": math.nan, "accuracy": x}} for seed, x in enumerate((0.25, 0.5, 1.0))}
    outcomes[2]["test"]["nothing"] = math.inf
    metrics = summarise(outcomes)["test"]
    assert metrics["accuracy"] == pytest.approx({"mean": 7 / 12, "std": (7 / 48) ** 0.5, "n": 3})
    assert math.isnan(metrics["nothing"]["std"]) and metrics["nothing"]["n"] == 3
    assert json.loads(log.to_json(metrics, indent=1))["nothing"] == {"mean": None, "std": None, "n": 3}


def test_one_seed_has_no_deviation():
    (metrics,) = summarise({3: {"test": {"accuracy": 0.5}}}).values()
    assert metrics["accuracy"]["mean"] == 0.5 and math.isnan(metrics["accuracy"]["std"])
    assert json.loads(log.to_json(metrics, indent=1))["accuracy"] == {"mean": 0.5, "std": None, "n": 1}


def test_seeds_differ_in_initialisation_and_data_order(tmp_path):
    results = modes.run(tiny(num_seeds=2, **{"optim.steps": 10, "eval.every": 10}), str(tmp_path), "train")
    assert set(results["seeds"]) == {0, 1}
    losses = [[row["loss"] for row in lines(tmp_path / f"seed_{seed}")] for seed in (0, 1)]
    assert all(a != b for a, b in zip(*losses, strict=True))
    assert results["summary"]["validation"]["accuracy"]["n"] == 2
    # The second seed alone is the same run: nothing of the first leaks into it.
    config = tiny(seed=1, **{"optim.steps": 10, "eval.every": 10})
    modes.run(config, str(tmp_path / "alone"), "train")
    assert [row["loss"] for row in lines(tmp_path / "alone")] == losses[1]


def test_check_mode_compiles_and_trains_nothing(tmp_path, capsys):
    summary = modes.run(tiny(), str(tmp_path), "check")
    assert summary["parameters"] > 10_000 and summary["state_mib"] > 0 and summary["steps"] == 40
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["train_examples"] == summary["train_examples"]
    assert not (tmp_path / "metrics.jsonl").exists()


def test_predict_answers_records_and_names_bad_ones(finished_run, tmp_path, capsys):
    rows = ['{"question": "How many grams are 2 eggs?", "answer": "80"}', "not json", '{"answer": "80"}']
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(rows) + "\n")
    results = modes.run(tiny(), str(finished_run[0]), "predict", input=str(source))
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert row["prediction"] in (0, 1) and 0.5 <= row["confidence"] <= 1
    assert len(results["predictions"]) == 1
    assert [row["id"] for row in results["skipped"]] == ["input-2", "input-3"]
    with pytest.raises(DataError, match="line 2 is not a JSON object"):
        modes.run(tiny(), str(finished_run[0]), "predict", input=str(source), strict=True)
    # Without a usable record the reasons are printed as well.
    source.write_text("\n".join([*rows[1:], "[" * 200_000, '{"question": ' + "1" * 5000 + "}", "[1]"]))
    results = modes.run(tiny(), str(finished_run[0]), "predict", input=str(source))
    assert results["predictions"] == [] and (finished_run[0] / "predictions" / "input.jsonl").read_text() == ""
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in errors] == [f"left out input-{i}" for i in (1, 3, 4, 5, 2)]
    assert all("is not a JSON object" in line for line in errors[:4]) and "question" in errors[4]


def test_predict_ignores_a_gold_answer_that_is_wrong(finished_run, tmp_path, capsys):
    source = tmp_path / "rows.jsonl"
    source.write_text('{"question": "How many grams are 2 eggs?", "answer": "80", "label": "right"}\n')
    results = modes.run(tiny(), str(finished_run[0]), "predict", input=str(source))
    assert len(results["predictions"]) == 1 and results["skipped"] == []
    assert "field 'label', since field 'label' must be a class" in capsys.readouterr().err
    with pytest.raises(DataError, match="must be a class"):
        modes.run(tiny(), str(finished_run[0]), "predict", input=str(source), strict=True)


def make_model(predictions) -> Any:
    """Returns what `predict_records` needs of a model that predicts these."""
    encoded = SimpleNamespace(columns=SimpleNamespace(surfaces=(), numerals=None), source=None)
    return SimpleNamespace(
        encode=lambda *_: encoded,
        predict_encoded=lambda _: predictions,
        system=SimpleNamespace(name_unread=lambda *_: ""),
    )


def test_half_a_surrogate_pair_is_written_as_the_replacement_character(tmp_path, capsys):
    results = predict_records(
        make_model([{"id": "\udfff", "prediction": "a\ud800b"}]), [{"id": "\udfff"}], [], tmp_path, False
    )
    assert results["predictions"][0]["prediction"] == "a\ud800b"
    for text in (capsys.readouterr().out, (tmp_path / "predictions" / "input.jsonl").read_text(encoding="utf-8")):
        assert json.loads(text) == {"id": "\ufffd", "prediction": "a\ufffdb"}


def test_modes_that_need_a_run_refuse_an_empty_folder(tmp_path):
    with pytest.raises(UsageError, match="does not exist: train a run there, with --mode=train --config="):
        modes.run(tiny(), str(tmp_path / "nothing"), "eval")
    with pytest.raises(UsageError, match="cannot read --input"):
        inputs.read_lines(str(tmp_path / "absent"))


def test_input_may_be_gzipped(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("one\n\nzwei é\n".encode()))
    assert inputs.read_lines(str(path)) == ["one", "zwei é"]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(UsageError, match=r"cannot read --input=.*the gzip file is damaged or cut short"):
        inputs.read_lines(str(path))


def test_a_bad_line_is_named_by_its_number_in_the_file(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"a": 1}\n\n\n{"a": 2}\nbad\n')
    task = SimpleNamespace(from_file=lambda path: None)
    (_, _, (name, error)) = inputs.load_records(task, str(path))
    assert name == "input-5" and str(error).startswith("line 5 is not a JSON object")


def test_records_that_are_read_again_are_no_longer_listed_as_skipped(tmp_path):
    system = assemble(tiny(), tmp_path)
    rows = [{"id": "a", "split": split, "reason": "x"} for split in ("train", "test")]
    path = tmp_path / "skipped.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    load_data(system, tmp_path, False, splits=("train",))
    assert [json.loads(line) for line in path.read_text().splitlines()] == rows[1:]
    load_data(system, tmp_path, False, splits=("train", "test"))
    assert not path.exists()


def test_a_run_without_a_split_to_score_says_so(finished_run, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluate, "load_data", lambda *args, **kwargs: loop.Splits(None, None, None))
    with pytest.raises(UsageError, match="neither a validation nor a test split"):
        modes.run(tiny(), str(finished_run[0]), "eval")


def test_lines_end_where_json_lines_end(tmp_path):
    source = tmp_path / "rows.jsonl"
    texts = ["a\u2028b", "c\x85d", "é"]
    source.write_bytes(
        b"\xef\xbb\xbf" + "\r\n".join(json.dumps({"a": t}, ensure_ascii=False) for t in texts).encode()
    )
    assert [json.loads(line)["a"] for line in inputs.read_lines(str(source))] == texts
    source.write_bytes("é".encode("latin-1"))
    with pytest.raises(UsageError, match="not UTF-8 at byte 0; convert it"):
        inputs.read_lines(str(source))


def test_a_file_without_a_record_names_the_accepted_forms(tmp_path):
    task = SimpleNamespace(file_forms=("a .csv of cards",), from_file=lambda path: [] if path.endswith("x") else None)
    source = tmp_path / "rows.tsv"
    source.write_text("a\tb\n[1]\n")
    with pytest.raises(
        UsageError, match=r"no record: line 1 is not .* give a JSON object a line, or a \.csv of cards$"
    ):
        inputs.load_records(task, str(source))
    source.write_text("[1]\n{}\n")
    (_, first), (_, second) = inputs.load_records(task, str(source))
    assert "it is '[1]'" in str(first) and second == {"id": "input-2"}
    for content, name in (("\n", "rows.tsv"), ("a", "rows.x")):
        (tmp_path / name).write_text(content)
        with pytest.raises(UsageError, match="holds no record"):
            inputs.load_records(task, str(tmp_path / name))
    with pytest.raises(UsageError, match="it is a folder"):
        inputs.load_records(task, str(tmp_path))


def test_fine_tuning_starts_from_another_run(finished_run, tmp_path):
    config = tiny(init_from=str(finished_run[0]), **{"optim.steps": 1, "optim.learning_rate": 0.0, "eval.every": 1})
    modes.run(config, str(tmp_path), "train")
    # An evaluation needs no init_from; training does.
    second_config = tiny(**{"optim.steps": 1, "optim.learning_rate": 0.0, "eval.every": 1})
    modes.run(second_config, str(tmp_path), "eval")
    assert origin.load_config(tmp_path)["init_from"] == str(finished_run[0]) and second_config.init_from == ""
    with pytest.raises(UsageError, match="init_from was"):
        modes.run(second_config, str(tmp_path), "train")
    old_params, _ = inherit.read_params(finished_run[0])
    new_params, _ = inherit.read_params(tmp_path)
    # Rows that only pad the vocabulary may differ.
    from numjax.text import vocab

    size = vocab.load(str(tmp_path / "vocabulary")).size
    tables = [params["embeds_token"].pop("table")[:size] for params in (old_params, new_params)]
    np.testing.assert_array_equal(*tables)
    jax.tree.map(np.testing.assert_array_equal, old_params, new_params)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--config=numgp", "--workdir=x"], 2, "no config 'numgp'"),
        (["--config=numgpt:task=mmx", "--workdir=x"], 2, "did you mean mme"),
        (["--config=numgpt:smoke", "--workdir=x", "--config.optim.learnin_rate=1"], 2, "learnin_rate"),
        (
            ["--config=numgpt:smoke", "--workdir=x", "--config.optim.xyz=1"],
            2,
            "the config has no key 'optim.xyz': --mode=show lists them all",
        ),
        (["--config=numgpt:smoke", "--workdir=x", "--config.embeds.numeral.name=protoype"], 2, "prototype"),
        (["--config=numgpt:smoke"], 2, "--workdir"),
        (["--config", "numgp", "--workdir=x"], 2, "no config 'numgp'"),
        (["--workdir=x", "--config"], 2, "Missing value for flag --config"),
        (["--config=numgpt:smoke,task=text", "--workdir=x"], 2, "--config.task.path=FOLDER"),
    ],
)
def test_bad_usage_gives_one_line_and_exit_code_2(tmp_path, words, code, message):
    words = [word.replace("--workdir=x", f"--workdir={tmp_path}") for word in words]
    process = subprocess.run([sys.executable, "-m", "numjax.main", *words], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == code, process.stderr
    last = process.stderr.strip().splitlines()[-1]
    assert last.startswith("numjax: ") and message in last
    assert "Traceback" not in process.stderr


def test_a_blank_may_stand_between_the_flag_and_its_config(tmp_path):
    expected = f"--config={ROOT}/configs/numgpt.py:smoke"
    for words in (["--config=numgpt:smoke"], ["--config", "numgpt:smoke"]):
        assert command_line.resolve_configs(["main", *words, "--strict"]) == ["main", expected, "--strict"]
    words = ["--config", "numgpt:smoke", "--config.optim.steps", "7", f"--workdir={tmp_path}", "--mode=check"]
    process = subprocess.run([sys.executable, "-m", "numjax.main", *words], cwd=ROOT, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout.splitlines()[-1])["steps"] == 7


@pytest.fixture
def protected_folder():
    """A folder without write permission. Root may write everywhere, so that this test runs as nobody."""
    folder = pathlib.Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    is_root, nobody = os.geteuid() == 0, 65534
    if is_root:
        os.seteuid(nobody)
    yield folder
    if is_root:
        os.seteuid(0)
    folder.rmdir()


def test_a_workdir_without_write_permission_is_refused(protected_folder):
    with pytest.raises(UsageError, match=r"Permission denied.*choose another --workdir"):
        modes.run(tiny(), str(protected_folder / "run"), "train")
    assert not list(protected_folder.iterdir())


def test_a_workdir_that_cannot_be_created_is_refused(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="choose another --workdir"):
        modes.run(tiny(), str(tmp_path / "file" / "run"), "train")


def test_nothing_moves_between_host_and_device_inside_a_step(tmp_path):
    """The compiled step runs under a guard that forbids implicit transfers."""
    from numjax.pipeline.loader import Loader
    from numjax.runtime import shard
    from numjax.system import assemble
    from numjax.train.compile import make_compiled

    config = tiny()
    system = assemble(config, tmp_path)
    data = load_data(system, tmp_path, False)
    loader = Loader(data.train, config, seed=0, host_features=system.host_features)
    compiled = make_compiled(system, shard.make_mesh(), loader.example_batch())
    state, seed, rate = compiled.init(0), jax.device_put(np.int32(0)), jax.device_put(np.float32(0.1))
    batches = [shard.put(loader.batch(i)[0], compiled.mesh) for i in range(3)]
    for batch in batches:
        state, _ = compiled.step(seed, rate, state, batch)
    compilations = compiled.step._cache_size()
    assert compilations <= len(loader.shapes())
    with jax.transfer_guard("disallow"):
        for batch in batches:
            state, metrics = compiled.step(seed, rate, state, batch)
    assert np.isfinite(float(metrics["loss"][0]))
    assert compiled.step._cache_size() == compilations
