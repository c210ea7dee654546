"""Coverage of intervals: a small run, and what the table, the title and the picture make of known intervals."""

from __future__ import annotations

import json
from decimal import Decimal
from types import SimpleNamespace

import pytest

from numjax.bundled.experiments import pictures
from numjax.bundled.experiments.intervals import coverage
from numjax.bundled.experiments.runs import RunCell
from numjax.evals.generate import Generation


def make_model(halves: dict[str, int], probability: float | None = 0.75):
    """A model whose answer to each question is 100, and whose intervals reach `halves` beyond it in steps."""

    def generate(prompts, intervals, samples):
        del samples
        generations = []
        for prompt in prompts:
            ends = [{"share": s, "low": str(100 - int(s * halves[prompt])), "high": "100"} for s in intervals]
            number = {"value": "100", "probability": probability, "intervals": ends, "method": "exact"}
            generations.append(Generation(prompt, " 100", [number], 0.0, True))
        return generations

    return SimpleNamespace(generate=generate)


def test_an_answer_is_covered_where_it_lies_between_the_ends():
    problems = [
        {"question": "a", "answer": "100"},
        {"question": "b", "answer": "95"},
        {"question": "c", "answer": "101"},
    ]
    result = coverage.measure(make_model({"a": 0, "b": 10, "c": 10}), problems)
    expected = [sum((True, Decimal(5) <= int(share * 10), False)) / 3 for share in coverage.SHARES]
    assert result["covered"] == pytest.approx(expected) and result["covered"][0] == pytest.approx(1 / 3)
    assert result["exact"] == pytest.approx(1 / 3) and result["probability"] == 0.75 and result["count"] == 3
    assert coverage.measure(make_model({"a": 0}, None), problems[:1])["probability"] is None


def test_a_run_that_is_not_here_is_taken_from_a_known_table(tmp_path):
    """Its model cannot be asked again; entries of other seeds and scales stay out."""
    known = make_content({"fone": [0.5] * len(coverage.SHARES), "digits": [0.25] * len(coverage.SHARES)})
    other = {**known, "scale": "smoke", "coverage": [{**e, "exact": 0.125} for e in known["coverage"]]}
    paths = tmp_path / "coverage.json", tmp_path / "other.json"
    for path, content in zip(paths, ({**known, "scale": "laptop"}, other), strict=True):
        path.write_text(json.dumps(content))
    options = SimpleNamespace(known=",".join(map(str, paths)), scale="laptop", out=tmp_path / "out")
    cells = [RunCell("add", system, coverage.make_config("laptop", system)) for system in ("fone", "digits")]
    done = SimpleNamespace(diverged=False)
    results = {("add", "fone"): {0: done, 1: done}, ("add", "digits"): {0: SimpleNamespace(diverged=True)}}
    entries = coverage.measure_runs(cells, results, options)
    assert entries == [entry for entry in known["coverage"] if entry["system"] == "fone"] and len(entries) == 2


def make_content(covered: dict[str, list[float]]):
    entries = [
        {"system": s, "seed": 0, "stream": stream, "count": 10, "exact": 0.5, "covered": c, "probability": 0.4}
        | {"method": "exact"}
        for s, c in covered.items()
        for stream in coverage.STREAMS
    ]
    return {"coverage": entries, "shares": coverage.SHARES, "drawn_by": "intervals.coverage"}


def test_the_picture_shows_each_system_against_what_is_stated():
    content = make_content({"fone": [0.1, 0.2, 0.5, 0.7, 0.9, 1.0], "numgpt": [0.0, 0.1, 0.2, 0.3, 0.4, 0.5]})
    (figure,) = pictures.draw(content).values()
    texts = {text.get_text() for axes in figure.axes for text in axes.texts}
    assert {"as stated", coverage.SYSTEMS["fone"]} <= texts
    title = coverage.make_title({"fone": 0.9, "numgpt": 0.4})
    assert "1 of 2 systems" in title and title.endswith("NumGPT, learned variance, 40%")
    assert pictures.draw(make_content({})) == {}


def test_systems_have_a_panel_each_and_no_panel_has_more_than_five_lines():
    named = [system for systems in coverage.PANELS.values() for system in systems]
    assert sorted(named) == sorted(coverage.SYSTEMS) and all(len(s) <= 4 for s in coverage.PANELS.values())


@pytest.mark.whole
def test_a_small_run_measures_larger_shares_as_wider(tmp_path):
    coverage.main(["--scale=smoke", "--seeds=1", "--only=fone", f"--out={tmp_path}"])
    content = json.loads((tmp_path / "coverage.json").read_text())
    assert [entry["stream"] for entry in content["coverage"]] == list(coverage.STREAMS)
    for entry in content["coverage"]:
        assert entry["method"] == "exact" and entry["covered"] == sorted(entry["covered"])
        assert 0 <= entry["covered"][0] <= 1 and 0 < entry["probability"] <= 1
    assert (tmp_path / "coverage.png").exists()
    text = (tmp_path / "coverage.md").read_text()
    assert text.count("| FoNE | exact |") == 2 and "](coverage.png)" in text
