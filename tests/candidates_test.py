"""The tests of our own schemes: every system is one, and what a log says of learning is what is reported."""

from __future__ import annotations

import argparse
import json
from types import SimpleNamespace
from typing import Any

import pytest

from numjax.build import build
from numjax.bundled.experiments import runs
from numjax.bundled.experiments.candidates import carry, contest, limbs, residues, text
from numjax.bundled.experiments.grid import problems
from numjax.config import fit
from numjax.system import assemble

CONTESTS = [module.CONTEST for module in (carry, limbs, residues)]
CELLS = [(own, operation, system) for own in CONTESTS for operation in own.operations for system in own.systems]


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
@pytest.mark.parametrize(
    "own, operation, system", CELLS, ids=[f"{own.name}-{operation}-{system}" for own, operation, system in CELLS]
)
def test_parts_of_every_system_go_together(own, operation, system, scale):
    config = contest.make_config(own, scale, operation, system)
    fit.check(config, build("tasks", config.task))
    assert config.task.operations == operation and config.task.data_seed == contest.DATA_SEED
    steps = {"residues": 6000 if system in ("spare", "alone") else 20_000}.get(own.name, 2000)
    assert config.optim.steps == (4 if scale == "smoke" else steps)


@pytest.mark.parametrize(
    "own, operation, system", CELLS, ids=[f"{own.name}-{operation}-{system}" for own, operation, system in CELLS]
)
def test_every_test_problem_has_room(own, operation, system, tmp_path_factory):
    """But for edges of add with two operands of thirty digits, as the README says."""
    config = contest.make_config(own, "laptop", operation, system)
    with config.unlocked():
        config.task.size, config.task.test = 64, 20
    made = assemble(config, tmp_path_factory.mktemp("vocabulary"))
    records = [r for r in problems.load_records(made.task.dataset, "test") if r["stream"] in own.streams]
    skipped = {entry["id"] for entry in made.encode_split(records, "test").skipped}
    left_out = [r for r in records if r["id"] in skipped]
    has_long_edges = (own.name, operation) == ("carry", "add") or (own.name, system) == ("residues", "digits")
    assert len(left_out) == (4 if operation == "add" and has_long_edges else 0)
    assert all(r["stream"] == "edges" and min(map(len, r["operands"].split(" | "))) == 30 for r in left_out)
    longest = max(len(made.encode(made.task.example(r, made.scheme.parse).document).ids) for r in records)
    assert longest <= config.backbone.max_length


def test_systems_of_a_contest_differ_in_what_they_are_about_alone():
    """But for two systems of the residues, which train for fewer steps than their rivals."""
    for own in CONTESTS:
        for operation in own.operations:
            configs = [contest.make_config(own, "laptop", operation, system) for system in own.systems]
            for system, config in zip(own.systems, configs, strict=True):
                if own.name == "residues" and system in ("spare", "alone"):
                    assert config.optim.steps < configs[0].optim.steps
                    config.optim.steps = configs[0].optim.steps
            for block in ("task", "optim", "eval", "backbone"):
                assert len({repr(config[block].to_dict()) for config in configs}) == 1, (own.name, block)


def test_the_step_of_learning_is_the_first_above_the_bar_with_its_seconds():
    lines = [
        *({"split": "train", "step": step, "seconds_per_step": s} for step, s in ((1, 9.0), (2, 0.5), (3, 0.25))),
        {"split": "test", "step": 100, "exact": 1.0},
        {"split": "validation", "step": 125, "exact": 0.985},
        {"split": "validation", "step": 250, "exact": 0.99},
        {"split": "validation", "step": 375, "exact": 1.0},
    ]
    assert contest.find_learned_step(lines) == (250, 125.0)
    assert contest.find_learned_step(lines[:5]) is None
    entries = [
        {"task": "add", "system": "digits", "seed": 0, "step": 250, "seconds": 125.0},
        {"task": "add", "system": "digits", "seed": 1, "step": None, "seconds": None},
    ]
    (line,) = contest.describe_learned_steps(carry.CONTEST, entries)
    assert line == "Steps to 99% on add, seed by seed: Digit by digit, lowest first: 250 (125 s), never."


def test_steps_of_learning_come_from_logs_here_or_else_from_known_tables(tmp_path, monkeypatch):
    cell = runs.RunCell("add", "digits", contest.make_config(carry.CONTEST, "smoke", "add", "digits"))
    other = [{"task": "add", "system": "digits", "seed": seed, "step": 8, "seconds": 9.0} for seed in (0, 1)]
    own_runs = [{"task": "add", "system": "digits", "seed": seed, "key": "present"} for seed in (0, 1)]
    known = {"scale": "smoke", "learned": [*other, dict(other[0], system="parallel", step=7)], "runs": own_runs}
    (tmp_path / "known.json").write_text(json.dumps(known))
    wrong = {"scale": "laptop", "learned": [dict(entry, step=9) for entry in other], "runs": own_runs}
    (tmp_path / "other.json").write_text(json.dumps(wrong))
    older = known | {"learned": [dict(entry, step=3) for entry in other]}
    older["runs"] = [run | {"key": "of other settings"} for run in own_runs]
    (tmp_path / "older.json").write_text(json.dumps(older))
    monkeypatch.setenv("HOME", str(tmp_path))
    log = runs.workdir(cell, 0, tmp_path) / "metrics.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(json.dumps({"split": "validation", "step": 5, "exact": 1.0, "seconds_per_step": 2.0}))
    files = f"{tmp_path}/other.json,{tmp_path}/older.json,~/known.json,"
    options = argparse.Namespace(out=tmp_path, scale="smoke", known=files)
    results: Any = {("add", "digits"): {seed: SimpleNamespace(key="present") for seed in (0, 1, 2)}}
    entries = contest.list_learned_steps("carry", [cell], results, options)
    assert [(e["seed"], e["step"], e["seconds"]) for e in entries] == [(0, 5, 10.0), (1, 8, 9.0)]
    options.known = ""  # a second call has the copies of the first, and its table
    assert contest.list_learned_steps("carry", [cell], results, options) == entries[:1]
    (tmp_path / "carry.json").write_text(json.dumps({"scale": "smoke", "learned": entries, "runs": own_runs}))
    assert contest.list_learned_steps("carry", [cell], results, options) == entries


@pytest.mark.parametrize("scale", ["smoke", "laptop", "overnight"])
def test_the_flagship_in_text_has_a_config_for_each_cell(scale):
    bert = "minilm" if scale == "overnight" else ""
    options = argparse.Namespace(scale=scale, bert=bert, roberta="", tatqa="", tabfact="", as_published=False)
    found = {(task, system) for task in text.TASKS for system in text.list_systems() if text.has_cell(task, system)}
    assert len(found) == 7 + 7 + 6
    configs = set()
    for task, system in sorted(found):
        config = text.make_cell(options, task, system).config
        fit.check(config, build("tasks", config.task))
        configs.add(config.to_json(sort_keys=True))
        is_ours = system in text.OURS
        assert (config.scheme.name == "limbs") == is_ours and (config.init_from != "") == (
            bert != "" and task == "tatqa"
        )
    assert len(configs) == len(found), "two cells are the same run"
