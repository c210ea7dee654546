"""What random weights write: a small form of `experiments.mathgpt.generations`."""

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
        generations.main(["--count=256", "--batch=64", "--pieces=400", f"--out={folder}"])
    return folder


def test_every_tree_is_whole_canonical_read_back_and_in_its_place(out):
    found = json.loads((out / "generations.json").read_text())
    masked, free = found["all"]["True"], found["all"]["False"]
    assert masked["generations"] == masked["valid"] == masked["positions"] == 256
    assert masked["formulas"] == masked["trees"] == masked["canonical"] == masked["reread"] >= 256
    assert masked["same"] == masked["same_positions"] > 50
    assert not found["failures"] and found["deepest"] > 3 and found["widest"] > 3
    assert free["generations"] == 256 and free["valid"] < 128, "it is the mask that does it"


def test_the_table_says_the_same(out):
    lines = (out / "generations.md").read_text().splitlines()
    (whole,) = [line for line in lines if line.startswith("| yes | all")]
    assert whole.count("100%") == 6
