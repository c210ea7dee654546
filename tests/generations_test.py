"""Formulas that random weights generate: a small run of `experiments.mathgpt.generations`."""

from __future__ import annotations

import json

import pytest

from numjax.bundled.experiments.mathgpt import generations


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("generations")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMJAX_CACHE", str(tmp_path_factory.mktemp("data")))
        # One sampled program each with and without the mask.
        patch.setattr(generations, "TEMPERATURES", (0.5, 2.0))
        generations.main(["--count=256", "--batch=64", "--pieces=400", f"--out={folder}", "--dirty"])
    return folder


def test_every_tree_is_complete_canonical_and_parses_back_with_its_positions(out):
    report = json.loads((out / "generations.json").read_text())
    masked, unmasked = report["all"]["True"], report["all"]["False"]
    assert masked["generations"] == masked["valid"] == masked["positions"] == 256
    assert masked["formulas"] == masked["trees"] == masked["canonical"] == masked["reread"] >= 256
    assert masked["same"] == masked["same_positions"] > 50
    assert not report["failures"] and report["deepest"] > 3 and report["widest"] > 3
    assert unmasked["generations"] == 256 and unmasked["valid"] < 128, "without the mask most are invalid"


def test_the_table_agrees_with_the_json(out):
    lines = (out / "generations.md").read_text().splitlines()
    (row,) = [line for line in lines if line.startswith("| yes | all")]
    assert row.count("100%") == 6
