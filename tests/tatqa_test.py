"""TAT-QA: the official metric against its own results, labels and answers, its files and rows."""

from __future__ import annotations

import collections
import gzip
import json
import math
import re
from decimal import Decimal

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from numjax.bundled import data
from numjax.bundled.data.tatqa.builder import divide_contexts, find_kind
from numjax.bundled.data.tatqa.generate import make_contexts
from numjax.errors import DataError
from numjax.pipeline import features
from numjax.tasks import tatqa
from numjax.tasks.tatqa import labels as tatqa_labels
from numjax.tasks.tatqa import metric
from numjax.tasks.tatqa import records as tatqa_records
from numjax.tasks.tatqa import units as tatqa_units
from numjax.tasks.tatqa.answers import OPERATORS, ORDERED, assemble, compute, round_answer
from numjax.tasks.tatqa.labels import Labels
from numjax.text import addback, replace, subword, vocab

SPECIAL = {"__NaN__": math.nan, "__nan__": math.nan, "__inf__": math.inf}


def decode_floats(value):
    """Returns a value of a reference file with NaN and infinity, which JSON has not, as floats."""
    if isinstance(value, list):
        return [decode_floats(element) for element in value]
    return SPECIAL.get(value, value) if isinstance(value, str) else value


def is_same(left, right) -> bool:
    return left == right or (left != left and right != right)


@pytest.fixture(scope="module")
def load_released():
    """Returns a function that loads the context and question of every released question, by uid."""

    def load(folder):
        with gzip.open(folder / "tatqa_dataset_dev.json.gz") as file:
            return {q["uid"]: (c, q) for c in json.load(file) for q in c["questions"]}

    return load


# ---------------------------------------------------------------------------------------------------
# The metric.


def test_the_number_parser_agrees_with_the_official_one(real_data):
    cases = json.loads((real_data("tatqa_metric_reference") / "number_reader.json").read_text())
    for case in cases:
        text = case["text"]
        for name, function in (
            ("is_number", metric.is_number), ("to_number", metric.to_number), ("normalize_answer", metric.normalise)
        ):  # fmt: skip
            if name in case:
                assert is_same(function(text), decode_floats(case[name])), (name, text)
    assert len(cases) > 300


def test_the_metrics_patterns_match_as_the_released_ones(rng):
    """The patterns take linear time on long cells; on random texts they match as the originals."""
    for _ in range(3000):
        text = "".join(rng.choice(list("1.2 %ab(-"), rng.integers(1, 12)))
        percent, with_word = metric._PERCENT.search(text), metric._WITH_WORD.search(text)
        assert (percent is None) == (re.search(r"[\d.\s]+%", text) is None), text
        expected = re.search(r"[\d.]+\s?[a-zA-Z]+", text)
        assert (with_word and with_word.span()) == (expected and expected.span()), text


def test_single_cases_score_as_in_the_official_script(real_data):
    cases = json.loads((real_data("tatqa_metric_reference") / "single_cases.json").read_text())
    for case in cases:
        if "error" in case:
            continue
        arguments = (
            case["gold"],
            case["answer_type"],
            case["gold_scale"],
            decode_floats(case["pred"]),
            case["pred_scale"],
        )
        em, f1, scale = metric.score_question(*arguments)
        assert (em, scale) == (case["em"], case["scale_match"]) and f1 == pytest.approx(case["f1"], abs=1e-9), case
    assert len(cases) > 300


def test_released_and_synthetic_predictions_score_as_in_the_official_script(real_data, load_released):
    reference = real_data("tatqa_metric_reference")
    questions = load_released(real_data("tatqa"))
    with gzip.open(real_data("tatqa") / "sample_prediction.json.gz") as file:
        predictions = json.load(file)
    scores_of_question = json.loads((reference / "dev_per_question.json").read_text())
    kinds = [q["answer_type"] for _, q in questions.values()]
    sources = [q["answer_from"] for _, q in questions.values()]

    def score_all(predict):
        return [
            metric.score_question(q["answer"], q["answer_type"], q["scale"], *predict(q))
            for _, q in questions.values()
        ]

    scores = score_all(lambda q: predictions[q["uid"]])
    for uid, score in zip(questions, scores, strict=True):
        assert score.em == scores_of_question[uid][0] and score.f1 == pytest.approx(
            scores_of_question[uid][1], abs=1e-9
        ), uid
    averages = metric.average_scores(scores, kinds, sources)
    expected = json.loads((reference / "dev_overall.json").read_text())
    assert all(averages[name] == pytest.approx(expected[name], abs=1e-12) for name in ("em", "f1", "scale"))
    assert averages["em"] == pytest.approx(0.45923, abs=5e-6) and averages["em_num"] == averages["em/arithmetic"]
    assert averages["em_num"] == pytest.approx(expected["per_answer_type"]["arithmetic"]["em"], abs=1e-12)
    for group, group_scores in expected["per_answer_type_and_from"].items():
        assert averages[f"em/{group.replace('|', '/')}"] == pytest.approx(group_scores["em"], abs=1e-12), group
        assert averages[f"f1/{group.replace('|', '/')}"] == pytest.approx(group_scores["f1"], abs=1e-12), group

    def is_number(q):
        return isinstance(q["answer"], int | float)

    def negate(q):
        return (-q["answer"] if is_number(q) else q["answer"]), q["scale"]

    def to_fraction(q):
        percent = q["scale"] == "percent"
        return (q["answer"] / 100 if percent and is_number(q) else q["answer"]), "" if percent else q["scale"]

    predictors = {
        "gold_answer_gold_scale": lambda q: (q["answer"], q["scale"]),
        "gold_answer_empty_scale": lambda q: (q["answer"], ""),
        "first_span_only": lambda q: (
            q["answer"][:1] if isinstance(q["answer"], list) else str(q["answer"]), q["scale"]
        ),
        "reversed_lists": lambda q: (
            q["answer"][::-1] if isinstance(q["answer"], list) else [q["answer"]], q["scale"]
        ),
        "derivation_as_answer": lambda q: (q["derivation"] or "x", q["scale"]),
        "negated_numbers": negate,
        "percent_as_fraction": to_fraction,
    }  # fmt: skip
    synthetic = json.loads((reference / "dev_synthetic_predictions.json").read_text())
    assert predictors.keys() == synthetic.keys()
    for name, predict in predictors.items():
        averages = metric.average_scores(score_all(predict), kinds)
        for part, value in synthetic[name].items():
            assert averages[part] == pytest.approx(value, abs=1e-9), (name, part)


# ---------------------------------------------------------------------------------------------------
# Units, labels and answers.


@pytest.mark.parametrize(
    ("text", "number", "percent"),
    [
        ("$  1,452.4", "1452.4", False), ("(19,911)", "-19911", False), ("$(5,637)", "-5637", False),
        ("(248%)", "-248", True), ("(48.3)%", "-48.3", True), ("−5", "-5", False), ("2019 (1)", "2019", False),
        ("—", "0", False), (".5", ".5", False), ("US$ 12", "12", False), ("5%)", "5", True),
        ("Note 5", None, False), ("H2O", None, False), ("", None, False), ("Net sales", None, False),
    ],
)  # fmt: skip
def test_numbers_are_parsed_as_accountants_write_them(text, number, percent):
    assert tatqa_units.parse_value(text) == (None if number is None else (Decimal(number), percent))


def test_units_are_cells_and_words():
    table = [["", "2019"], ["Sales", "(1,746)"]]
    context = tatqa_units.make_context("?", table, ["A fixed-price type, “LWAY.” fell -5.2% in 2018–2019."])
    assert [context.text[u.start : u.end] for u in context.units] == [
        *(
            "2019",
            "Sales",
            "(1,746)",
            "A",
            "fixed",
            "price",
            "type,",
            "LWAY.",
            "fell",
            "-5.2%",
            "in",
            "2018",
            "2019.",
        ),
    ]
    assert [u.group for u in context.units] == [1] * 3 + [2] * 10
    assert [str(u.value.number) for u in context.units if u.value] == ["2019", "-1746", "-5.2", "2018", "2019"]


def test_paragraphs_are_ranked_as_in_scikit_learn(rng):
    vocabulary_and_records = [
        "sales",
        "rose",
        "cost",
        "of",
        "plant",
        "the",
        "a",
        "2019",
        "tax",
        "net",
        "income",
        "loss",
    ]
    for _ in range(20):
        texts = [" ".join(rng.choice(vocabulary_and_records, rng.integers(1, 12))) for _ in range(6)]
        rows = TfidfVectorizer(token_pattern=r"\b\w\w+\b").fit_transform([*texts, "plant cost"]).toarray()
        cosines = rows[1:] @ rows[0]
        order = tatqa_units.rank_paragraphs(texts[0], [*texts[1:], "plant cost"])
        np.testing.assert_allclose(cosines[order], np.sort(cosines)[::-1], atol=1e-12)


TABLE = [["", "2019", "2018"], ["Sales", "300", "200"], ["Costs", "(111)", "(74)"], ["Share", "15%", "10%"]]
TEXT = ["Sales grew due to new stores, higher prices and a mild winter."]
CONTEXT = tatqa_units.make_context("What was it?", TABLE, TEXT)


def find_units(*texts: str) -> tuple[int, ...]:
    unit_texts = [CONTEXT.text[u.start : u.end] for u in CONTEXT.units]
    return tuple(sorted(unit_texts.index(text) for text in texts))


@pytest.mark.parametrize(
    ("operator", "texts", "swapped", "scale", "answer"),
    [
        ("SPAN-TEXT", ("mild", "winter."), False, "", ["mild winter."]),
        ("SPAN-TABLE", ("300",), False, "million", ["300"]),
        ("MULTI-SPAN", ("300", "200"), False, "", ["300", "200"]),
        ("MULTI-SPAN", ("new", "stores,", "higher", "prices"), False, "", ["new stores,", "higher prices"]),
        ("COUNT", ("2019", "2018", "new", "stores,"), False, "", 3),
        ("SUM", ("300", "200", "(111)"), False, "", 389.0),
        ("AVERAGE", ("300", "200"), False, "", 250.0),
        ("AVERAGE", ("15%", "10%"), False, "percent", 12.5),
        ("TIMES", ("300", "10%"), False, "", 30.0),
        ("DIFF", ("300", "200"), False, "", 100.0),
        ("DIFF", ("300", "200"), True, "", -100.0),
        ("DIFF", ("15%", "10%"), False, "percent", 5.0),
        ("DIVIDE", ("300", "200"), False, "", 1.5),
        ("DIVIDE", ("300", "(111)"), True, "percent", 37.0),
        ("CHANGE-RATIO", ("300", "200"), False, "percent", 50.0),
        ("CHANGE-RATIO", ("300", "200"), True, "", -0.33),
    ],
)
def test_each_operator_computes_its_answer(operator, texts, swapped, scale, answer):
    labels = Labels(operator, find_units(*texts), swapped)
    assert assemble(CONTEXT, operator, scale, tatqa_labels.certain_scores(CONTEXT, labels), swapped) == answer


@pytest.mark.parametrize("operator", OPERATORS)
def test_the_best_unit_is_used_where_none_is_selected(operator):
    """A count of 0 is not predicted: the metric takes the answer 0 for none."""
    scores = np.log(np.linspace(0.1, 0.3, len(CONTEXT.units))).tolist()
    answer = assemble(CONTEXT, operator, "", scores)
    texts = CONTEXT.text[CONTEXT.units[-1].start :]
    expected = {"SPAN-TEXT": [texts], "MULTI-SPAN": [texts], "SPAN-TABLE": ["10%"], "COUNT": 1}
    expected |= dict.fromkeys(("AVERAGE", "SUM", "TIMES"), 0.1)
    if operator in ORDERED:
        assert isinstance(answer, float)  # of the two best units
    else:
        assert answer == expected[operator]
    assert assemble(CONTEXT, "COUNT", "", scores, as_published=True) == 0


def test_as_published_parses_numbers_as_the_metric_does():
    context = tatqa_units.make_context("?", [["a", "(1,746)", "0", "12%", "—"]], [])

    def compute_answer(operator, scale, *units, swapped=False):
        scores = tatqa_labels.certain_scores(context, Labels(operator, units, swapped))
        return assemble(context, operator, scale, scores, swapped, as_published=True)

    assert compute_answer("SUM", "", 1) == 1746 and compute_answer("AVERAGE", "percent", 3) == 12
    assert compute_answer("CHANGE-RATIO", "", 1, 2) == 1 and compute_answer("DIVIDE", "", 1, 2) == 0
    assert math.isnan(compute_answer("SUM", "", 0, 1)), "a unit without a number"
    assert compute_answer("SPAN-TABLE", "") == "" == compute_answer("SUM", "")
    assert assemble(context, "DIVIDE", "", tatqa_labels.certain_scores(context, Labels("DIVIDE", (1, 2)))) == ""


def test_gold_labels_give_the_gold_answers(real_data, load_released):
    """Labels give 99% of spans, multi-spans and counts, and derivations 96.5% of arithmetic answers."""
    hits, from_derivation = collections.Counter(), 0
    questions = load_released(real_data("tatqa"))
    for c, q in questions.values():
        texts = [p["text"] for p in c["paragraphs"]]
        context = tatqa_units.make_context(q["question"], c["table"]["table"], texts)
        kind = "arithmetic" if q["answer_type"] == "arithmetic" else "other"
        related = [2 + i for i, p in enumerate(c["paragraphs"]) if str(p["order"]) in q["rel_paragraphs"]]
        labels = tatqa_labels.find_labels(context, q | {"rel_paragraphs": related})
        if labels is not None:
            scores = tatqa_labels.certain_scores(context, labels)
            answer = assemble(context, labels.operator, q["scale"], scores, labels.swapped)
            # The metric takes an answer of 0 for none, also where 0 is right.
            is_right = (
                answer == 0 == q["answer"]
                or metric.score_question(q["answer"], q["answer_type"], q["scale"], answer, q["scale"]).em
            )
            hits[kind] += is_right
            assert is_right, (q["uid"], answer, q["answer"])
        if kind == "arithmetic":
            for derivation in tatqa_labels.parse_derivation(q["derivation"], q["scale"]):
                value = compute(derivation.operator, q["scale"], derivation.values)
                if value is None:
                    continue
                is_zero = value == 0 == q["answer"]
                if (
                    is_zero
                    or metric.score_question(q["answer"], kind, q["scale"], round_answer(value), q["scale"]).em
                ):
                    from_derivation += 1
                    break
    assert hits["other"] >= 0.99 * 950 and hits["arithmetic"] >= 0.94 * 718 and from_derivation >= 0.965 * 718


def test_every_synthetic_question_has_labels():
    operators = set()
    for _, record in tatqa_records.from_contexts(make_contexts(60, seed=5), "stand-in"):
        example = tatqa.Task().example(record, subword.documents.parse)
        operator = int(example.labels["operator"])
        assert operator >= 0, record
        operators.add(OPERATORS[operator])
    assert operators == set(OPERATORS) - {"TIMES"}


# ---------------------------------------------------------------------------------------------------
# Files.


def test_bad_contexts_are_named(tmp_path):
    good = make_contexts(5, seed=1)
    bad = make_contexts(5, seed=2)
    bad[0]["table"]["table"] = [["", " "], [""]]
    bad[1]["table"]["table"][1][1] = "9" * 30_000
    bad[2]["questions"][0]["answer"] = {"no": "answer"}
    bad[3] = "nothing"
    bad[4]["table"]["table"][1] = bad[4]["table"]["table"][1][:1]  # ragged: filled up
    for i, context in enumerate(bad[:3] + bad[4:]):
        context["table"]["uid"] = f"bad-{i}"
        for q in context["questions"]:
            q["uid"] = f"bad-{i}-{q['order']}"
    (tmp_path / "tatqa_dataset_train.json").write_text(json.dumps(good + bad))
    (tmp_path / "tatqa_dataset_dev.json").write_text(json.dumps(rename_contexts(make_contexts(2, seed=3), "dev")))
    options = {"path": str(tmp_path), "data_dir": tmp_path / "cache"}
    splits = {split: data.load("tatqa", split, **options) for split in ("train", "validation", "test")}
    assert sum(map(len, splits.values())) == 6 * 5 + 5 + 6 + 12
    reasons = {row["id"]: row["reason"] for row in data.load_skipped("tatqa", **options)}
    assert "empty" in reasons["bad-0-1"] and "30,000 characters" in reasons["bad-1-6"]
    assert "no list of texts" in reasons["bad-2-1"] or "no number" in reasons["bad-2-1"]
    assert "no object" in reasons["context-8"]
    (mended_file,) = (tmp_path / "cache").rglob("mended.jsonl")
    assert '"bad-3"' in mended_file.read_text() and "filled up with empty cells" in mended_file.read_text()
    (tmp_path / "tatqa_dataset_train.json").write_text(json.dumps(good)[:-40])
    with pytest.raises(DataError, match="breaks off"):
        data.load("tatqa", "train", **options)


def rename_contexts(contexts, name):
    """Returns the contexts of the stand-in under other names."""
    return json.loads(json.dumps(contexts).replace("stand-in", name))


def test_no_context_is_in_two_splits_whatever_the_files(tmp_path):
    contexts = make_contexts(30, seed=1)
    (tmp_path / "train.json").write_text(json.dumps(contexts[:20]))
    (tmp_path / "dev.json").write_text(json.dumps(contexts[15:25]))
    (tmp_path / "dev.json.gz").write_bytes(gzip.compress(json.dumps(contexts[15:25]).encode()))
    (tmp_path / "test.json").write_text(json.dumps(contexts[24:]))
    options = {"path": str(tmp_path), "data_dir": tmp_path / "cache"}
    splits = ("train", "validation", "test")
    split_contexts = {split: {r["context"][-2:] for r in data.load("tatqa", split, **options)} for split in splits}
    assert sorted(split_contexts["train"]) == [f"{i:02d}" for i in range(15)]
    assert sorted(split_contexts["validation"]) == [f"{i:02d}" for i in range(15, 24)]
    assert sorted(split_contexts["test"]) == [f"{i:02d}" for i in range(24, 30)]
    # Six questions of each of five contexts, twice those of dev in its second file, and context 24.
    assert len(data.load_skipped("tatqa", **options)) == 6 * (5 + 10 + 1)


@pytest.mark.parametrize("kinds", [("dev", "test"), ("train", "test"), ("train", "dev"), ("test",)])
def test_no_test_file_becomes_training_data_beside_another_file(kinds):
    records_of_kind = {kind: [{"context": f"{kind}{i}"} for i in range(20)] if kind in kinds else [] for kind in
             ("train", "dev", "test")}  # fmt: skip
    parts = {
        split: {r["context"] for r in records} for split, records in divide_contexts(records_of_kind, seed=0).items()
    }
    assert all(parts.values()) and sum(map(len, parts.values())) == 20 * len(kinds)
    if len(kinds) > 1:
        assert parts["test"] == {r["context"] for r in records_of_kind[kinds[-1]]}


def test_contexts_are_divided_whole():
    records = [{"context": str(i // 6), "id": str(i)} for i in range(600)]
    parts = divide_contexts({"train": [], "dev": records, "test": []}, seed=0)
    assert {split: len(members) for split, members in parts.items()} == {"train": 480, "validation": 60, "test": 60}
    assert len({r["context"] for r in parts["train"]} | {r["context"] for r in parts["test"]}) == 90
    parts_with_dev = divide_contexts({"train": records, "dev": records[:6], "test": []}, seed=0)
    assert parts_with_dev["test"] == records[:6] and len(parts_with_dev["validation"]) == 60
    parts_with_test = divide_contexts({"train": records, "dev": records[:6], "test": records[6:12]}, seed=0)
    assert parts_with_test["train"] == records and parts_with_test["validation"] == records[:6]
    assert [find_kind(tatqa_records.pathlib.Path(name)) for name in ("tatqa_dataset_dev.json.gz", "my.json")] == [
        "dev", "train",
    ]  # fmt: skip


def test_a_table_of_a_user_becomes_records(tmp_path):
    (tmp_path / "report.csv").write_text('"",2019,2018\nSales,"1,200",(900)\nShort\n')
    (tmp_path / "report.txt").write_text(
        "Sales rose\nby 5%.\n\nQ: What was the change in sales?\nQ: Why?\nStores opened.\n"
    )
    records = list(tatqa_records.from_file(str(tmp_path / "report.csv")))
    assert [record["question"] for _, record in records] == ["What was the change in sales?", "Why?"]
    record = records[0][1]
    assert json.loads(record["table"])[2] == ["Short", "", ""]
    assert json.loads(record["paragraphs"]) == ["Sales rose by 5%.", "Stores opened."]
    example = tatqa.Task().example(record, subword.documents.parse)
    assert example.labels["operator"] == example.labels["scale"] == -1
    contexts = make_contexts(1, seed=1)
    for q in contexts[0]["questions"]:
        for name in ("answer", "derivation", "answer_type", "scale"):
            del q[name]
    (tmp_path / "asked.json").write_text(json.dumps(contexts))
    assert len(list(tatqa_records.from_file(str(tmp_path / "asked.json")))) == 6
    assert tatqa_records.from_file("records.jsonl") is None
    (tmp_path / "report.txt").write_text("no question")
    with pytest.raises(DataError, match="begin a line with Q:"):
        list(tatqa_records.from_file(str(tmp_path / "report.csv")))
    with pytest.raises(DataError, match="cannot be read"):
        list(tatqa_records.from_file(str(tmp_path / "other.csv")))


# ---------------------------------------------------------------------------------------------------
# From records to positions.


@pytest.fixture(scope="module")
def vocabulary_and_records():
    records = [record for _, record in tatqa_records.from_contexts(make_contexts(12, seed=4), "test")]
    return vocab.build({"name": "wordpiece", "size": 400}, tatqa.Task().texts(records)), records


class UnitOptions(dict):
    __getattr__ = dict.__getitem__


@pytest.mark.parametrize("module", [subword, replace, addback])
def test_units_have_positions_and_certain_tags_give_the_answers(module, vocabulary_and_records):
    """Certain tags at a row's positions, turned into a prediction, give the gold answer with every scheme."""
    vocabulary, records = vocabulary_and_records
    task, scheme = tatqa.Task(), module.Scheme(vocabulary, types=True)
    options = UnitOptions(length=320, overflow="truncate", digits=8, pack=False, memory=64)
    encoded = features.encode(task, scheme, records[:24], options, "test")
    assert len(encoded) == 24 and len(encoded.shortened) == 0 and encoded.columns.offsets is None
    pairs = []
    for i in range(len(encoded)):
        row, labels = encoded.rows[i], encoded.rows[i].labels
        unit, group, number, *_ = row.channels["units"].T
        assert (np.unique(unit) == np.arange(unit.max() + 1)).all(), "each unit has a position, in order"
        assert ((unit > 0) == (group > 0)).all() and (number <= (unit > 0)).all()
        assert set(np.unique(row.channels["types"])) == {0, 1}, "BERT's types stay"
        tag_scores = labels["tags"][: len(row.ids)].astype(np.float32)
        output = np.concatenate([[labels["operator"], labels["scale"], max(labels["order"], 0), 0.0], tag_scores])
        example = encoded.example(i)
        prediction, extra = task.make_prediction(example, output)
        assert extra == {"confidence": 1.0}
        pairs.append((prediction, example.reference))
    scores = task.score(*zip(*pairs, strict=True))
    assert scores["em"] == scores["operator"] == scores["scale"] == 1
    # Every question is scored, also when all predictions are empty.
    empty_scores = task.score([{"answer": "", "scale": "", "operator": ""}] * 24, [r for _, r in pairs])
    assert empty_scores["em"] == empty_scores["operator"] == 0


def test_long_rows_are_cut_and_counted(vocabulary_and_records):
    vocabulary, records = vocabulary_and_records
    scheme = subword.Scheme(vocabulary, types=True)
    task = tatqa.Task(question=6, context=20, units=32)
    options = UnitOptions(length=32, overflow="truncate", digits=8, pack=False, memory=64)
    encoded = features.encode(task, scheme, records[:6], options, "test")
    assert len(encoded.shortened) == 6 and encoded.lengths.max() == 29
    for i in range(6):
        row = encoded.rows[i]
        assert row.ids[7] == scheme.vocab.mark("[SEP]") == row.ids[-1] and row.channels["units"][8:28, 0].min() > 0
    encoded_shorter = features.encode(task, scheme, records[:6], UnitOptions(options | {"length": 20}), "test")
    assert len(encoded_shorter.shortened) == 6 and encoded_shorter.lengths.max() == 20
    unlabelled = records[0] | {"derivation": "1+2", "answer": "3", "answer_type": "arithmetic", "scale": ""}
    encoded_unlabelled = features.encode(task, scheme, [unlabelled], options, "test")
    assert len(encoded_unlabelled) == 1 and encoded_unlabelled.rows[0].labels["operator"] == -1
    published = tatqa.Task(question=6, context=20, units=32, as_published=True)
    encoded_published = features.encode(published, scheme, [unlabelled], options, "test")
    assert not len(encoded_published) and "left out as published" in encoded_published.skipped[0]["reason"]


def test_cells_named_as_evidence_are_used_in_the_order_of_the_derivation():
    table = [["", "2019", "2018"], ["Sales", "300", "200"], ["Sales B", "300", "100"]]
    context = tatqa_units.make_context("By how much?", table, [])
    question = {"answer_type": "arithmetic", "scale": "", "rel_paragraphs": [], "answer_from": "table"}
    for cells, derivation, answer in (([(2, 1), (1, 2)], "300-200", 100), ([(1, 2), (2, 1)], "200-300", -100)):
        evidence = {"cells": cells, "derivation": derivation, "answer": answer}
        labels = tatqa_labels.find_labels(context, question | evidence)
        assert labels is not None and [context.cells[i] for i in labels.units] == sorted(cells)
        scores = tatqa_labels.certain_scores(context, labels)
        assert assemble(context, labels.operator, "", scores, labels.swapped) == answer


def test_the_majority_is_the_share_of_the_most_frequent_operator():
    reference = {"answer": 5, "answer_type": "arithmetic", "scale": "", "operator": "SUM"}
    golds = [reference, reference | {"operator": "DIFF"}, reference, reference | {"operator": ""}]
    scores = tatqa.Task().score([{"answer": 5, "scale": "", "operator": "DIFF"}] * 4, golds)
    assert scores["majority"] == pytest.approx(2 / 3) and scores["operator"] == pytest.approx(1 / 3)
    assert scores["scale_majority"] == 1 and scores["em"] == 1
