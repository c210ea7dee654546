"""How positions start: the trials that MathGPT and GPT have alike, and that the configs follow them."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from numjax.bundled.experiments import runs, trials
from numjax.bundled.experiments.mathgpt import settings, starts
from numjax.bundled.experiments.mathgpt.table3 import LABELS, SYSTEMS

ROOT = Path(__file__).resolve().parents[1]


def test_both_systems_try_as_many_starts_and_differ_in_nothing_else(tmp_path, monkeypatch, capsys):
    configs = {}

    def train(system, data, folder, seed, score, compiled=None, note=None):
        config = json.loads((folder.parent / "config.json").read_text())
        del config["digest"]
        configs[folder.parent.name.rpartition("-")[0]] = config, seed
        return {"validation": {"loss": 1.0 if len(configs) in (1, 4) else 2.0}}, None

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, folder: None)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    starts.main(["--scale=smoke", f"--out={tmp_path}"])
    assert list(configs) == ["gpt-trial0", "gpt-trial1", "mathgpt-trial0", "mathgpt-trial1"]
    assert {seed for _, seed in configs.values()} == {trials.SEED}
    for system, place in (("gpt", "sequence"), ("mathgpt", "tree")):
        first, second = (configs[f"{system}-trial{number}"][0] for number in (0, 1))
        stds = [config["positions"][place].pop("init_std") for config in (first, second)]
        assert stds == list(*starts.GRIDS[system].values()) and first == second
        assert first["eval"].pop("test") is False, "no trial reads the test split"
    text = (tmp_path / "starts.md").read_text()
    assert [line.split("|")[-2].strip() for line in text.splitlines() if "init_std" in line] == ["yes", "", "", "yes"]
    assert "starts.md, starts.json" in capsys.readouterr().out
    content = json.loads((tmp_path / "starts.json").read_text())
    assert [run["system"] for run in content["trial_runs"]["runs"]] == list(configs)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_tables_take_the_start_that_the_committed_trials_chose(system):
    content = json.loads((ROOT / "experiments/mathgpt/results/laptop/starts.json").read_text())
    chosen = [record for record in content["trial_records"][system] if record["chosen"]]
    assert chosen == [min(content["trial_records"][system], key=lambda record: record["loss"])]
    assert content["scale"] == "laptop" and content["data"] == settings.EQUATION.real
    ((path, value),) = chosen[0]["settings"].items()
    options = SimpleNamespace(scale="laptop", as_published=False, path="", texts="")
    config = settings.make_cell(options, system, SYSTEMS[system], 0).config
    block = config.positions[path.split(".")[1]]
    defaults = {"learned": 0.02, "tree": 0.005}
    assert np.isclose(block.get("init_std", defaults[block.name]), value)
    assert settings.make_trials([LABELS[system]], options)["trials"] == {LABELS[system]: 1}
