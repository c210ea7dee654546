"""The quickstart at smoke scale: what `make quickstart` writes, and that a second call trains nothing."""

from __future__ import annotations

import json

import pytest

from numjax.bundled.experiments import runs
from numjax.bundled.experiments.numgpt import fig1, quickstart


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NUMJAX_CACHE", str(folder / "data"))
        quickstart.main(["--scale=smoke", f"--out={folder}"])
        yield folder


def test_the_quickstart_writes_a_table_and_a_picture(out):
    entries = json.loads((out / "table.json").read_text())["tables"]["table"]
    assert [entry["row"] for entry in entries] == ["MAJ", "GPT, subwords", "NumGPT"]
    assert all(0 <= entry["here"]["mean"] <= 100 and entry["here"]["n"] == 1 for entry in entries)
    assert (out / "table.md").read_text().count("\n| ") == 5
    assert (out / "fig1.png").read_bytes().startswith(b"\x89PNG")


def test_the_curves_are_probabilities_of_the_models_on_disk(out):
    figure = json.loads((out / "fig1.json").read_text())
    assert set(figure["curves"]) == {"gpt", "numgpt"} and figure["answers"] == fig1.list_answers()
    for by_seed in figure["curves"].values():
        (curve,) = by_seed.values()
        assert len(curve["confidence"]) == len(figure["answers"])
        assert all(0 <= p <= 1 for p in curve["confidence"])
    # Scored alone, an answer has the confidence that it has on the curve.
    folder = next((out / "runs" / "mme").glob("numgpt-*")) / "seed_0"
    index = len(figure["answers"]) // 2
    (confidence,) = fig1.compute_curve(folder, [figure["answers"][index]]).confidence
    assert confidence == pytest.approx(figure["curves"]["numgpt"]["0"]["confidence"][index], abs=1e-5)


def test_a_second_call_trains_nothing_and_writes_again(out, monkeypatch, capsys):
    def fail(*args, **kwargs):
        raise AssertionError("trained again")

    monkeypatch.setattr(runs, "train", fail)
    quickstart.main(["--scale=smoke", f"--out={out}"])
    output = capsys.readouterr()
    assert str(out) in output.out and "fig1.png" in output.out and "| NumGPT |" in output.out
    assert "2 runs, 2 done before" in output.err


def test_finished_runs_keep_their_best_parameters_only(out):
    for folder in (out / "runs" / "mme").glob("*/seed_0"):
        assert any((folder / "best").iterdir()) and not (folder / "checkpoints").exists()
