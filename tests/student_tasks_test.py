"""The three tasks on students: layouts, parsed predictions, metrics, and how rows that are too long are shortened."""

from __future__ import annotations

import functools
import json
import math
import re
from types import SimpleNamespace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from ml_collections import ConfigDict

from numjax import build
from numjax.pipeline import features
from numjax.tasks import answer_scoring, feedback, student_action
from numjax.text import document as documents
from numjax.text import vocab
from numjax.types import Mark, Text

parse = functools.partial(documents.parse, rules="default")


def join_segments(document) -> str:
    return "|".join(s.name if isinstance(s, Mark) else documents.surface_of(s) for s in document)


def make_step(equation, outcome, action, entry, reply="") -> dict:
    return {"step": equation, "outcome": outcome, "action": action, "input": entry, "feedback": reply}


HISTORY = [
    make_step("<m> 2x+3=7 </m>", "BUG", "add", "<m> 3 </m>", "Subtract <m> 3 </m>."),
    make_step("<m> 2x+3=7 </m>", "OK", "subtract", "<m> 3 </m>"),
    make_step("<m> 2x=4 </m>", "ERROR", "divide", "<m> 3 </m>", "No."),
    make_step("<m> 2x=4 </m>", "INITIAL_HINT", "hint", "", "Divide by <m> 2 </m>."),
]
ENTRY = {"id": "e", "problem": "<m> 2x+3=7 </m>", "history": json.dumps(HISTORY)}
ENTRY |= {"outcome": "OK", "action": "divide", "input": "<m> 2 </m>"}


def test_the_layout_of_student_actions():
    """Facts: "Problem: F Solution: ", " Step: F" but after an error, " OUTCOME: ACTION INPUT", " Feedback: T"."""
    example = student_action.Task().example(ENTRY, parse)
    assert join_segments(example.document) == (
        "[CLS]|Problem: |2 x + 3 = 7| Solution: | Step: |2 x + 3 = 7| BUG: add |3| Feedback: Subtract |3|.|"
        " OK: subtract |3| Step: |2 x = 4| ERROR: divide |3| Feedback: No.|"
        " INITIAL_HINT: hint Feedback: Divide by |2|.| OK: divide |2|[EOS]"
    )
    assert join_segments(example.document[example.loss_from :]) == " OK: divide |2|[EOS]"
    assert example.reference == {"outcome": "OK", "action": "divide", "input": ["N", "2", None]}
    published = student_action.Task(as_published=True).example(ENTRY, parse)
    assert documents.surface(published.document[:5]) == (
        "Problem:  <m> 2x+3=7 </m>  Solution:  Step:  <m> 2x+3=7 </m> "
    )
    final = ENTRY | {"action": "FinalAnswer", "input": "<m> x=2 </m>"}
    last = student_action.Task().example(final, parse)
    assert join_segments(last.document[last.loss_from :]) == " OK: as |x = 2|[EOS]"
    assert last.reference["action"] == "FinalAnswer"


def test_the_order_in_which_a_history_is_shortened():
    task = student_action.Task()
    example = task.example(ENTRY, parse)
    parts = [join_segments(example.document[a:b]) for a, b in example.spare]
    # First the whole first equation, then the entries of the second before the last one.
    assert parts == [
        " Step: |2 x + 3 = 7| BUG: add |3| Feedback: Subtract |3|.| OK: subtract |3",
        " ERROR: divide |3| Feedback: No.",
    ]
    published = student_action.Task(as_published=True).example(ENTRY, parse)
    ends = [end for _, end in published.spare]
    assert ends == list(range(published.loss_from, 0, -1))


def test_entries_are_parsed_from_trees_and_from_text():
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
    tree_predictions = [task.predicted(e.document[e.loss_from :]) for e in examples]
    texts = [documents.surface(e.document[e.loss_from : -1]) for e in examples]
    text_predictions = [task.predicted((*parse(text), Mark("[EOS]"), Text("more"))) for text in texts]
    fenced_predictions = [
        task.predicted(parse(re.sub(r"(divide|as|distribute) (.*)", r"\1 <m> \2 </m>", t))) for t in texts[:4]
    ]
    perfect = dict.fromkeys(("accuracy", "written", "outcome", "action", "input"), 1.0)
    for predictions in (tree_predictions, text_predictions, fenced_predictions):
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
    assert join_segments(example.document) == (
        "[CLS]|Question: |Solve |2 x = 4|. Explain.|[SEP]| Possible scores: Wrong Poor Fair Good Excellent|"
        "[SEP]| Example: idk Score: Wrong|[SEP]| Example: |x = 2| Score: Excellent|"
        "[SEP]| Score this answer: |I know |x = 2|[EOS]"
    )
    assert example.labels == {"label": 3}
    parts = [join_segments(example.document[a:b]) for a, b in example.spare]
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
    labels, predictions = [0, 0, 1, 1, 2, 4], [0, 1, 1, 1, 2, 2]
    references = [{"label": label} for label in labels]
    rng = np.random.default_rng(0)
    log_probs = np.log(rng.dirichlet(np.ones(5), 6).round(1) + 0.01)  # with ties
    scores = answer_scoring.Task().score(predictions, references, log_probs)
    assert scores["accuracy"] == 4 / 6 and scores["RMSE"] == pytest.approx(math.sqrt(5 / 6))
    assert scores["F1"] == pytest.approx((2 / 3 + 4 / 5 + 2 / 3 + 0) / 4)
    assert scores["kappa"] == pytest.approx((24 - 10) / (36 - 10))
    areas = []
    for label in (0, 1, 2, 4):  # nobody has a 3
        positives = [log_probs[i, label] for i in range(6) if labels[i] == label]
        negatives = [log_probs[i, label] for i in range(6) if labels[i] != label]
        areas.append(np.mean([(a > b) + (a == b) / 2 for a in positives for b in negatives]))
    assert scores["AUC"] == pytest.approx(np.mean(areas))
    assert "AUC" not in answer_scoring.Task().score(predictions, references)
    assert answer_scoring.Task().score([1, 1], [{"label": 1}] * 2) == {"accuracy": 1.0, "F1": 1.0, "RMSE": 0.0}


FEEDBACK_RECORD = {
    "id": "f",
    "problem": "Solve <m> 3x=9 </m>",
    "answer": "<m> 27 </m>",
    "feedback": "Divide by <m> 3x/x </m>, don't.",
}


def test_the_layout_of_feedback():
    task = feedback.Task()
    example = task.example(FEEDBACK_RECORD, parse)
    assert join_segments(example.document) == (
        "[CLS]|Question: |Solve |3 x = 9|[SEP]| Answer: |27|[SEP]| Feedback: |"
        r"Divide by |\frac{3 x}{x}|, don't.|[EOS]"
    )
    assert join_segments(example.document[example.loss_from :]).startswith("Divide")
    assert [join_segments(example.document[a:b]) for a, b in example.spare] == ["3 x = 9", "Solve "]
    assert example.reference == {"feedback": r"Divide by \frac { 3 x } { x } , don't ."}
    assert task.predicted(example.document[example.loss_from :]) == example.reference["feedback"]
    published = feedback.Task(as_published=True).example(FEEDBACK_RECORD, parse)
    assert documents.surface(published.document[: published.loss_from]) == (
        "Question: Solve  <m> 3x=9 </m>  [SEP] Answer:  <m> 27 </m>  [SEP] Feedback: "
    )
    assert task.predicted(parse("Divide by <m> 3x/x </m>, don't.")) == example.reference["feedback"]


def test_feedback_scores():
    task, texts = feedback.Task(), ["a b c d e", "x"]
    references = [{"feedback": text} for text in texts]
    perfect_scores = task.score(texts, references)
    assert (
        perfect_scores["exact"] == 1
        and perfect_scores["BLEU-4"] == pytest.approx(1)
        and perfect_scores["ROUGE-L"] == 1
    )
    empty_scores = task.score([None, ""], references)
    assert empty_scores["exact"] == 0 and empty_scores["ROUGE-L"] == 0


# ---------------------------------------------------------------------------------------------------
# Rows that are too long.


def test_long_rows_lose_the_spare_parts_of_their_task(tmp_path):
    texts = list(student_action.Task().texts([ENTRY])) * 4
    scheme = build.find("text", "trees")(vocab.build({"name": "sentencepiece", "size": 400}, texts))
    task: Any = student_action.Task()
    feedback_task: Any = feedback.Task()
    options = {"length": 1000, "overflow": "shorten", "reserve": 60, "digits": 6, "pack": False}

    class ShorteningOptions(SimpleNamespace):
        def get(self, name, default=None):
            return getattr(self, name, default)

    def encode_rows(**changes):
        return features.encode(task, scheme, [ENTRY], ShorteningOptions(**options | changes), "train")

    (whole_row,) = encode_rows().rows
    example = task.example(ENTRY, parse)
    encoded = scheme.encode(example.document)
    first_length = encoded.starts[example.spare[0][1]] - encoded.starts[example.spare[0][0]]
    (short_row,) = encode_rows(length=whole_row.loss_from - 2 + 60).rows
    assert (
        len(short_row.ids) == len(whole_row.ids) - first_length
        and short_row.ids[short_row.loss_from :].tolist() == whole_row.ids[whole_row.loss_from :].tolist()
    )
    document = scheme.decode(short_row.ids)
    start, stop = example.spare[0]
    assert document == documents.merge((*example.document[:start], *example.document[stop:]))
    states = scheme.encode(document).grammar_state
    np.testing.assert_array_equal(short_row.grammar_state, states[: len(short_row.ids)])
    no_rows = encode_rows(length=65)
    assert len(no_rows) == 0 and "no more than 5 fit" in no_rows.skipped[0]["reason"]
    # A single text loses only as many positions as necessary, from its end.
    (feedback_row,) = features.encode(
        feedback_task, scheme, [FEEDBACK_RECORD], ShorteningOptions(**options), "train"
    ).rows
    spare = feedback_task.example(FEEDBACK_RECORD, parse).spare
    length = feedback_row.loss_from - 13 + 60
    (short_row,) = features.encode(
        feedback_task, scheme, [FEEDBACK_RECORD], ShorteningOptions(**options | {"length": length}), "train"
    ).rows
    surface = documents.surface(scheme.decode(short_row.ids))
    assert len(spare) == 2 and "[SEP]" in surface and "Divide by" in surface and "Solve" in surface


QUESTION = {
    "id": "a",
    "problem": "We have 11 and 22 and 33 and 4400 and 55 pens. How many pens do 66 and 77 make?",
    "answer": "143",
    "feedback": "No, 66 and 77 are 143",
}


def encode_shortened(scheme, length: int, producers=()):
    options = ConfigDict(dict(length=length, overflow="shorten", reserve=60, digits=20, pack=False))
    return features.encode(feedback.Task(), scheme, [QUESTION], options, "train", producers=producers)


def build_scheme(name: str, **options):
    texts = list(QUESTION.values()) * 20
    vocabulary = vocab.build({"name": "sentencepiece", "size": 330, "split_digits": True}, texts)
    return build.build("text", {"name": name, **options}, vocab=vocabulary)


def test_numbers_of_a_shortened_row_are_counted_as_in_the_decoder():
    """The decoder reads what is left of the prompt, so training counts no number that is cut away."""
    scheme = build_scheme("limbs", size=1)
    marks = tuple((name, scheme.vocab.mark(name)) for name in scheme.vocab.marks)
    (power,) = build.build("positions", {"name": "limbs", "numbers": 8}, marks=marks, stack=None).producers()
    encoded = encode_shortened(scheme, 120, [power])
    (row,) = encoded.rows
    assert encoded.shortened
    state, values = power.begin(1), []
    for token in row.ids.tolist():
        state, value = power.step(state, jnp.asarray([token]), None)
        values.append(np.asarray(value)[0])
    np.testing.assert_array_equal(row.channels["limb_power"], np.stack(values))
    assert np.stack(values)[row.loss_from :, 1].max() > 1


@pytest.mark.parametrize(("name", "options"), [("trees", {"pointers": 12, "rules": "words"}), ("bins", {})])
def test_a_row_that_loses_numbers_which_its_answer_needs_is_left_out(name, options):
    scheme = build_scheme(name, **options)
    (row,) = encode_shortened(scheme, 500).rows
    # Words may be cut, and numbers may not.
    assert len(encode_shortened(scheme, row.loss_from - 2 + 60)) == 1
    encoded = encode_shortened(scheme, row.loss_from - 30 + 60)
    assert len(encoded) == 0 and "depends on numbers that would be cut off" in encoded.skipped[0]["reason"]


# ---------------------------------------------------------------------------------------------------
# Tables.


def test_tables_show_results_beside_the_papers_figures(tmp_path, monkeypatch):
    from numjax.bundled.experiments import runs
    from numjax.bundled.experiments.mathgpt import feedback as feedback_table
    from numjax.bundled.experiments.mathgpt import table4, table9

    configs = []

    def train(system, data, folder, seed, score, compiled=None, note=None):
        config = json.loads((folder.parent / "config.json").read_text())
        configs.append(
            (config["task"]["name"], config["task"]["fold"], config["scheme"]["name"], sorted(config["heads"]))
        )
        return {"test": {"accuracy": 0.5 + seed / 10, "AUC": 0.9, "BLEU-4": 0.25}}, "compiled"

    monkeypatch.setattr(runs, "train", train)
    monkeypatch.setattr(runs, "assemble", lambda config, workdir: None)
    monkeypatch.setattr(runs, "load_data", lambda *args, **kwargs: None)
    monkeypatch.setattr(runs, "cell_folder", lambda cell, out: out / "runs" / cell.task / cell.system)
    for main in (table4.main, table9.main, feedback_table.main):
        main(["--scale=smoke", f"--out={tmp_path}"])
    schemes = ("subword", "trees")
    assert configs == [
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
