"""The form of DICE's Table 1 and of the figures of digit aggregation."""

from __future__ import annotations

import json

import numpy as np
import pytest

from numjax.bundled.experiments.dice import table1
from numjax.bundled.experiments.digits import figures


def test_table_1_has_the_papers_numbers_and_ours(tmp_path, monkeypatch):
    names = ("dice-d", "dice-2-full")
    monkeypatch.setattr(table1, "SYSTEMS", {name: table1.SYSTEMS[name] for name in names})
    table = tmp_path / "mine.txt"
    angles = {text: float(text) / 4e4 for text in table1.make_numbers(60) if text != "7"}
    table.write_text("".join(f"{n} {np.cos(angle):.12f} {np.sin(angle):.12f}\n" for n, angle in angles.items()))
    table1.main(["--scale=smoke", f"--tables={table}", f"--out={tmp_path}"])
    results = json.loads((tmp_path / "table1.json").read_text())
    strict = {(e["row"], e["column"]): e for e in results["tables"]["Strict"]}
    assert strict["DICE-D, as printed", "OVA"]["paper"]["mean"] == 95.63
    assert strict["DICE-D, as printed", "OVA"]["here"]["n"] == 2 and strict["GloVe 6B-300D", "SC"]["here"] is None
    ties = {(e["row"], e["column"]): e["here"]["mean"] for e in results["tables"]["With ties"] if e["here"]}
    assert ties["DICE-2, full range", "OVA, ties"] == ties["mine", "OVA, ties"] == 100
    assert {e["row"] for e in results["tables"]["In float32"]} == {"DICE-D, as printed", "DICE-2, full range"}
    text = (tmp_path / "table1.md").read_text()
    assert "mine has no vectors for 1 number (7)" in text and "| Random | 0.04 | – |" in text


def test_the_stand_in_has_small_and_large_numbers():
    numbers = [int(text) for text in table1.make_numbers(60)]
    assert numbers == sorted(set(numbers)) and numbers[:30] == list(range(30)) and 1000 < numbers[-1] <= 100_000


def test_digit_aggregation_writes_its_figures(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "AGGREGATES", ("weighted", "sum"))
    figures.main(["--scale=smoke", "--seeds=1", "--others", "dice:form=2,dim=4", f"--out={tmp_path}"])
    results = json.loads((tmp_path / "figures.json").read_text())
    assert list(results["f1"]) == ["eq. 1", "sum", "dice:form=2,dim=4"]
    assert results["f1"]["dice:form=2,dim=4"] == [{"1": 1.0, "2": 1.0}]
    assert results["f1"]["eq. 1"][0]["2"] == pytest.approx(0.7, abs=0.1) and results["f1"]["sum"][0]["2"] < 0.1
    assert len(results["fig1"]["embedded"]) == 10 and results["fig1"]["natural"] == [
        54,
        56,
        53,
        57,
        52,
        58,
        51,
        59,
        50,
        60,
    ]
    for name in ("fig1.png", "fig2.png", "fig3.png"):
        assert (tmp_path / name).read_bytes()[:4] == b"\x89PNG"
    assert "| eq. 1 |" in (tmp_path / "figures.md").read_text()
