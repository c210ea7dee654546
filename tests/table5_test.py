"""LUNA's Table 5: predictions in either form against the official metric, seeds, and unreadable files."""

from __future__ import annotations

import gzip
import json

import pytest

from numjax.bundled.experiments.luna import table5
from numjax.errors import DataError, UsageError

GOLD = [
    ("a", "span", ["the USA"], ""),
    ("b", "arithmetic", 12.5, "percent"),
    ("c", "arithmetic", -3, "million"),
    ("d", "count", "2", ""),
]


def write_workdir(root, predictions):
    """Writes predictions as task=tatqa does and returns their folder."""
    rows = [
        {"id": uid, "prediction": {"answer": predictions[uid][0], "scale": predictions[uid][1], "operator": "SUM"}}
        | {"reference": {"answer": answer, "answer_type": kind, "scale": scale}}
        for uid, kind, answer, scale in GOLD
    ]
    (root / "predictions").mkdir(parents=True)
    (root / "predictions" / "tatqa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


def test_both_forms_and_several_seeds(tmp_path, capsys):
    best = {"a": [["usa"], ""], "b": [12.5, "percent"], "c": [3, "million"], "d": ["2", ""]}
    worse = best | {"b": [12.5, ""], "d": ["3", ""]}
    one, two = write_workdir(tmp_path / "one", best), write_workdir(tmp_path / "two", worse)
    questions = [
        {"uid": uid, "answer_type": kind, "answer": answer, "scale": scale} for uid, kind, answer, scale in GOLD
    ]
    with gzip.open(tmp_path / "gold.json.gz", "wt") as file:
        json.dump([{"questions": questions[:2]}, {"questions": questions[2:]}], file)
    # Question c has no answer and counts as wrong, as a wrong sign does.
    (tmp_path / "file.json").write_text(json.dumps({uid: best[uid] for uid in "abd"}))
    words = [f"ours={one},{two}", f"other={tmp_path / 'file.json'}", f"--gold={tmp_path / 'gold.json.gz'}"]
    table5.main([*words, f"--out={tmp_path / 'out'}", "--dirty"])
    output = capsys.readouterr().out
    assert "| Arithmetic | 2 | 25.00 ± 35.36 | 50.00 | 654 | 36.39 | 69.57 |" in output
    assert "| Count | 1 | 50.00 ± 70.71 | 100.00 | 32 | 43.75 | 43.75 |" in output
    assert "| Multi-span | 0 | – | – | 217 |" in output and "| All | 4 | 50.00 ± 35.36 | 75.00 | 1604 |" in output
    assert (tmp_path / "out" / "table5.md").read_text().strip() in output
    table5.main([*words, f"--out={tmp_path / 'out'}", "--dirty", "--as_published"])
    assert "| Arithmetic | 2 | 50.00 | 50.00 |" in capsys.readouterr().out
    results = json.loads((tmp_path / "out" / "table5.json").read_text())
    assert [one["em"] for one in results["systems"]["ours"]] == [0.75]


def test_systems_on_different_questions_are_not_compared(tmp_path):
    predictions = {uid: ["x", ""] for uid in "abcd"}
    one = write_workdir(tmp_path / "one", predictions)
    lines = (one / "predictions" / "tatqa.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "few.jsonl").write_text("".join(lines[:3]))
    (tmp_path / "other.jsonl").write_text("".join([*lines[:3], lines[2]]))
    for words in (
        [f"ours={one}", f"other={tmp_path / 'few.jsonl'}"],
        [f"ours={one},{tmp_path / 'other.jsonl'}"],
        [f"ours={one},{tmp_path / 'other.jsonl'}", "--as_published"],
    ):
        with pytest.raises(DataError, match="same split") as caught:
            table5.main([*words, f"--out={tmp_path / 'out'}", "--dirty"])
        message = str(caught.value)
        assert str(one) in message and ".jsonl (" in message and "2 arithmetic" in message and "\n" not in message
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["sum", "", None, ["span"]])
def test_unknown_answer_types_are_refused(kind, tmp_path):
    row = {"prediction": {"answer": "x", "scale": ""}}
    row["reference"] = {"answer": ["x"], "answer_type": kind, "scale": ""}
    (tmp_path / "said.jsonl").write_text(json.dumps(row))
    question = {"uid": "u", "answer_type": kind, "answer": ["x"], "scale": ""}
    (tmp_path / "gold.json").write_text(json.dumps([{"questions": [question]}]))
    with pytest.raises(DataError, match=r"said.jsonl:1: answer_type must be one of span, .*, not "):
        table5.load_questions(str(tmp_path / "said.jsonl"), None)
    with pytest.raises(DataError, match=r"gold.json: u: answer_type must be one of span, .*, not "):
        table5.load_gold(str(tmp_path / "gold.json"))


def test_unreadable_files_give_one_line_errors(tmp_path):
    (tmp_path / "bad.jsonl").write_text('{"id": "a"}\n')
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "gold.json").write_text('[{"table": []}]')
    for words, error, message in [
        ([f"a={tmp_path / 'none'}"], DataError, "give a workdir of task=tatqa"),
        ([f"a={tmp_path / 'bad.jsonl'}"], DataError, "bad.jsonl:1: not a prediction of task=tatqa"),
        ([f"a={tmp_path / 'list.json'}"], UsageError, "set --gold"),
        ([f"a={tmp_path / 'list.json'}", f"--gold={tmp_path / 'gold.json'}"], DataError, "not TAT-QA's file"),
        ([f"a={tmp_path / 'empty.jsonl'}"], DataError, "the file is empty"),
        (["runs/a"], UsageError, "give NAME=PATH"),
        ([], UsageError, "--help names the options"),
    ]:
        with pytest.raises(error, match=message) as caught:
            table5.main([*words, "--dirty"])
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        ({"a": "x"}, 'a: must be .answer, scale., not "x"'),
        ({"a": ["x"]}, "a: must be .answer, scale., not"),
        ({"a": ["x", "", 1]}, "a: must be .answer, scale., not"),
        ({"a": {"x": 1, "y": 2}}, "a: must be .answer, scale., not"),
        ({"a": 3}, "a: must be .answer, scale., not 3"),
        ({"a": [{"x": 1}, ""]}, "a: the answer must be texts or a number"),
        ({"a": [[["x"]], ""]}, "a: the answer must be texts or a number"),
        ({"a": ["x", 3]}, "a: the scale must be a text, not 3"),
        ({}, "holds no prediction for a question of --gold"),
        ({"z": ["x", ""]}, "holds no prediction for a question of --gold"),
        ([], "not .uid: .answer, scale.."),
    ],
)
def test_malformed_official_predictions_give_one_line_errors(predictions, message, tmp_path):
    (tmp_path / "said.json").write_text(json.dumps(predictions))
    gold = {uid: table5.AnsweredQuestion(kind, answer, scale) for uid, kind, answer, scale in GOLD}
    with pytest.raises(DataError, match=message) as caught:
        table5.load_questions(str(tmp_path / "said.json"), gold)
    assert "\n" not in str(caught.value)


def test_questions_without_an_answer_and_unknown_ones_are_counted(tmp_path, capsys):
    (tmp_path / "said.json").write_text(json.dumps({"a": [["usa"], ""], "b": [None, ""], "c": None, "y": 1, "z": []}))
    gold = {uid: table5.AnsweredQuestion(kind, answer, scale) for uid, kind, answer, scale in GOLD}
    questions = table5.load_questions(str(tmp_path / "said.json"), gold)
    assert [question.prediction for question in questions] == [["usa"], None, None, None]
    assert capsys.readouterr().err.endswith("said.json: 3 of 4 questions have no answer, 2 uids unknown\n")


def test_the_sample_predictions_score_as_in_the_official_script(real_data):
    folder, reference = real_data("tatqa"), real_data("tatqa_metric_reference")
    gold = table5.load_gold(str(folder / "tatqa_dataset_dev.json.gz"))
    scores = table5.score_questions(table5.load_questions(str(folder / "sample_prediction.json.gz"), gold))
    expected = json.loads((reference / "dev_overall.json").read_text())
    assert scores["count"] == 1668 and scores["em"] == pytest.approx(expected["em"], abs=1e-12)
    for kind, group in expected["per_answer_type"].items():
        assert scores[f"count/{kind}"] == group["n"] and scores[f"em/{kind}"] == pytest.approx(group["em"], abs=1e-12)
