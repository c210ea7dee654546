"""A workdir that holds a run needs no --config: it has its own, and flags may change some of its keys."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
from typing import Any

import pytest
from absl import flags
from ml_collections import config_flags

from numjax import modes
from numjax.bundled.configs import digits, luna, mathgpt, numgpt, tabbert
from numjax.config import command_line, origin
from numjax.errors import UsageError
from tests.runs_test import ROOT, cache  # noqa: F401  (the fixture builds datasets once)

PROMPT = "Q: A ship holds 6518 tons of coal. A:"
RECORD = '{"question": "How many grams are 2 eggs?", "answer": "80"}\n'
FLAGS = [
    "--config=numgpt:smoke,task=generation",
    "--config.backbone.width=48",
    "--config.optim.steps=4",
    "--config.optim.betas=(0.8, 0.9)",
    "--config.eval.every=4",
    "--config.eval.examples=16",
    "--config.data.train_size=48",
]


def parse_flags(*words: str) -> Any:
    """Returns the config of a command line."""
    line, values = ["main", *words], flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=line)
    flags.DEFINE_string("workdir", None, "", flag_values=values)
    values(command_line.resolve_configs(line))
    return values.config


def call(*words: str, folder: pathlib.Path = ROOT, text: str = "") -> tuple[int, str, str]:
    """Returns the exit code, the output and the last line of stderr of a command in a folder."""
    process = subprocess.run(
        [sys.executable, "-m", "numjax.main", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        input=text,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in process.stderr
    return process.returncode, process.stdout, (process.stderr.strip().splitlines() or [""])[-1]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own_config") / "run"
    modes.run(parse_flags(*FLAGS), str(folder), "train")
    return folder


def check_equal(actual: Any, expected: Any) -> None:
    """Checks that JSON values are equal, but for the last digits of floats from another process."""
    if isinstance(actual, dict):
        assert actual.keys() == expected.keys()
        actual, expected = list(actual.values()), [expected[key] for key in actual]
    if isinstance(actual, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            check_equal(one, other)
    else:
        assert actual == (pytest.approx(expected, rel=1e-5) if isinstance(expected, float) else expected)


@pytest.mark.parametrize("mode", ["eval", "predict", "generate", "check"])
def test_each_mode_gives_the_same_result_without_the_flags_of_training(run_dir, mode, tmp_path, capsys):
    source = tmp_path / "rows.jsonl"
    source.write_text(RECORD)
    options: dict[str, Any] = {"predict": {"input": str(source)}, "generate": {"prompts": [PROMPT]}}.get(mode, {})
    capsys.readouterr()
    modes.run(parse_flags(*FLAGS), str(run_dir), mode, **options)
    expected = json.loads(capsys.readouterr().out.splitlines()[-1])
    words = {"predict": ["--input=-"], "generate": [f"--prompt={PROMPT}"]}.get(mode, [])
    # From another folder, with a blank between --workdir and its value.
    code, out, last = call("--workdir", run_dir.name, f"--mode={mode}", *words, folder=run_dir.parent, text=RECORD)
    assert code == 0, last
    check_equal(json.loads(out.splitlines()[-1]), expected)


def test_training_continues_with_the_config_of_the_workdir(tmp_path):
    with pytest.raises(UsageError, match=r"holds no run: train one, with .*--config=NAME"):
        parse_flags(f"--workdir={tmp_path}")
    modes.run(parse_flags(*FLAGS), str(tmp_path), "check")  # the config is there, and no checkpoint yet
    code, _, last = call(
        f"--workdir={tmp_path}", "--config.mesh.fsdp=1", "--config.eval.test=False", "--config.eval.best=False"
    )
    assert code == 0 and last.startswith(f"results are in {tmp_path}: ") and "--mode=generate" in last, last
    assert "checkpoints/ the model" in last and not list((tmp_path / "best").glob("[0-9]*"))
    config = origin.load_config(tmp_path)
    assert config["optim"]["betas"] == [0.8, 0.9] and config["eval"]["test"] is False
    modes.run(parse_flags(f"--workdir={tmp_path}", "--config.log_every=7"), str(tmp_path), "train")
    assert origin.load_config(tmp_path) == config | {"log_every": 7}
    code, _, last = call(f"--workdir={tmp_path}", "--config.optim.steps=8")
    assert code == 2 and "(optim.steps was 4, now 8)" in last


def test_flags_that_may_differ_leave_the_saved_config_unchanged(run_dir):
    content = (run_dir / "config.json").read_bytes()
    words = [f"--workdir={run_dir}", "--mode=generate", f"--prompt={PROMPT}"]
    greedy, beams = call(*words), call(*words, "--config.decode.beams=3")
    short = call(*words, "--config.decode.max_tokens", "2")
    assert greedy[0] == beams[0] == 0 and short[0] == 2, "an answer takes three tokens"
    assert (run_dir / "config.json").read_bytes() == content
    for mode in ("eval", "check"):
        modes.run(parse_flags(f"--workdir={run_dir}", "--config.eval.batch_size=16"), str(run_dir), mode)
        assert (run_dir / "config.json").read_bytes() == content


@pytest.mark.parametrize("mode", ["train", "eval", "predict", "generate", "check"])
def test_flags_that_may_not_differ_are_refused(run_dir, mode):
    content = (run_dir / "config.json").read_bytes()
    for words, message in (
        (["--config.data.train_size=64"], r"\(data.train_size was 48, now 64\): leave out the flags"),
        (["--config.optim.betas=(0.5, 0.9)"], r"\(optim.betas was \[0.8, 0.9\], now \[0.5, 0.9\]\)"),
        (["--config=numgpt:smoke,task=generation"], r"\(backbone.width was 48, now 32\).*without --config"),
    ):
        with pytest.raises(UsageError, match=message):
            modes.run(parse_flags(f"--workdir={run_dir}", *words), str(run_dir), mode, prompts=[PROMPT])
    assert (run_dir / "config.json").read_bytes() == content


def test_a_seed_uses_the_config_of_its_run(run_dir, tmp_path):
    """In a run of several seeds, config and vocabulary lie in the folder above the seeds."""
    seed = tmp_path / "seed_3"
    shutil.copytree(run_dir, seed)
    for name in ("config.json", "vocabulary"):
        (seed / name).rename(tmp_path / name)
    config = parse_flags(f"--workdir={seed}")
    check_equal(modes.run(config, str(seed), "eval"), modes.run(config, str(run_dir), "eval"))
    assert not (seed / "config.json").exists() and not (seed / "vocabulary").exists()
    with pytest.raises(UsageError, match=r"\(optim.clip was 1.0, now 2.0\)"):
        modes.run(parse_flags(f"--workdir={seed}", "--config.optim.clip=2"), str(seed), "eval")
    for mode in ("train", "check"):
        with pytest.raises(UsageError, match=r"seed_3 is a seed of the run in .*: give --workdir="):
            modes.run(config, str(seed), mode)
    with pytest.raises(UsageError, match=r"holds no checkpoint that can be read: .*, such as .*/seed_3$"):
        modes.run(config, str(tmp_path), "eval")
    with pytest.raises(UsageError, match="other does not exist: train a run there"):
        parse_flags(f"--workdir={tmp_path}/other")


def test_an_explicit_config_takes_precedence(run_dir, tmp_path):
    for words in (["--config", "numgpt:smoke"], ["-config=numgpt:smoke"]):
        assert parse_flags(f"--workdir={run_dir}", *words).task.name == "statement"
    flag_file = tmp_path / "flags"
    flag_file.write_text(f"--config=numgpt:smoke\n--mode=check\n--workdir={tmp_path / 'new'}\n")
    code, out, last = call(f"--flagfile={flag_file}", "--config.optim.steps=7")
    assert code == 0 and json.loads(out.splitlines()[-1])["steps"] == 7, last


def test_only_the_whole_word_of_an_unknown_key_is_mended():
    error = KeyError('tas Did you mean "task" instead of "tas"?')
    for path, mended in (("task.tas", "task.task"), ("tasks.tas.tasty", "tasks.task.tasty"), ("tas", "task")):
        line = command_line.error_line(error, [f"--config.{path}=3"])
        assert f"no key '{path}': did you mean --config.{mended}? " in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--workdir=RUN", "--mode=eval", "--config.decod.beams=3"],
            "the config has no key 'decod.beams': did you mean --config.decode.beams?",
        ),
        (
            ["--workdir=RUN", "--mode=eval", "--config.decode.beems=3"],
            "no key 'decode.beems': did you mean --config.decode.beams? --mode=show lists",
        ),
        (["--workdir=RUN", "--mode=eval", "--config.decode.beams=x"], "--config.decode.beams=x"),
        (["--workdir=RUN", "--mode=eval", "--config.optim.steps=8"], "(optim.steps was 4, now 8)"),
        (
            ["--workdir=NONE", "--mode=predict", "--config.decode.beams=3"],
            "NONE does not exist: train a run there, with --mode=train --config=",
        ),
        (["--workdir=NONE"], "NONE does not exist: train a run there, with --mode=train --config="),
        (["--mode=eval", "--config.decode.beams=3"], "--config and --workdir are missing"),
        (["--mode=eval"], "--workdir is missing: python -m numjax.main --workdir=runs/measures"),
        (["--workdir"], "Missing value for flag --workdir"),
        (["--workdir=CUT", "--mode=eval"], "CUT holds no readable config.json"),
        (["--workdir=EDITED", "--mode=eval"], "EDITED/config.json is damaged or was edited: restore it"),
        (["--workdir=OTHER", "--mode=eval"], "OTHER holds no readable config.json"),
    ],
)
def test_bad_usage_gives_one_line_and_exit_code_2(run_dir, tmp_path, words, message):
    content = (run_dir / "config.json").read_text()
    edited = content.replace('"train_size": 48', '"train_size": 64')
    for name, text in (("CUT", content[:-20]), ("EDITED", edited), ("OTHER", '{"num_attention_heads": 12}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    words = [word.replace("RUN", str(run_dir)) for word in words]
    code, out, last = call(*words, folder=tmp_path)
    assert code == 2 and out == "" and last.startswith("numjax: ") and message in last, last
    assert "Error" not in last


@pytest.mark.parametrize(
    ("config", "argument"),
    [
        (numgpt, "smoke"),
        (mathgpt, "smoke"),
        (digits, "smoke,aux=soft"),
        (luna, "smoke,task=tatqa"),
        (luna, "paper,shape=roberta"),
        (tabbert, "smoke,task=fraud"),
    ],
)
def test_a_saved_config_equals_the_config_of_its_file(tmp_path, config, argument):
    """Tuples come back as tuples, since a flag must have the type of its key."""
    original = config.get_config(argument)
    origin.save_config(tmp_path, json.loads(json.dumps(original.to_dict())))
    assert parse_flags(f"--workdir={tmp_path}").to_dict() == original.to_dict()
    new_config = parse_flags(f"--workdir={tmp_path}", "--config.optim.betas=(0.5, 0.6)", "--config.optim.clip=2")
    assert new_config.optim.betas == (0.5, 0.6) and new_config.optim.clip == 2.0
    with pytest.raises((flags.Error, ValueError, KeyError, AttributeError)):
        parse_flags(f"--workdir={tmp_path}", "--config.optim.learnin_rate=1")


def test_a_file_that_gives_no_whole_config_is_one_line(tmp_path):
    for content, says in (
        ("return ConfigDict({'a': 1})", "--config is no whole config of numjax, seed is missing"),
        ("raise ValueError()", "the file of --config raises ValueError"),
    ):
        (tmp_path / "mine.py").write_text(
            f"from ml_collections import ConfigDict\ndef get_config(argument=''):\n    {content}\n"
        )
        code, _, last = call(f"--config={tmp_path}/mine.py", f"--workdir={tmp_path}/run", "--mode=check")
        assert code == 2 and says in last, last
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("mode", "flag"), [("eval", "--prompt=foo"), ("eval", "--input=x"), ("train", "--intervals=0.5")]
)
def test_a_flag_of_another_mode_is_refused(mode, flag, tmp_path):
    code, _, last = call("--config=numgpt:smoke", f"--workdir={tmp_path}/run", f"--mode={mode}", flag)
    assert code == 2 and f"leave it out of {mode}" in last, last
