"""Tasks: their examples, the records that they refuse, and their metrics against independent formulas."""

from __future__ import annotations

import collections
import functools
import gzip
import json
import math
import random
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numjax import build, protocols
from numjax.errors import DataError, UsageError
from numjax.pipeline import features, source
from numjax.tasks import generation, language_model, magnitude, statement
from numjax.text import document as documents
from numjax.text import vocab
from numjax.types import Mark, Number

parse = functools.partial(documents.parse, rules="default")
MAGNITUDE = {
    "id": "m",
    "text": "Shares fell 1,200 points",
    "number": "1,200",
    "offset": 12,
    "length": 5,
    "magnitude": 4,
    "label": 4,
}
RECORDS = {
    "statement": {"id": "s", "question": "How many grams are 2 eggs?", "answer": "80", "label": 1},
    "generation": {"id": "g", "prompt": "Q: 7 eggs and 8 eggs? A:", "answer": "15"},
    "magnitude": MAGNITUDE,
    "arithmetic": {
        "id": "a",
        "question": "12 + 34 =",
        "answer": "46",
        "accepted": "46",
        "operation": "add",
        "stream": "same",
    },
    "language_model": {"id": "t", "text": "In 2019 it was 3.5%."},
    "equation_extraction": {
        "id": "e",
        "text_en": "A road of 7 meters and one of 8 %",
        "equation": "x = 7 * ( 1 - 8 % )",
        "ans": "6.44",
    },
    "headline": {
        "id": "h",
        "post": "i know that <m> x ^ 2 > 1 2 </m> . why is <m> ( </m> 3 here ?",
        "prefix": "",
        "headline": "on <m> x ^ { 2 } > 12 </m> and 3 others",
    },
    "student_action": {
        "id": "c",
        "problem": "<m> 2x=4 </m>",
        "history": json.dumps(
            [
                {
                    "step": "<m> 2x=4 </m>",
                    "action": "add",
                    "input": "<m> 2 </m>",
                    "outcome": "BUG",
                    "feedback": "No, 3 .",
                }
            ]
        ),
        "outcome": "OK",
        "action": "divide",
        "input": "<m> 2 </m>",
    },
    "answer_scoring": {
        "id": "a",
        "problem": "Solve <m> 2x=4 </m> in 3 steps .",
        "answer": "it is <m> x=2 </m>",
        "grade": 3,
        "examples": json.dumps([{"answer": "it is <m> x=2 </m>", "grade": 4}]),
    },
    "feedback": {
        "id": "f",
        "problem": "Solve <m> 2x=4 </m> .",
        "answer": "<m> 8 </m>",
        "feedback": "Divide by <m> 2 </m> .",
    },
    "articles": {
        "id": "a",
        "text": "In 2019 [_mathGPT_formula_] was 3.5.",
        "formulas": '{"0": {"opt": ["V", "x", null], "tex": "x"}}',
    },
    "solving": {"id": "p", "problem": "What is 2 + 3?", "solution": "Adding, 2 + 3 = 5.", "answer": "5"},
    "span_answer": {
        "id": "q",
        "question": "When did it open?",
        "context": "The school opened in 1909, with 20 pupils.",
        "answer": "1909",
        "answer_start": 21,
        "answers": '["1909", "in 1909"]',
    },
    "tatqa": {
        "id": "t",
        "question": "What was the change in sales from 2018 to 2019?",
        "table": json.dumps([["", "2019", "2018"], ["Sales", "$ 1,200.5", "(900)"]]),
        "paragraphs": json.dumps(["Sales rose by 5%, as planned."]),
        "answer": "2100.5",
        "derivation": "1,200.5-(-900)",
        "answer_type": "arithmetic",
        "answer_from": "table",
        "scale": "million",
        "rel_paragraphs": "[]",
    },
    "tabfact": {
        "id": "t",
        "statement": "barton have 12 points",
        "table": '[["club", "points"], ["barton", "1,200"], ["fenham", "3.5"]]',
        "label": 1,
        "kind": "complex",
    },
    "claims": {
        "id": "t",
        "statement": "barton have 1,200 points",
        "table": '[["club", "points"], ["barton", "1,200"], ["fenham", "3.5"]]',
        "label": 1,
        "kind": "simple",
        "evidence": json.dumps(
            {"operation": "EQUAL", "denied": False, "first": [[1, 1]], "second": [], "claimed": [12, 17], "limit": []}
        ),
    },
    "table_text": {
        "id": "m",
        "text": "Eggs cost 3.25 in 2019.",
        "table": '[["year", "eggs"], ["2019", "1,200"], ["2020", "50%"]]',
    },
    "word_problem": {"id": "w", "question": "Nora had 8 stamps and bought 7 more.", "answer": "15"},
    "span_corruption": {"id": "s", "kind": "sum", "question": "Add 8 and 7 .", "answer": "15"},
}
CELLS = ["7", "1", "1030861260", "-134.09", "Swipe Transaction", "35272", "La Verne", "CA", "91750.0", "5300", ""]
RECORDS["transactions"] = {"id": "c", "rows": json.dumps([CELLS] * 10)}
RECORDS["fraud"] = RECORDS["transactions"] | {"label": 1}
ROWS = ("transactions", "fraud")  # rows of a table, without marks around them
OPTIONS = {"language_model": {"path": "unused"}}


def make_task(name: str):
    return build.build("tasks", {"name": name} | OPTIONS.get(name, {}))


def join_segments(document) -> str:
    """Returns a document with its marks, joined by bars."""
    return "|".join(s.name if isinstance(s, Mark) else documents.surface_of(s) for s in document)


# ---------------------------------------------------------------------------------------------------
# Rules for all tasks.


@pytest.fixture(params=build.names("tasks"))
def name(request):
    return request.param


def test_every_task_names_its_kind_metric_dataset_and_parts(name):
    task = make_task(name)
    kinds = ("language_model", "masked", "classify", "span", "units")
    assert task.kind in kinds and task.metric.lstrip("-")
    assert task.dataset["name"] in source._open(task.dataset)[0].list_names()
    for kind, parts in task.needs.items():
        assert set(parts) <= set(build.names(kind))


def test_every_task_has_an_example_of_each_record(name):
    task, record = make_task(name), RECORDS[name]
    example = task.example(record, parse)
    assert example.id == record["id"]
    last = Mark("[SEP]") if task.kind in ("span", "units", "masked") or name == "tabfact" else Mark("[EOS]")
    assert name in ROWS or (example.document[0] == Mark("[CLS]") and example.document[-1] == last)
    assert 0 <= example.loss_from < len(example.document)
    json.dumps(example.reference)
    second = task.example(dict(record), parse)
    for name in example.labels:
        np.testing.assert_array_equal(second.labels[name], example.labels[name])
    assert second._replace(labels={}) == example._replace(labels={})


def test_every_missing_field_is_named(name):
    task, named_fields = make_task(name), set()
    for field in RECORDS[name]:
        record = {k: v for k, v in RECORDS[name].items() if k != field}
        try:
            task.example(record, parse)
        except DataError as error:
            assert repr(field) in str(error) or "prompt" in field
            assert "\n" not in str(error)
            named_fields.add(field)
        except KeyError:
            assert field == "id"
    required_fields = {
        "statement": {"question", "label"},
        "generation": {"prompt", "answer"},
        "arithmetic": {"question", "answer", "accepted", "operation", "stream"},
        "equation_extraction": {"text_en", "equation", "ans"},
        "headline": {"post", "prefix", "headline"},
        "student_action": {"problem", "history", "outcome", "action", "input"},
        "answer_scoring": {"problem", "answer", "grade", "examples"},
        "feedback": {"problem", "answer", "feedback"},
        "articles": {"text", "formulas"},
        "solving": {"problem", "solution", "answer"},
        "span_answer": {"question", "context", "answer", "answer_start"},
        "tabfact": {"statement", "table", "label", "kind"},
        "claims": {"statement", "table", "label", "kind", "evidence"},
        "table_text": {"text", "table"},
        "transactions": {"rows"},
        "fraud": {"rows", "label"},
        "word_problem": {"question", "answer"},
        "span_corruption": {"kind", "question", "answer"},
        "tatqa": set(RECORDS["tatqa"]) - {"id", "paragraphs"},  # paragraphs are optional
    }
    assert named_fields >= required_fields.get(name, {"text"})


def test_fields_of_the_wrong_kind_are_named(name):
    task = make_task(name)
    for field, value in RECORDS[name].items():
        if field in ("id", "magnitude", "a", "b"):
            continue
        for bad in (None, [1], 3.5, b"80") if isinstance(value, str) else (None, "4", 99, -1, 0.5):
            with pytest.raises(DataError):
                task.example(RECORDS[name] | {field: bad}, parse)


def test_records_to_predict_may_lack_only_the_answer(name):
    task = make_task(name)
    unanswered = task.unanswered
    record = {k: v for k, v in RECORDS[name].items() if k not in unanswered}
    task.example(unanswered | record, parse)
    for field in unanswered:
        with pytest.raises(DataError, match=field):
            task.example({k: v for k, v in unanswered.items() if k != field} | record, parse)


def test_vocabulary_texts_hold_all_texts_of_the_examples(name):
    task, record = make_task(name), RECORDS[name]
    text = " ".join(task.texts([record]))
    example = task.example(record, parse)
    for segment in (*example.document, *(example.source or ())):
        if not isinstance(segment, Mark):
            assert documents.surface_of(segment).strip() in text


# ---------------------------------------------------------------------------------------------------
# Statements.


def test_statements_are_pairs_or_sentences():
    task = statement.Task("mme")
    assert join_segments(task.example(RECORDS["statement"], parse).document) == (
        "[CLS]|How many grams are |2| eggs?|[SEP]|80|[EOS]"
    )
    sentence = {"id": 1, "question": "A 7 year old is younger than 9.", "label": False}
    example = statement.Task("gnc").example(sentence, parse)
    assert join_segments(example.document) == "[CLS]|A |7| year old is younger than |9|.|[EOS]"
    assert example.labels == {"label": 0} and example.id == "1"
    with pytest.raises(DataError, match="'answer'"):
        task.example(RECORDS["statement"] | {"answer": " "}, parse)


def test_accuracy_by_kind_and_the_majority(rng):
    task = statement.Task("mwpas")
    labels, predictions = rng.integers(0, 2, 57), rng.integers(0, 2, 57)
    kinds = rng.choice(["positive", "near", "digit"], 57)
    scores = task.score(
        predictions.tolist(), [{"label": int(g), "kind": str(k)} for g, k in zip(labels, kinds, strict=True)]
    )
    assert scores["accuracy"] == pytest.approx(np.mean(labels == predictions))
    assert scores["majority"] == pytest.approx(max(np.mean(labels), 1 - np.mean(labels)))
    for kind in ("positive", "near", "digit"):
        assert scores[f"accuracy_{kind}"] == pytest.approx(np.mean((labels == predictions)[kinds == kind]))
    scores_without_kinds = task.score([1, 0], [{"label": 1, "kind": ""}, {"label": 1, "kind": ""}])
    assert scores_without_kinds == {"accuracy": 0.5, "majority": 1.0}


# ---------------------------------------------------------------------------------------------------
# Generation.


def test_only_the_answer_and_the_end_are_scored():
    task = generation.Task()
    example = task.example(RECORDS["generation"], parse)
    assert join_segments(example.document) == "[CLS]|Q: |7| eggs and |8| eggs? A:| |15|[EOS]"
    assert join_segments(example.document[example.loss_from :]) == " |15|[EOS]"
    assert task.prompt(RECORDS["generation"], parse) == example.document[: example.loss_from]
    question_record = {"id": "x", "question": "7 eggs and 8 eggs?", "answer": "15"}
    assert task.example(question_record, parse).document == example.document
    for bad in ("twelve", "12 eggs", "0", "-3", ""):
        with pytest.raises(DataError):
            task.example(RECORDS["generation"] | {"answer": bad}, parse)


def score_by_digits(predictions, answers):
    """Returns the metrics from the digits of strings and math.log10, without Decimal."""

    def compute_log10(text):
        digits = text.replace(".", "").lstrip("0")
        significand = float(f"{digits[0]}.{digits[1:]}")
        return compute_exponent(text) + math.log10(significand)

    def compute_exponent(text):
        integer_part, _, decimals = text.partition(".")
        if integer_part.strip("0"):
            return len(integer_part.lstrip("0")) - 1
        return -(len(decimals) - len(decimals.lstrip("0"))) - 1

    numbers = [p for p in predictions if p is not None]
    valid = [
        (p, y)
        for p, y in zip(predictions, answers, strict=True)
        if p is not None and not p.startswith("-") and p.strip("0.")
    ]
    errors = [abs(compute_log10(p) - compute_log10(y)) for p, y in valid]
    hits = [compute_exponent(p) == compute_exponent(y) for p, y in valid]
    unanswered = collections.Counter(answers) - collections.Counter(y for _, y in valid)
    return {
        "NGR": len(numbers) / len(answers),
        "n_valid": len(valid),
        "LMAE": np.mean(errors),
        "E_Acc": np.mean(hits),
        "LMAE_penalised": (sum(errors) + sum(compute_log10(y) for y in unanswered.elements())) / len(answers),
        "E_Acc_penalised": sum(hits) / len(answers),
    }


plain_numbers = st.decimals(min_value=Decimal("0.0001"), max_value=10**7, places=4).map(lambda d: f"{d:f}")
predicted_numbers = st.one_of(
    st.none(), plain_numbers, st.sampled_from(["0", "-3", "0.000", "999.9999", "1000", "0.1", "10000"])
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(predicted_numbers, st.integers(1, 10**7).map(str)), min_size=1, max_size=12))
def test_generation_metrics_agree_with_a_computation_on_digits(pairs):
    predictions, answers = [p for p, _ in pairs], [y for _, y in pairs]
    scores = generation.Task().score(predictions, [{"answer": y} for y in answers])
    expected = score_by_digits(
        [*predictions, "1"], [*answers, "1"]
    )  # one valid pair, so that there is a mean to compare
    more_scores = generation.Task().score([*predictions, "1"], [{"answer": y} for y in [*answers, "1"]])
    assert {k: more_scores[k] for k in expected} == pytest.approx(expected, abs=1e-9)
    assert ("LMAE" in scores) == ("E_Acc" in scores) == (scores["n_valid"] > 0)


def test_exponents_are_right_where_floats_are_not():
    """log10 of float32(10^k) falls short of k for many k; the exponent of the digits does not."""
    task = generation.Task()
    for k in range(-30, 31):
        answer = {"answer": f"1E{k}"}
        assert task.score([f"1E{k}"], [answer])["E_Acc"] == 1
        assert task.score([Decimal(f"9.99999999999999999999E{k - 1}")], [answer])["E_Acc"] == 0
    # A double cannot tell these two apart.
    assert task.score(["0." + "9" * 40], [{"answer": "1"}])["E_Acc"] == 0
    huge = task.score(["1E400"], [{"answer": "1E397"}])
    assert huge["LMAE"] == pytest.approx(3) and huge["E_Acc"] == 0


def test_texts_that_are_no_numbers_count_as_none():
    scores = generation.Task().score([None, "eggs", "nan", "-Infinity", "-5", "0", "100"], [{"answer": "100"}] * 7)
    assert scores["NGR"] == 3 / 7 and scores["n_valid"] == 1 and scores["LMAE"] == 0 and scores["E_Acc"] == 1
    assert scores["E_Acc_penalised"] == 1 / 7 and scores["LMAE_penalised"] == pytest.approx(6 * 2 / 7)
    assert scores["exact"] == 1 / 7


def test_exact_is_equality_after_rounding_to_the_answers_decimals():
    task = generation.Task()
    score_of = {
        "12345": 1,
        "12345.4": 1,
        "12345.6": 0,
        "12345.0000": 1,
        "1.2345E4": 1,
        "123450": 0,
        "1E99999": 0,
        "-12345": 0,
    }
    for prediction, score in score_of.items():
        assert task.score([prediction], [{"answer": "12345"}])["exact"] == score, prediction


# ---------------------------------------------------------------------------------------------------
# Magnitudes.


def test_answers_of_any_length_are_rounded_to():
    long = "1." + "0" * 300
    assert generation.rounds_to(Decimal(1), Decimal(long)) and generation.rounds_to(Decimal(long + "4"), Decimal(1))
    assert not generation.rounds_to(Decimal(long + "4"), Decimal(long + "5"))
    assert generation.rounds_to(Decimal("1000.2"), Decimal("1E+3"))
    assert not generation.rounds_to(Decimal(1400), Decimal("1E+3")), "tens are no decimals"


def test_the_number_is_masked_by_its_offset():
    record = MAGNITUDE | {"text": "5 of 5 fell 5 points", "number": "5", "offset": 5, "length": 1, "label": 1}
    example = magnitude.Task().example(record, parse)
    assert join_segments(example.document) == "[CLS]|5| of |[MASK]| fell |5| points|[EOS]"
    assert list(magnitude.Task().texts([record])) == ["5 of ", " fell 5 points"]
    whole = magnitude.Task().example(MAGNITUDE, parse).document
    assert not any(isinstance(s, Number) for s in whole) and whole.count(Mark("[MASK]")) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"offset": 11},
        {"offset": -3},
        {"length": 4},
        {"offset": 99},
        {"length": 0},
        {"number": "1,201"},
        {"text": "5", "number": "5", "offset": -1, "length": 2},
    ],
)
def test_an_offset_that_does_not_hold_the_number_is_named(change):
    with pytest.raises(DataError, match="not the number") as caught:
        magnitude.Task().example(MAGNITUDE | change, parse)
    assert "\n" not in str(caught.value)


def test_seven_classes_have_no_eighth():
    magnitude.Task(num_classes=8).example(MAGNITUDE | {"label": 7}, parse)
    with pytest.raises(DataError, match="from 0 to 6"):
        magnitude.Task(num_classes=7).example(MAGNITUDE | {"label": 7}, parse)
    with pytest.raises(UsageError, match="8 or 7"):
        magnitude.Task(num_classes=6)
    with pytest.raises(UsageError, match="select must be validation or test"):
        magnitude.Task(select="dev")
    assert magnitude.Task(select="test").splits == {"validation": "test"}


def compute_f1(labels, predictions, label):
    true = sum(g == s == label for g, s in zip(labels, predictions, strict=True))
    either = sum((g == label) + (s == label) for g, s in zip(labels, predictions, strict=True))
    return None if not either else 2 * true / either


@pytest.mark.parametrize("classes", [7, 8])
def test_f1_is_the_mean_over_the_stated_classes(classes, rng):
    for count in (1, 5, 60):
        # The largest classes are rare or absent, as in the data.
        labels = np.minimum(rng.geometric(0.4, count) - 1, classes - 1).tolist()
        predictions = np.minimum(rng.geometric(0.4, count) - 1, classes - 1).tolist()
        scores = magnitude.Task(num_classes=classes).score(predictions, [{"label": g} for g in labels])
        class_scores = [compute_f1(labels, predictions, label) for label in range(classes)]
        defined_scores = [f for f in class_scores if f is not None]
        assert scores["micro_f1"] == pytest.approx(np.mean(np.equal(labels, predictions)))
        assert scores["macro_f1"] == pytest.approx(sum(defined_scores) / classes)
        assert scores["macro_f1_present"] == pytest.approx(sum(defined_scores) / len(defined_scores))


# ---------------------------------------------------------------------------------------------------
# Text, and every task on the real builders.


def test_an_empty_text_is_accepted_and_a_missing_path_is_refused():
    example = language_model.Task(path="x").example({"id": "e", "text": ""}, parse)
    assert example.document == (Mark("[CLS]"), Mark("[EOS]"))
    with pytest.raises(UsageError, match="needs a folder"):
        language_model.Task()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    rng = random.Random(0)
    words = "the price of eggs rose by 3.5% to $1,200 in 2019 and fell again".split()
    (folder / "a.txt").write_text("\n\n".join(" ".join(rng.choices(words, k=40)) for _ in range(30)))
    with gzip.open(folder / "b.jsonl.gz", "wt") as file:
        for _ in range(60):
            file.write(json.dumps({"text": " ".join(rng.choices(words, k=15))}) + "\n")
    return folder


TASKS = {
    "mme": lambda _: statement.Task("mme", size=400),
    "gnc": lambda _: statement.Task("gnc", size=400),
    "mwpas": lambda _: statement.Task("mwpas", negatives="hard", size=400),
    "mwpas_generation": lambda _: generation.Task(size=400),
    "numeracy600k": lambda _: magnitude.Task(size=300),
    "text": lambda folder: language_model.Task(path=str(folder)),
}


@pytest.mark.parametrize("dataset", TASKS)
def test_every_record_of_the_builders_becomes_an_example(dataset, corpus, tmp_path):
    task = TASKS[dataset](corpus)
    assert task.dataset["name"] == dataset
    records = source.load(task.dataset, "train", tmp_path)
    vocabulary = vocab.build({"name": "sentencepiece", "size": 380}, task.texts(records))
    options = type("EncodeOptions", (dict,), {"__getattr__": dict.__getitem__})(
        length=512, overflow="split" if dataset == "text" else "skip", digits=20, pack=False
    )
    for scheme_name in ("replace", "digits"):
        scheme = build.build("text", {"name": scheme_name}, vocab=vocabulary)
        encoded = features.encode(task, scheme, records, options, "train", strict=True)
        assert len(encoded) >= len(records) and not encoded.skipped
        assert encoded.numbers.max() > 0
    references = [encoded.example(i).reference for i in range(len(encoded))]
    if dataset != "text":
        answers = [r["label"] if "label" in r else r["answer"] for r in references]
        scores = task.score(answers, references)
        metric = {"classify": task.metric, "language_model": "exact"}[task.kind]
        assert scores[metric] == (1 if metric != "macro_f1" else len(set(answers)) / task.num_classes)
    assert source.load(task.dataset, "validation", tmp_path) is not None


def test_every_record_of_the_published_numeracy600k_becomes_an_example(real_data, tmp_path):
    folder = real_data("numeracy600k_format")
    task = magnitude.Task(variant="titles", path=str(folder))
    records = source.load(task.dataset, "train", tmp_path)
    counts = collections.Counter()
    for record in records:
        example = task.example(record, parse)
        counts[example.labels["label"]] += 1
        mask_index = example.document.index(Mark("[MASK]"))
        text = "".join(documents.surface_of(s) for s in example.document[1:mask_index])
        assert record["text"].startswith(text + record["number"])
    assert len(counts) >= 6 and sum(counts.values()) == len(records)


def test_a_missing_split_is_none(corpus, tmp_path):
    empty = {"name": "text", "path": str(corpus), "test": 0.0}
    assert source.load(empty, "test", tmp_path) is None
    assert len(source.load(empty, "train", tmp_path)) > 0


def test_a_missing_split_is_left_out_of_several(monkeypatch):
    class Builder:
        splits = ("train", "test")

        def prepare(self, name, data_dir, **options):
            return SimpleNamespace(info=SimpleNamespace(splits=self.splits))

        def load(self, name, split, data_dir, **options):
            return [split]

    monkeypatch.setattr(source, "_open", lambda dataset: (Builder(), "own", {}))
    wanted = {"train": "train", "test": "test", "validation": None, "validation+test": "test", "zero+train": "train"}
    assert {split: (source.load({}, split) or [None])[0] for split in wanted} == wanted


def test_tasks_that_generate_are_those_with_a_prompt():
    classes = {name: build.find("tasks", name) for name in build.names("tasks")}
    prompts = {name for name, cls in classes.items() if cls.prompt is not protocols.Task.prompt}
    assert len(prompts) >= 8 and {name for name, cls in classes.items() if cls.generates} == prompts


@pytest.mark.parametrize("name", ["articles", "equation_extraction", "claims", "squad"])
def test_a_task_has_the_size_that_it_was_given(name):
    task = build.find("tasks", {"squad": "span_answer"}.get(name, name))
    sizes = [task(**options).dataset.get("size") for options in ({}, {"size": 7})]
    assert sizes[1] == 7 and not sizes[0]


def test_an_encoder_reads_the_question_and_the_decoder_is_scored_from_its_first_symbol():
    task = build.find("tasks", "equation_extraction")
    decoder, encoder = (task(encoder=e).example(RECORDS["equation_extraction"], parse) for e in (False, True))
    assert encoder.document[0] == Mark("[CLS]") and encoder.loss_from == 1
    assert encoder.document[1:] == decoder.document[decoder.loss_from :]
    assert encoder.source is not None and decoder.source is None
    assert task().dataset["fold"] == 0
