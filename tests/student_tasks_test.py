"""The three tasks on students: layouts, what is read back, metrics, and what a row that is too long loses."""

from __future__ import annotations

import functools
import json
import math
import re
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from numjax import build
from numjax.pipeline import features
from numjax.tasks import answer_scoring, feedback, student_action
from numjax.text import document as documents
from numjax.text import vocab
from numjax.types import Mark, Text

parse = functools.partial(documents.parse, rules="default")


def shown(document) -> str:
    return "|".join(s.name if isinstance(s, Mark) else documents.surface_of(s) for s in document)


def step(step, outcome, action, given, told="") -> dict:
    return {"step": step, "outcome": outcome, "action": action, "input": given, "feedback": told}


HISTORY = [
    step("<m> 2x+3=7 </m>", "BUG", "add", "<m> 3 </m>", "Subtract <m> 3 </m>."),
    step("<m> 2x+3=7 </m>", "OK", "subtract", "<m> 3 </m>"),
    step("<m> 2x=4 </m>", "ERROR", "divide", "<m> 3 </m>", "No."),
    step("<m> 2x=4 </m>", "INITIAL_HINT", "hint", "", "Divide by <m> 2 </m>."),
]
ENTRY = {"id": "e", "problem": "<m> 2x+3=7 </m>", "history": json.dumps(HISTORY)}
ENTRY |= {"outcome": "OK", "action": "divide", "input": "<m> 2 </m>"}


def test_the_layout_of_student_actions():
    """Facts: "Problem: F Solution: ", " Step: F" but after an error, " OUTCOME: ACTION INPUT", " Feedback: T"."""
    example = student_action.Task().example(ENTRY, parse)
    assert shown(example.document) == (
        "[CLS]|Problem: |2 x + 3 = 7| Solution: | Step: |2 x + 3 = 7| BUG: add |3| Feedback: Subtract |3|.|"
        " OK: subtract |3| Step: |2 x = 4| ERROR: divide |3| Feedback: No.|"
        " INITIAL_HINT: hint Feedback: Divide by |2|.| OK: divide |2|[EOS]"
    )
    assert shown(example.document[example.loss_from :]) == " OK: divide |2|[EOS]"
    assert example.reference == {"outcome": "OK", "action": "divide", "input": ["N", "2", None]}
    published = student_action.Task(as_published=True).example(ENTRY, parse)
    assert documents.surface(published.document[:5]) == (
        "Problem:  <m> 2x+3=7 </m>  Solution:  Step:  <m> 2x+3=7 </m> "
    )
    final = ENTRY | {"action": "FinalAnswer", "input": "<m> x=2 </m>"}
    last = student_action.Task().example(final, parse)
    assert shown(last.document[last.loss_from :]) == " OK: as |x = 2|[EOS]"
    assert last.reference["action"] == "FinalAnswer"


def test_what_is_left_out_of_a_history_first():
    task = student_action.Task()
    example = task.example(ENTRY, parse)
    parts = [shown(example.document[a:b]) for a, b in example.spare]
    # The first equation whole, then of the second what was entered before the last entry.
    assert parts == [
        " Step: |2 x + 3 = 7| BUG: add |3| Feedback: Subtract |3|.| OK: subtract |3",
        " ERROR: divide |3| Feedback: No.",
    ]
    backwards = student_action.Task(as_published=True).example(ENTRY, parse)
    ends = [end for _, end in backwards.spare]
    assert ends == list(range(backwards.loss_from, 0, -1))


def test_entries_are_read_back_from_trees_and_from_text():
    task = student_action.Task()
    entries = [
        ENTRY,
        ENTRY | {"action": "FinalAnswer", "input": "<m> x=-5/3 </m>"},
        ENTRY | {"outcome": "INITIAL_HINT", "action": "hint", "input": ""},
        ENTRY | {"outcome": "BUG", "action": "distribute", "input": "<m> -2x+6 </m>"},
        ENTRY | {"input": "two apples"},
    ]
    examples = [task.example(entry, parse) for entry in entries]
    references = [example.reference for example in examples]
    as_trees = [task.predicted(e.document[e.loss_from :]) for e in examples]
    texts = [documents.surface(e.document[e.loss_from : -1]) for e in examples]
    as_text = [task.predicted((*parse(text), Mark("[EOS]"), Text("more"))) for text in texts]
    fenced = [task.predicted(parse(re.sub(r"(divide|as|distribute) (.*)", r"\1 <m> \2 </m>", t))) for t in texts[:4]]
    perfect = dict.fromkeys(("accuracy", "written", "outcome", "action", "input"), 1.0)
    for predictions in (as_trees, as_text, fenced):
        scores = task.score(json.loads(json.dumps(predictions)), references[: len(predictions)])
        assert scores == perfect | {"accuracy_correct": 1.0, "accuracy_incorrect": 1.0}
    assert task.predicted(parse("nothing of the kind")) is None


def test_accuracy_of_triples_by_hand():
    two, three = ["N", "2", None], ["N", "3", None]
    references = [
        {"outcome": "OK", "action": "divide", "input": two},
        {"outcome": "OK", "action": "divide", "input": two},
        {"outcome": "BUG", "action": "divide", "input": two},
        {"outcome": "OK", "action": "add", "input": three},
    ]
    predictions = [
        {"outcome": "OK", "action": "divide", "input": two},
        {"outcome": "BUG", "action": "divide", "input": "2"},
        {"outcome": "OK", "action": "divide", "input": two},
        None,
    ]
    scores = student_action.Task().score(predictions, references)
    assert scores["accuracy"] == 1 / 4 and scores["written"] == 3 / 4
    assert [scores[part] for part in ("outcome", "action", "input")] == [1 / 4, 3 / 4, 3 / 4]
    assert scores["accuracy_correct"] == 1 / 3 and scores["accuracy_incorrect"] == 0
    assert student_action.Task(as_published=True).score(predictions, references)["accuracy"] == 3 / 4


ANSWER = {
    "id": "a",
    "problem": "Solve <m> 2x=4 </m>. Explain.",
    "answer": "I know <m> x=2 </m>",
    "grade": 3,
    "examples": json.dumps([{"answer": "idk", "grade": 0}, {"answer": "<m> x=2 </m>", "grade": 4}]),
}


def test_the_layout_of_answer_scoring():
    example = answer_scoring.Task().example(ANSWER, parse)
    assert shown(example.document) == (
        "[CLS]|Question: |Solve |2 x = 4|. Explain.|[SEP]| Possible scores: Wrong Poor Fair Good Excellent|"
        "[SEP]| Example: idk Score: Wrong|[SEP]| Example: |x = 2| Score: Excellent|"
        "[SEP]| Score this answer: |I know |x = 2|[EOS]"
    )
    assert example.labels == {"label": 3}
    parts = [shown(example.document[a:b]) for a, b in example.spare]
    assert parts == [
        "[SEP]| Example: |x = 2| Score: Excellent",
        "[SEP]| Example: idk Score: Wrong",
        *(". Explain.", "2 x = 4", "Solve "),
        *("x = 2", "I know "),
    ]
    published = answer_scoring.Task(as_published=True).example(ANSWER, parse)
    assert not any(isinstance(segment, Mark) for segment in published.document)
    assert documents.surface(published.document) == (
        "Question: Solve  <m> 2x=4 </m> . Explain. [SEP] Possible scores: Wrong Poor Fair Good Excellent"
        " [SEP] Example: idk Score: Wrong [SEP] Example:  <m> x=2 </m>  Score: Excellent"
        " [SEP] Score this answer: I know  <m> x=2 </m>  [CLS]"
    )


def test_scoring_metrics_by_hand():
    gold, found = [0, 0, 1, 1, 2, 4], [0, 1, 1, 1, 2, 2]
    references = [{"label": label} for label in gold]
    rng = np.random.default_rng(0)
    log_probs = np.log(rng.dirichlet(np.ones(5), 6).round(1) + 0.01)  # with ties
    scores = answer_scoring.Task().score(found, references, log_probs)
    assert scores["accuracy"] == 4 / 6 and scores["RMSE"] == pytest.approx(math.sqrt(5 / 6))
    assert scores["F1"] == pytest.approx((2 / 3 + 4 / 5 + 2 / 3 + 0) / 4)
    assert scores["kappa"] == pytest.approx((24 - 10) / (36 - 10))
    areas = []
    for label in (0, 1, 2, 4):  # nobody has a 3
        mine = [log_probs[i, label] for i in range(6) if gold[i] == label]
        others = [log_probs[i, label] for i in range(6) if gold[i] != label]
        areas.append(np.mean([(a > b) + (a == b) / 2 for a in mine for b in others]))
    assert scores["AUC"] == pytest.approx(np.mean(areas))
    assert "AUC" not in answer_scoring.Task().score(found, references)
    assert answer_scoring.Task().score([1, 1], [{"label": 1}] * 2) == {"accuracy": 1.0, "F1": 1.0, "RMSE": 0.0}


SAID = {
    "id": "f",
    "problem": "Solve <m> 3x=9 </m>",
    "answer": "<m> 27 </m>",
    "feedback": "Divide by <m> 3x/x </m>, don't.",
}


def test_the_layout_of_feedback():
    task = feedback.Task()
    example = task.example(SAID, parse)
    assert shown(example.document) == (
        "[CLS]|Question: |Solve |3 x = 9|[SEP]| Answer: |27|[SEP]| Feedback: |"
        r"Divide by |\frac{3 x}{x}|, don't.|[EOS]"
    )
    assert shown(example.document[example.loss_from :]).startswith("Divide")
    assert [shown(example.document[a:b]) for a, b in example.spare] == ["3 x = 9", "Solve "]
    assert example.reference == {"feedback": r"Divide by \frac { 3 x } { x } , don't ."}
    assert task.predicted(example.document[example.loss_from :]) == example.reference["feedback"]
    published = feedback.Task(as_published=True).example(SAID, parse)
    assert documents.surface(published.document[: published.loss_from]) == (
        "Question: Solve  <m> 3x=9 </m>  [SEP] Answer:  <m> 27 </m>  [SEP] Feedback: "
    )
    assert task.predicted(parse("Divide by <m> 3x/x </m>, don't.")) == example.reference["feedback"]


def test_feedback_scores():
    task, said = feedback.Task(), ["a b c d e", "x"]
    references = [{"feedback": text} for text in said]
    perfect = task.score(said, references)
    assert perfect["exact"] == 1 and perfect["BLEU-4"] == pytest.approx(1) and perfect["ROUGE-L"] == 1
    none = task.score([None, ""], references)
    assert none["exact"] == 0 and none["ROUGE-L"] == 0


# ---------------------------------------------------------------------------------------------------
# What is too long.


def test_rows_lose_what_a_task_can_spare(tmp_path):
    texts = list(student_action.Task().texts([ENTRY])) * 4
    scheme = build.find("text", "trees")(vocab.build({"name": "sentencepiece", "size": 400}, texts))
    task: Any = student_action.Task()
    say: Any = feedback.Task()
    options = {"length": 1000, "overflow": "shorten", "reserve": 60, "digits": 6, "pack": False}

    class Options(SimpleNamespace):
        def get(self, name, default=None):
            return getattr(self, name, default)

    def rows(**changes):
        return features.encode(task, scheme, [ENTRY], Options(**options | changes), "train")

    (whole,) = rows().rows
    example = task.example(ENTRY, parse)
    found = scheme.encode(example.document)
    first = found.starts[example.spare[0][1]] - found.starts[example.spare[0][0]]
    (cut,) = rows(length=whole.loss_from - 2 + 60).rows
    assert (
        len(cut.ids) == len(whole.ids) - first
        and cut.ids[cut.loss_from :].tolist() == whole.ids[whole.loss_from :].tolist()
    )
    kept = scheme.decode(cut.ids)
    start, stop = example.spare[0]
    assert kept == documents.merge((*example.document[:start], *example.document[stop:]))
    states = scheme.encode(kept).grammar_state
    np.testing.assert_array_equal(cut.grammar_state, states[: len(cut.ids)])
    lost = rows(length=65)
    assert len(lost) == 0 and "no more than 5 fit" in lost.skipped[0]["reason"]
    # One text alone loses only as many positions as need be, from its end.
    (shorter,) = features.encode(say, scheme, [SAID], Options(**options), "train").rows
    spare = say.example(SAID, parse).spare
    room = shorter.loss_from - 13 + 60
    (cut,) = features.encode(say, scheme, [SAID], Options(**options | {"length": room}), "train").rows
    begun = documents.surface(scheme.decode(cut.ids))
    assert len(spare) == 2 and "[SEP]" in begun and "Divide by" in begun and "Solve" in begun


# ---------------------------------------------------------------------------------------------------
# Tables.


def test_tables_stand_beside_the_papers_figures(tmp_path, monkeypatch):
    from numjax.bundled.experiments import runs
    from numjax.bundled.experiments.mathgpt import feedback as of_feedback
    from numjax.bundled.experiments.mathgpt import table4, table9

    seen = []

    def train(system, data, folder, seed, compiled=None, note=None):
        config = json.loads((folder.parent / "config.json").read_text())
        seen.append(
            (config["task"]["name"], config["task"]["fold"], config["scheme"]["name"], sorted(config["heads"]))
        )
        return {"test": {"accuracy": 0.5 + seed / 10, "AUC": 0.9, "BLEU-4": 0.25}}, "compiled"

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, place: None)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    monkeypatch.setattr(runs, "cell_folder", lambda cell, out: out / "runs" / cell.task / cell.system)
    for main in (table4.main, table9.main, of_feedback.main):
        main(["--scale=smoke", f"--out={tmp_path}"])
    schemes = ("subword", "trees")
    assert seen == [
        (task, fold, scheme, heads)
        for task, heads in (("student_action", ["next"]), ("answer_scoring", ["label"]), ("feedback", ["next"]))
        for fold in (0, 1)
        for scheme in schemes
    ]
    entries = {
        (e["row"], e["column"]): e for e in json.loads((tmp_path / "table4.json").read_text())["tables"]["table4"]
    }
    assert entries["GPT-2 Wiki", "Accuracy"]["paper"] == {"mean": 40.3, "std": 1.2}
    assert entries["MathGPT", "when right"]["paper"] == {"mean": 63.5, "std": None}
    assert entries["MathGPT", "Accuracy"]["here"]["mean"] == pytest.approx(55)
    assert "not comparable" in (tmp_path / "table4.md").read_text()
    assert "| BERT | – | – " in (tmp_path / "table9.md").read_text()
