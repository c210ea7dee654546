"""Questions about measures in many wordings: exact labels, held-out wordings, and the score of typed questions."""

from __future__ import annotations

import collections
import functools
import json
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import numjax
from numjax import modes
from numjax.bundled import data
from numjax.bundled.configs import numgpt as config_file
from numjax.bundled.data.mme import wordings
from numjax.bundled.data.mme.generate import THINGS, generate_many_records
from numjax.bundled.data.problems import wording
from numjax.bundled.experiments.measures import score
from numjax.bundled.experiments.numgpt import settings
from numjax.errors import DataError, UsageError
from numjax.numeral.words import find
from numjax.tasks.statement import Task

THINGS_BY_NAME = {thing.name: thing for thing in THINGS}


@functools.cache
def draw_records(seed: int = 0) -> list[tuple[str, dict]]:
    return list(generate_many_records(2000, seed))


def select_records(split: str, stream: str | None = None) -> list[dict]:
    return [row for name, row in draw_records() if name == split and stream in (None, row["stream"])]


def find_values(text: str) -> list[Decimal]:
    return [Decimal(span.value) for span in find(text)]


# ---------------------------------------------------------------------------------------------------
# Wordings.


def test_every_measure_has_more_than_300_forms_with_a_count_and_a_thing():
    for kind in wordings.KINDS:
        forms = {text for sentence in wordings.sentences(kind) for text in wording.expand(sentence)}
        assert len(forms) > 300 and len(wordings.sentences(kind)) > 50
        for text in forms:
            assert collections.Counter(wording.find_slots(text)) >= collections.Counter(k=1, things=1), text
            assert not re.search(r"[\[\]<>|]|  ", text), text


@pytest.mark.parametrize("kind", wordings.KINDS)
def test_the_count_is_the_only_number_of_every_wording(kind, rng):
    things = [thing for thing in THINGS if thing.unit in wordings.KINDS[kind]]
    for sentence in wordings.sentences(kind):
        for text in wording.expand(sentence):
            thing, k = things[int(rng.integers(len(things)))], int(rng.integers(1, 300))
            question = wordings.fill(rng, text, thing.name, thing.unit, k)
            assert find_values(question) == [k] and "{" not in question, question


def test_every_spelling_of_a_count_is_recognised(rng):
    spellings = collections.defaultdict(set)
    for k in (*range(1, 131), 999, 1000):
        for _ in range(20):
            text = wordings.write_count(rng, k)
            assert find_values(f"are {text} eggs") == [k], text
            spellings[k].add(text)
    assert spellings[25] == {"25", "twenty-five", "twenty five"} and spellings[1000] == {"1000", "1,000"}
    assert spellings[100] == {"100", "one hundred"} and spellings[101] == {"101"}


def test_a_single_thing_has_a_singular(rng):
    text = wordings.fill(
        rng, "how much {do} {k} {things} weigh, or how {are} {they} that weigh{s}", "eggs", "grams", 1
    )
    assert re.fullmatch(r"how much does (1|one) (\w+ )?((hen's|chicken) )?egg weigh, or how is it that weighs", text)


def test_held_out_wordings_are_not_trained_on():
    train_texts = {text.casefold() for text in wordings.trained_wordings()}
    for kind in wordings.KINDS:
        pools = wordings.make_pools(kind)
        assert {text.casefold() for group in pools["train"] for text in group} <= train_texts
        for split in ("validation", "wordings", "sentences"):
            held_out = {text.casefold() for group in pools[split] for text in group}
            assert len(held_out) > 100 and train_texts.isdisjoint(held_out), (kind, split)


# ---------------------------------------------------------------------------------------------------
# Records.


def test_labels_are_exact():
    for _, row in draw_records():
        thing = THINGS_BY_NAME[row["object"]]
        (count,), (answer,) = find_values(row["question"]), find_values(row["answer"])
        low, high = count * thing.low, count * thing.high
        assert row["label"] == (low <= answer <= high), row
        assert low / 100 * Decimal("0.99") <= answer <= 100 * high * Decimal("1.01"), row
        assert (row["multiplier"], row["answer_min"], row["answer_max"]) == (count, low, high)
        assert any(name.casefold() in row["question"].casefold() for name in _list_names(thing.name)), row


def _list_names(thing: str) -> list[str]:
    return [name for pair in wordings.WORDS.names[thing] for name in pair.split("/")]


def test_train_validation_and_test_differ_in_wordings():
    wordings_by_split = {
        key: {row["wording"] for row in select_records(*key)}
        for key in (("train",), ("validation",), ("test", "unseen"))
    }
    seen_wordings = wordings_by_split["train",] | {row["wording"] for row in select_records("test", "seen")}
    assert seen_wordings <= wordings.trained_wordings()
    assert (
        not seen_wordings & wordings_by_split["validation",]
        and not seen_wordings & wordings_by_split["test", "unseen"]
    )
    assert {row["stream"] for row in select_records("train")} == {"seen"} and {
        row["stream"] for row in select_records("validation")
    } == {"unseen"}
    assert len(select_records("test", "seen")) == len(select_records("test", "unseen")) == 200


def test_each_question_is_in_one_split_with_a_right_and_a_wrong_answer():
    labels_by_question = collections.defaultdict(list)
    for split, row in draw_records():
        labels_by_question[row["question"]].append((split, row["label"]))
    assert all(len({split for split, _ in labels}) == 1 for labels in labels_by_question.values())
    assert all(sorted(label for _, label in labels) == [0, 1] for labels in labels_by_question.values())
    assert set(collections.Counter(row["object"] for _, row in draw_records()).values()) == {100}


def test_units_are_written_in_full_and_short_british_and_american():
    text = " ".join(row["question"] for row in select_records("train"))
    for word in ("grams", "grammes", "kg", "cm", "centimeters", "centimetres", "ml", "mins", "kilos", "litres"):
        assert re.search(rf"\b{word}\b", text), word
    questions = [row["question"] for row in select_records("train")]
    for style in (str.islower, str.isupper, lambda q: q[0].isupper(), lambda q: q.endswith("?"), str.isascii):
        assert any(map(style, questions))
    assert any(not q.endswith(("?", ".", "!")) for q in questions)


def test_a_seed_gives_the_same_records_and_the_wordings_of_the_paper_stay(tmp_path):
    assert list(generate_many_records(2000, 0)) == draw_records() != draw_records(1)
    rows = list(data.load("mme", "test", tmp_path, size=400, wordings="many"))
    assert {row["stream"] for row in rows} == {"seen", "unseen"}
    paper = data.load("mme", "test", tmp_path, size=400)
    assert "stream" not in paper[0] and paper.folder.parent.name == "size_400-seed_0"
    with pytest.raises(UsageError, match="wordings='more': choose one of paper, many"):
        data.load("mme", "test", tmp_path, wordings="more")
    with pytest.raises(UsageError, match="try size=40"):
        list(generate_many_records(50, 0))


# ---------------------------------------------------------------------------------------------------
# The task.


def test_accuracy_is_reported_for_seen_and_unseen_wordings():
    task = Task("mme", wordings="many")
    rows = select_records("test")
    references = [task.example(row, lambda text: ()).reference for row in rows]
    predictions = [row["label"] if row["stream"] == "seen" else 1 - row["label"] for row in rows]
    metrics = task.score(predictions, references)
    assert (metrics["accuracy_seen"], metrics["accuracy_unseen"], metrics["accuracy"]) == (1, 0, 0.5)


def test_measures_parse_counts_in_words_and_the_tables_do_not():
    default: Any = config_file.get_config("task=measures")
    assert default.task.wordings == "many" and default.scheme.rules == "words"
    for words in ("embed=dice", "system=gpt", "system=digits"):
        config: Any = config_file.get_config(f"task=measures,{words}")
        assert config.scheme.rules == "words"
    for system in settings.SYSTEMS:
        table = settings.make_config("laptop", "mme", system)
        assert "wordings" not in table.task and table.scheme.rules == "default"


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    """The workdir of a run of a few seconds, and its metrics."""
    folder = tmp_path_factory.mktemp("measures")
    config: Any = config_file.get_config("smoke,task=measures")
    with config.unlocked():
        config.data.dir = str(folder / "data")
    return folder / "run", modes.run(config, str(folder / "run"), "train")


def test_a_smoke_run_reports_both_streams(small_run):
    _, results = small_run
    assert {"accuracy", "accuracy_seen", "accuracy_unseen"} <= results["test"].keys()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"question": "How heavy are eggs?", "answer": "60"}, None),
        ({"question": "How many grams are 3 zebras?", "answer": "60"}, None),
        ({"question": "How many grams are 3 eggs?", "answer": "a few"}, None),
        ({"question": "", "answer": "60"}, "'question'"),
        ({"question": "How many grams are 2 eggs?"}, None),
        ({"answer": "60"}, "'question'"),
        ({"question": "word " * 10_000 + "2 eggs", "answer": "60"}, "data.length"),
    ],
)
def test_every_typed_question_gets_an_answer_or_one_clear_line(small_run, record, message):
    model, skipped = numjax.load(small_run[0]), []
    predictions = model.predict([record], skipped=skipped)
    if message is None:
        assert predictions[0]["prediction"] in (0, 1) and not skipped
    else:
        assert not predictions and message in skipped[0]["reason"] and "\n" not in skipped[0]["reason"]


# ---------------------------------------------------------------------------------------------------
# The score of typed questions.


class Judge:
    """A model whose probability of true is 1 where `is_true(question, answer)` holds, and 0 elsewhere."""

    def __init__(self, is_true):
        self.is_true = is_true

    def score(self, records):
        yes = np.asarray([self.is_true(r["question"], Decimal(r["answer"])) for r in records], float)
        return np.stack([1 - yes, yes], axis=1)


QUESTIONS = [
    score.MeasureQuestion("a", "two eggs", 70, 140),
    score.MeasureQuestion("b", "two tennis balls", 112, 120),
]
RANGES = {q.text: (q.low, q.high) for q in QUESTIONS}


def test_a_sweep_extends_a_hundredfold_and_holds_a_right_answer():
    for thing in THINGS:
        for k in (1, 2, 77, 1000):
            low, high = k * thing.low, k * thing.high
            sweep = score.make_sweep(low, high)
            assert 58 <= len(sweep) <= 61 and sweep == sorted(sweep)
            assert float(sweep[0]) == pytest.approx(low / 100, rel=0.01)
            assert float(sweep[-1]) == pytest.approx(high * 100, rel=0.01)
            assert any(low <= value <= high for value in sweep)
            steps = np.diff(np.log(np.asarray(sweep, float)))
            assert steps.max() < 1.5 * np.log(1e4 * high / low) / (score.POINTS - 1) + 0.02


def test_right_and_wrong_candidates_have_equal_weight_in_the_balanced_score():
    perfect_answers = score.answer_questions(Judge(lambda q, value: RANGES[q][0] <= value <= RANGES[q][1]), QUESTIONS)
    false_answers = score.answer_questions(Judge(lambda q, value: False), QUESTIONS)
    one_sided_answers = score.answer_questions(Judge(lambda q, value: value >= RANGES[q][0]), QUESTIONS)
    assert all((answer.accuracy, answer.balanced) == (1, 1) for answer in perfect_answers)
    assert all(answer.balanced == 0.5 and answer.accuracy > 0.8 for answer in false_answers)
    assert all(
        answer.right == 1 and 0.4 < answer.wrong < 0.6 and answer.balanced == (answer.right + answer.wrong) / 2
        for answer in one_sided_answers
    )
    assert score.summarise(perfect_answers + false_answers)["balanced"] == 0.75


def test_the_command_prints_each_question_and_ends_with_json(small_run, tmp_path, capsys):
    lines = [{"question": "How heavy are 2 eggs?", "thing": "egg", "count": 2}, {"id": "x", "question": "One piano?"}]
    lines[1] |= {"thing": "pianos", "count": 1}
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    score.main([f"--workdir={small_run[0]}", f"--questions={tmp_path / 'own.jsonl'}", "--show"])
    *table, last = capsys.readouterr().out.splitlines()
    summary = json.loads(last)
    assert [row.split()[-1] for row in table] == ["question", "eggs?", "piano?", "all"]
    assert summary["n"] == 2 and set(summary["questions"]) == {"1", "x"}
    assert summary["balanced"] == pytest.approx(np.mean([q["balanced"] for q in summary["questions"].values()]))


def test_questions_may_hold_any_line_end_of_unicode(tmp_path):
    rows = [{"question": f"How many{c}eggs?", "thing": "egg", "count": 2} for c in "\u2028\x85"]
    (tmp_path / "own.jsonl").write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n")
    assert [q.text for q in score.load_questions(tmp_path / "own.jsonl")] == [row["question"] for row in rows]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no question"),
        ("{", "line 1: no JSON"),
        ("[]", "line 1: give count, question, thing"),
        ('{"question": "q", "thing": "egg"}', "give count; it has question, thing"),
        ('{"question": "q", "thing": "zebra", "count": 2}', "2 of 'zebra'"),
        ('{"question": "q", "thing": "egg", "count": 0}', "0 of 'egg'"),
        ('{"question": "q", "thing": ["egg"], "count": 2}', "2 of ['egg']"),
    ],
)
def test_unusable_questions_are_refused_in_one_line(tmp_path, text, message):
    (tmp_path / "own.jsonl").write_text(text)
    with pytest.raises(DataError, match=re.escape(message)) as error:
        score.load_questions(tmp_path / "own.jsonl")
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="cannot be read"):
        score.load_questions(tmp_path / "none.jsonl")
