"""Whole runs: seeds, NaN stop, signals, and what bad input says. What faults do is in faults_test.py."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from numjax.config import command_line, origin
from numjax.errors import DataError, Diverged, UsageError
from numjax.evals import inputs, report
from numjax.train import inherit, runs
from numjax.train.checkpoint import Checkpoints
from numjax.train.loop import claim

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
    """A config of seconds; keys with dots as in flags."""
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
        found = re.match(r"step (\d+)/", line)
        if found and int(found[1]) >= step:
            return
    raise AssertionError("the run ended before the step")


def test_sigterm_saves_says_how_to_resume_and_exits_143(tmp_path):
    process = start(tmp_path, "--config.optim.steps=4000")
    wait_for_step(process, 8)
    process.send_signal(signal.SIGTERM)
    code, said = finish(process)
    assert code == 143
    found = re.search(r"stopped at step (\d+), which is saved: run the same command to go on", said)
    assert found, said
    assert (tmp_path / "checkpoints" / found[1]).is_dir()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    results = runs.run(tiny(), str(folder), "train")
    return folder, results


def test_a_finished_run_has_what_the_contract_names(trained):
    folder, results = trained
    assert json.loads((folder / "config.json").read_text())["optim"]["steps"] == 40
    assert {row["split"] for row in map(json.loads, (folder / "metrics.jsonl").open())} == {
        "train", "validation", "validation_best",
    }  # fmt: skip
    assert list(folder.glob("events.*")) and (folder / "checkpoints" / "40").is_dir()
    predictions = [json.loads(line) for line in (folder / "predictions" / "mme.validation.jsonl").open()]
    right = np.mean([row["prediction"] == row["reference"]["label"] for row in predictions])
    assert results["validation"]["accuracy"] == pytest.approx(right)


def test_another_config_in_the_workdir_is_refused(trained):
    with pytest.raises(UsageError, match=r"made by another config \(backbone.layers was 2, now 1\)"):
        runs.run(tiny(**{"backbone.layers": 1}), str(trained[0]), "train")


def test_a_config_that_trained_nothing_gives_way_with_what_it_made(tmp_path):
    with pytest.raises(UsageError, match="cosin"):
        runs.run(tiny(**{"optim.schedule": "cosin"}), str(tmp_path), "train")
    runs.run(tiny(**{"scheme.vocab.size": 400}), str(tmp_path), "check")
    (tmp_path / "skipped.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match="holds no run: train one"):  # there is nothing to read: the config stays
        runs.run(tiny(), str(tmp_path), "eval")
    assert origin.load_config(tmp_path)["scheme"]["vocab"]["size"] == 400
    (tmp_path / "config.json").write_text("{")  # cut short
    right = runs.run(tiny(**{"scheme.vocab.size": 500, "optim.steps": 1, "eval.every": 1}), str(tmp_path), "check")
    assert (
        right["vocabulary"]
        == runs.run(tiny(**{"scheme.vocab.size": 500}), str(tmp_path / "new"), "check")["vocabulary"]
    )
    assert not (tmp_path / "skipped.jsonl").exists()
    assert origin.load_config(tmp_path)["scheme"]["vocab"]["size"] == 500


@pytest.mark.parametrize("place", ["checkpoints/5", "best/5", "seed_1/checkpoints/5", "seed_0/best/5"])
def test_another_config_is_refused_wherever_a_checkpoint_lies(tmp_path, place):
    config = tiny()
    claim(tmp_path, config)
    half = tmp_path / (place + ".orbax-checkpoint-tmp-1")
    half.mkdir(parents=True)
    claim(tmp_path, tiny(**{"optim.clip": 0.5}))
    half.rename(tmp_path / place)
    with pytest.raises(UsageError, match=r"made by another config \(optim.clip was 0.5, now 1.0\)"):
        claim(tmp_path, config)


def test_a_run_goes_on_with_other_settings_of_the_machine(trained, data_dir):
    changes = {"data.threads": 1, "data.prefetch": 3, "data.workers": 0, "data.memory": 64, "eval.test": True}
    changes |= {"eval.batch_size": 16, "data.dir": str(data_dir)}
    results = runs.run(tiny(**changes), str(trained[0]), "train")
    assert results["validation"]["accuracy"] == pytest.approx(trained[1]["validation"]["accuracy"])
    assert "test" in results and origin.load_config(trained[0])["eval"]["batch_size"] == 16


@pytest.mark.parametrize(
    ("scores", "kept"), [((math.nan, 0.3, 0.2), 20), ((0.1, math.nan, 0.2), 30), ((math.nan,) * 3, None)]
)
def test_a_validation_that_counted_nothing_is_never_the_best(tmp_path, monkeypatch, scores, kept):
    told, real = iter(scores), report.score_split

    def score_split(system, compiled, params, encoded, split, workdir, **options):
        found = real(system, compiled, params, encoded, split, workdir, **options)
        return found | {"accuracy": next(told)} if workdir is None else found  # not the one at the end

    monkeypatch.setattr(report, "score_split", score_split)
    runs.run(tiny(**{"optim.steps": 30, "eval.every": 10}), str(tmp_path), "train")
    with contextlib.closing(Checkpoints(tmp_path / "best")) as best:
        assert (best.steps() or [None])[-1] == kept


def test_a_loss_that_is_not_finite_stops_and_keeps_the_last_good_checkpoint(tmp_path):
    runs.run(tiny(**{"optim.steps": 20}), str(tmp_path), "train")
    bad = tiny(**{"optim.steps": 20, "optim.learning_rate": 1e30, "optim.clip": 0.0})
    with pytest.raises(Diverged, match=r"the loss is (nan|inf|-inf) at step \d+"):
        runs.run(bad, str(tmp_path / "diverging"), "train")
    with pytest.raises(Diverged, match="all 2 seeds diverged"):
        with bad.unlocked():
            bad.num_seeds = 2
        runs.run(bad, str(tmp_path / "seeds"), "train")
    told = json.loads((tmp_path / "seeds" / "seeds.json").read_text())
    assert set(told["diverged"]) == {"0", "1"}


def test_seeds_differ_in_initialisation_and_data_order(tmp_path):
    results = runs.run(tiny(num_seeds=2, **{"optim.steps": 10, "eval.every": 10}), str(tmp_path), "train")
    assert set(results["seeds"]) == {0, 1}
    losses = [[row["loss"] for row in lines(tmp_path / f"seed_{seed}")] for seed in (0, 1)]
    assert all(a != b for a, b in zip(*losses, strict=True))
    assert results["summary"]["validation"]["accuracy"]["n"] == 2
    # The second seed alone is the same run: nothing of the first leaks into it.
    alone = tiny(seed=1, **{"optim.steps": 10, "eval.every": 10})
    runs.run(alone, str(tmp_path / "alone"), "train")
    assert [row["loss"] for row in lines(tmp_path / "alone")] == losses[1]


def test_check_mode_compiles_and_trains_nothing(tmp_path, capsys):
    found = runs.run(tiny(), str(tmp_path), "check")
    assert found["parameters"] > 10_000 and found["state_mib"] > 0 and found["steps"] == 40
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["train_examples"] == found["train_examples"]
    assert not (tmp_path / "metrics.jsonl").exists()


def test_predict_reads_records_and_names_bad_ones(trained, tmp_path, capsys):
    rows = ['{"question": "How many grams are 2 eggs?", "answer": "80"}', "not json", '{"answer": "80"}']
    source = tmp_path / "rows.jsonl"
    source.write_text("\n".join(rows) + "\n")
    found = runs.run(tiny(), str(trained[0]), "predict", input=str(source))
    said = json.loads(capsys.readouterr().out.splitlines()[0])
    assert said["prediction"] in (0, 1) and 0.5 <= said["confidence"] <= 1
    assert len(found["predictions"]) == 1
    assert [row["id"] for row in found["skipped"]] == ["input-2", "input-3"]
    with pytest.raises(DataError, match="line 2 is not a JSON object"):
        runs.run(tiny(), str(trained[0]), "predict", input=str(source), strict=True)
    # Nothing that can be used: the reasons come all the same.
    source.write_text("\n".join([*rows[1:], "[" * 200_000, '{"question": ' + "1" * 5000 + "}", "[1]"]))
    found = runs.run(tiny(), str(trained[0]), "predict", input=str(source))
    assert found["predictions"] == [] and (trained[0] / "predictions" / "input.jsonl").read_text() == ""
    told = capsys.readouterr().err.splitlines()
    assert [line.split(":")[0] for line in told] == [f"left out input-{i}" for i in (1, 3, 4, 5, 2)]
    assert all("is not a JSON object" in line for line in told[:4]) and "question" in told[4]


def test_a_gold_answer_that_is_wrong_is_no_reason_not_to_predict(trained, tmp_path, capsys):
    source = tmp_path / "rows.jsonl"
    source.write_text('{"question": "How many grams are 2 eggs?", "answer": "80", "label": "right"}\n')
    found = runs.run(tiny(), str(trained[0]), "predict", input=str(source))
    assert len(found["predictions"]) == 1 and found["skipped"] == []
    assert "field 'label', since field 'label' must be a class" in capsys.readouterr().err
    with pytest.raises(DataError, match="must be a class"):
        runs.run(tiny(), str(trained[0]), "predict", input=str(source), strict=True)


def test_half_a_surrogate_pair_is_written_as_the_sign_for_it(tmp_path, capsys):
    def model(records, **_):
        return [{"id": record["id"], "prediction": "a\ud800b"} for record in records]

    found = runs.predict(SimpleNamespace(predict=model), [{"id": "\udfff"}], [], tmp_path, False)
    assert found["predictions"][0]["prediction"] == "a\ud800b"
    for text in (capsys.readouterr().out, (tmp_path / "predictions" / "input.jsonl").read_text(encoding="utf-8")):
        assert json.loads(text) == {"id": "\ufffd", "prediction": "a\ufffdb"}


def test_modes_that_need_a_run_say_so(tmp_path):
    with pytest.raises(UsageError, match="holds no run: train one, with --config="):
        runs.run(tiny(), str(tmp_path / "nothing"), "eval")
    with pytest.raises(UsageError, match="cannot read --input"):
        inputs.read_lines(str(tmp_path / "absent"))


def test_input_may_be_packed(tmp_path):
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress("one\n\nzwei é\n".encode()))
    assert inputs.read_lines(str(packed)) == ["one", "zwei é"]
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(UsageError, match=r"cannot read --input=.*the gzip file is damaged or cut short"):
        inputs.read_lines(str(packed))


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


def test_a_file_without_a_record_says_what_is_read(tmp_path):
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


def test_fine_tuning_starts_from_another_run(trained, tmp_path):
    config = tiny(init_from=str(trained[0]), **{"optim.steps": 1, "optim.learning_rate": 0.0, "eval.every": 1})
    runs.run(config, str(tmp_path), "train")
    # To read it nobody must say where it started; to go on with it, yes.
    again = tiny(**{"optim.steps": 1, "optim.learning_rate": 0.0, "eval.every": 1})
    runs.run(again, str(tmp_path), "eval")
    assert origin.load_config(tmp_path)["init_from"] == str(trained[0]) and again.init_from == ""
    with pytest.raises(UsageError, match="init_from was"):
        runs.run(again, str(tmp_path), "train")
    before, _ = inherit.read_params(trained[0])
    after, _ = inherit.read_params(tmp_path)
    # Rows that only pad the vocabulary are nobody's.
    from numjax.text import vocab

    size = vocab.load(str(tmp_path / "vocabulary")).size
    tables = [params["embeds_token"].pop("table")[:size] for params in (before, after)]
    np.testing.assert_array_equal(*tables)
    jax.tree.map(np.testing.assert_array_equal, before, after)


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--config=numgp", "--workdir=x"], 2, "no config 'numgp'"),
        (["--config=numgpt:task=mmx", "--workdir=x"], 2, "did you mean mme"),
        (["--config=numgpt:smoke", "--workdir=x", "--config.optim.learnin_rate=1"], 2, "learnin_rate"),
        (["--config=numgpt:smoke", "--workdir=x", "--config.optim.xyz=1"], 2, "the config has no key 'xyz' there"),
        (["--config=numgpt:smoke", "--workdir=x", "--config.embeds.numeral.name=protoype"], 2, "prototype"),
        (["--config=numgpt:smoke"], 2, "--workdir"),
        (["--config", "numgp", "--workdir=x"], 2, "no config 'numgp'"),
        (["--workdir=x", "--config"], 2, "Missing value for flag --config"),
        (["--config=numgpt:smoke,task=text", "--workdir=x"], 2, "--config.task.path=FOLDER"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(tmp_path, words, code, message):
    words = [word.replace("--workdir=x", f"--workdir={tmp_path}") for word in words]
    done = subprocess.run([sys.executable, "-m", "numjax.main", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("numjax: ") and message in last
    assert "Traceback" not in done.stderr


def test_a_config_is_found_behind_a_blank_too(tmp_path):
    wanted = f"--config={ROOT}/configs/numgpt.py:smoke"
    for words in (["--config=numgpt:smoke"], ["--config", "numgpt:smoke"]):
        assert command_line.resolve_configs(["main", *words, "--strict"]) == ["main", wanted, "--strict"]
    words = ["--config", "numgpt:smoke", "--config.optim.steps", "7", f"--workdir={tmp_path}", "--mode=check"]
    done = subprocess.run([sys.executable, "-m", "numjax.main", *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["steps"] == 7


@pytest.fixture
def sealed():
    """A folder that may be read and not written. Root writes everywhere: for this test it is nobody."""
    folder = pathlib.Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    was_root, nobody = os.geteuid() == 0, 65534
    if was_root:
        os.seteuid(nobody)
    yield folder
    if was_root:
        os.seteuid(0)
    folder.rmdir()


def test_no_write_permission_is_said(sealed):
    with pytest.raises(UsageError, match=r"Permission denied.*choose another --workdir"):
        runs.run(tiny(), str(sealed / "run"), "train")
    assert not list(sealed.iterdir())


def test_a_workdir_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UsageError, match="choose another --workdir"):
        runs.run(tiny(), str(tmp_path / "file" / "run"), "train")


def test_nothing_moves_between_host_and_device_inside_a_step(tmp_path):
    """The compiled step takes no transfer: it runs under a guard that forbids implicit ones."""
    from numjax.pipeline.loader import Loader
    from numjax.runtime import shard
    from numjax.system import assemble
    from numjax.train.compile import make_compiled

    config = tiny()
    system = assemble(config, tmp_path)
    data = runs.load_data(system, tmp_path, False)
    loader = Loader(data.train, config, seed=0, host_features=system.host_features)
    compiled = make_compiled(system, shard.make_mesh(), loader.example_batch(), 40)
    state, seed = compiled.init(0), jax.device_put(np.int32(0))
    batches = [shard.put(loader.batch(i)[0], compiled.mesh) for i in range(3)]
    for batch in batches:
        state, _ = compiled.step(seed, state, batch)
    compilations = compiled.step._cache_size()
    assert compilations <= len(loader.shapes())
    with jax.transfer_guard("disallow"):
        for batch in batches:
            state, metrics = compiled.step(seed, state, batch)
    assert np.isfinite(float(metrics["loss"][0]))
    assert compiled.step._cache_size() == compilations
