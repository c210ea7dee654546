"""A workdir that holds a run needs no --config: its own is read, and flags change of it what may differ."""

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

from numjax.bundled.configs import digits, luna, mathgpt, numgpt, tabbert
from numjax.config import command_line, origin
from numjax.errors import UsageError
from numjax.train import runs
from tests.runs_test import ROOT, cache  # noqa: F401  (the fixture builds datasets once)

PROMPT = "Q: A ship holds 6518 tons of coal. A:"
RECORD = '{"question": "How many grams are 2 eggs?", "answer": "80"}\n'
MADE = [
    "--config=numgpt:smoke,task=generation",
    "--config.backbone.width=48",
    "--config.optim.steps=4",
    "--config.optim.betas=(0.8, 0.9)",
    "--config.eval.every=4",
    "--config.eval.examples=16",
    "--config.data.train_size=48",
]


def parsed(*words: str) -> Any:
    """The config of a command line."""
    line, values = ["main", *words], flags.FlagValues()
    config_flags.DEFINE_config_file("config", flag_values=values, sys_argv=line)
    flags.DEFINE_string("workdir", None, "", flag_values=values)
    values(command_line.resolve_configs(line))
    return values.config


def call(*words: str, folder: pathlib.Path = ROOT, text: str = "") -> tuple[int, str, str]:
    """Exit code, output and last line of errors of the command in a folder."""
    done = subprocess.run(
        [sys.executable, "-m", "numjax.main", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        input=text,
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, (done.stderr.strip().splitlines() or [""])[-1]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "run"
    runs.run(parsed(*MADE), str(folder), "train")
    return folder


def same(mine: Any, theirs: Any) -> None:
    """JSON values are equal, but for the last digits of what another process computed."""
    if isinstance(mine, dict):
        assert mine.keys() == theirs.keys()
        mine, theirs = list(mine.values()), [theirs[key] for key in mine]
    if isinstance(mine, list):
        assert len(mine) == len(theirs)
        for one, other in zip(mine, theirs, strict=True):
            same(one, other)
    else:
        assert mine == (pytest.approx(theirs, rel=1e-5) if isinstance(theirs, float) else theirs)


@pytest.mark.parametrize("mode", ["eval", "predict", "generate", "check"])
def test_each_mode_finds_what_it_finds_with_all_flags_repeated(made, mode, tmp_path, capsys):
    source = tmp_path / "rows.jsonl"
    source.write_text(RECORD)
    more: dict[str, Any] = {"predict": {"input": str(source)}, "generate": {"prompts": [PROMPT]}}.get(mode, {})
    capsys.readouterr()
    runs.run(parsed(*MADE), str(made), mode, **more)
    expected = json.loads(capsys.readouterr().out.splitlines()[-1])
    words = {"predict": ["--input=-"], "generate": [f"--prompt={PROMPT}"]}.get(mode, [])
    # From another folder, and the workdir behind a blank.
    code, out, last = call("--workdir", made.name, f"--mode={mode}", *words, folder=made.parent, text=RECORD)
    assert code == 0, last
    same(json.loads(out.splitlines()[-1]), expected)


def test_training_goes_on_by_the_workdirs_own_config(tmp_path):
    with pytest.raises(UsageError, match=r"holds no run: train one, with --config=NAME"):
        parsed(f"--workdir={tmp_path}")
    runs.run(parsed(*MADE), str(tmp_path), "check")  # the config is there, and no checkpoint yet
    code, _, last = call(f"--workdir={tmp_path}", "--config.mesh.fsdp=1", "--config.eval.test=False")
    assert code == 0 and last.startswith("validation (step 4)"), last
    kept = origin.load_config(tmp_path)
    assert kept["optim"]["betas"] == [0.8, 0.9] and kept["eval"]["test"] is False
    runs.run(parsed(f"--workdir={tmp_path}", "--config.log_every=7"), str(tmp_path), "train")
    assert origin.load_config(tmp_path) == kept | {"log_every": 7}
    code, _, last = call(f"--workdir={tmp_path}", "--config.optim.steps=8")
    assert code == 2 and "(optim.steps was 4, now 8)" in last


def test_what_may_differ_is_set_for_one_look_alone(made):
    before = (made / "config.json").read_bytes()
    words = [f"--workdir={made}", "--mode=generate", f"--prompt={PROMPT}"]
    greedy, beams = call(*words), call(*words, "--config.decode.beams=3")
    short = call(*words, "--config.decode.max_tokens", "2")
    assert greedy[0] == beams[0] == 0 and short[0] == 2, "an answer takes three tokens"
    assert (made / "config.json").read_bytes() == before
    for mode in ("eval", "check"):
        runs.run(parsed(f"--workdir={made}", "--config.eval.batch_size=16"), str(made), mode)
        assert (made / "config.json").read_bytes() == before


@pytest.mark.parametrize("mode", ["train", "eval", "predict", "generate", "check"])
def test_what_may_not_differ_is_named(made, mode):
    before = (made / "config.json").read_bytes()
    for words, told in (
        (["--config.data.train_size=64"], r"\(data.train_size was 48, now 64\): leave out the flags"),
        (["--config.optim.betas=(0.5, 0.9)"], r"\(optim.betas was \[0.8, 0.9\], now \[0.5, 0.9\]\)"),
        (["--config=numgpt:smoke,task=generation"], r"\(backbone.width was 48, now 32\).*without --config"),
    ):
        with pytest.raises(UsageError, match=told):
            runs.run(parsed(f"--workdir={made}", *words), str(made), mode, prompts=[PROMPT])
    assert (made / "config.json").read_bytes() == before


def test_a_seed_is_looked_at_by_the_config_of_its_run(made, tmp_path):
    """Of a run of several seeds, whose config and vocabulary lie around them."""
    seed = tmp_path / "seed_3"
    shutil.copytree(made, seed)
    for name in ("config.json", "vocabulary"):
        (seed / name).rename(tmp_path / name)
    config = parsed(f"--workdir={seed}")
    same(runs.run(config, str(seed), "eval"), runs.run(config, str(made), "eval"))
    assert not (seed / "config.json").exists() and not (seed / "vocabulary").exists()
    with pytest.raises(UsageError, match=r"\(optim.clip was 1.0, now 2.0\)"):
        runs.run(parsed(f"--workdir={seed}", "--config.optim.clip=2"), str(seed), "eval")
    for mode in ("train", "check"):
        with pytest.raises(UsageError, match=r"seed_3 is a seed of the run in .*: give --workdir="):
            runs.run(config, str(seed), mode)
    with pytest.raises(UsageError, match=r"holds no checkpoint that can be read: .*, such as .*/seed_3$"):
        runs.run(config, str(tmp_path), "eval")
    with pytest.raises(UsageError, match="other holds no run"):
        parsed(f"--workdir={tmp_path}/other")


def test_a_config_given_as_well_goes_first(made, tmp_path):
    for words in (["--config", "numgpt:smoke"], ["-config=numgpt:smoke"]):
        assert parsed(f"--workdir={made}", *words).task.name == "statement"
    listed = tmp_path / "flags"
    listed.write_text(f"--config=numgpt:smoke\n--mode=check\n--workdir={tmp_path / 'new'}\n")
    code, out, last = call(f"--flagfile={listed}", "--config.optim.steps=7")
    assert code == 0 and json.loads(out.splitlines()[-1])["steps"] == 7, last


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--workdir=RUN", "--mode=eval", "--config.decod.beams=3"], 'Did you mean "decode"'),
        (["--workdir=RUN", "--mode=eval", "--config.decode.beems=3"], 'Did you mean "beams"'),
        (["--workdir=RUN", "--mode=eval", "--config.decode.beams=x"], "--config.decode.beams=x"),
        (["--workdir=RUN", "--mode=eval", "--config.optim.steps=8"], "(optim.steps was 4, now 8)"),
        (
            ["--workdir=NONE", "--mode=predict", "--config.decode.beams=3"],
            "NONE holds no run: train one, with --config=",
        ),
        (["--workdir=NONE"], "NONE holds no run: train one, with --config="),
        (["--mode=eval", "--config.decode.beams=3"], "give --workdir, and --config where it holds no run"),
        (["--mode=eval"], "give --workdir, and --config where it holds no run"),
        (["--workdir"], "Missing value for flag --workdir"),
        (["--workdir=CUT", "--mode=eval"], "CUT holds no readable config.json"),
        (["--workdir=EDITED", "--mode=eval"], "EDITED/config.json is damaged or was edited: restore it"),
        (["--workdir=OTHER", "--mode=eval"], "OTHER holds no readable config.json"),
    ],
)
def test_bad_usage_is_one_line_and_exit_2(made, tmp_path, words, told):
    kept = (made / "config.json").read_text()
    edited = kept.replace('"train_size": 48', '"train_size": 64')
    for name, text in (("CUT", kept[:-20]), ("EDITED", edited), ("OTHER", '{"num_attention_heads": 12}')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(text)
    words = [word.replace("RUN", str(made)) for word in words]
    code, out, last = call(*words, folder=tmp_path)
    assert code == 2 and out == "" and last.startswith("numjax: ") and told in last, last
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
def test_a_config_comes_back_as_its_file_gives_it(tmp_path, config, argument):
    """Also its tuples: flags change only what has the type of before."""
    given = config.get_config(argument)
    origin.save_config(tmp_path, json.loads(json.dumps(given.to_dict())))
    assert parsed(f"--workdir={tmp_path}").to_dict() == given.to_dict()
    changed = parsed(f"--workdir={tmp_path}", "--config.optim.betas=(0.5, 0.6)", "--config.optim.clip=2")
    assert changed.optim.betas == (0.5, 0.6) and changed.optim.clip == 2.0
    with pytest.raises((flags.Error, ValueError, KeyError, AttributeError)):
        parsed(f"--workdir={tmp_path}", "--config.optim.learnin_rate=1")
