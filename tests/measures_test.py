"""Questions about measures in many wordings: exact labels, wordings kept apart, and the score of typed questions."""

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
from numjax.train import runs

OF = {thing.name: thing for thing in THINGS}


@functools.cache
def drawn(seed: int = 0) -> list[tuple[str, dict]]:
    return list(generate_many_records(2000, seed))


def of(split: str, stream: str | None = None) -> list[dict]:
    return [row for name, row in drawn() if name == split and stream in (None, row["stream"])]


def values(text: str) -> list[Decimal]:
    return [Decimal(span.value) for span in find(text)]


# ---------------------------------------------------------------------------------------------------
# Wordings.


def test_there_are_more_than_300_forms_of_every_measure_and_each_asks_for_a_count_of_a_thing():
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
            filled = wordings.fill(rng, text, thing.name, thing.unit, k)
            assert values(filled) == [k] and "{" not in filled, filled


def test_every_count_is_found_however_it_is_written(rng):
    written = collections.defaultdict(set)
    for k in (*range(1, 131), 999, 1000):
        for _ in range(20):
            text = wordings.write_count(rng, k)
            assert values(f"are {text} eggs") == [k], text
            written[k].add(text)
    assert written[25] == {"25", "twenty-five", "twenty five"} and written[1000] == {"1000", "1,000"}
    assert written[100] == {"100", "one hundred"} and written[101] == {"101"}


def test_a_single_thing_has_a_singular(rng):
    text = wordings.fill(
        rng, "how much {do} {k} {things} weigh, or how {are} {they} that weigh{s}", "eggs", "grams", 1
    )
    assert re.fullmatch(r"how much does (1|one) (\w+ )?((hen's|chicken) )?egg weigh, or how is it that weighs", text)


def test_no_wording_that_is_held_out_is_trained_on():
    trained = {text.casefold() for text in wordings.trained_wordings()}
    for kind in wordings.KINDS:
        pools = wordings.make_pools(kind)
        assert {text.casefold() for group in pools["train"] for text in group} <= trained
        for use in ("validation", "wordings", "sentences"):
            held = {text.casefold() for group in pools[use] for text in group}
            assert len(held) > 100 and trained.isdisjoint(held), (kind, use)


# ---------------------------------------------------------------------------------------------------
# Records.


def test_labels_are_exact():
    for _, row in drawn():
        thing = OF[row["object"]]
        (count,), (answer,) = values(row["question"]), values(row["answer"])
        low, high = count * thing.low, count * thing.high
        assert row["label"] == (low <= answer <= high), row
        assert low / 100 * Decimal("0.99") <= answer <= 100 * high * Decimal("1.01"), row
        assert (row["multiplier"], row["answer_min"], row["answer_max"]) == (count, low, high)
        assert any(one.casefold() in row["question"].casefold() for one in _names(thing.name)), row


def _names(thing: str) -> list[str]:
    return [name for pair in wordings.WORDS.names[thing] for name in pair.split("/")]


def test_train_validation_and_test_differ_in_wordings():
    used = {key: {row["wording"] for row in of(*key)} for key in (("train",), ("validation",), ("test", "unseen"))}
    trained = used["train",] | {row["wording"] for row in of("test", "seen")}
    assert trained <= wordings.trained_wordings()
    assert not trained & used["validation",] and not trained & used["test", "unseen"]
    assert {row["stream"] for row in of("train")} == {"seen"} and {row["stream"] for row in of("validation")} == {
        "unseen"
    }
    assert len(of("test", "seen")) == len(of("test", "unseen")) == 200


def test_each_question_is_asked_in_one_split_with_a_right_and_a_wrong_answer():
    asked = collections.defaultdict(list)
    for split, row in drawn():
        asked[row["question"]].append((split, row["label"]))
    assert all(len({split for split, _ in two}) == 1 for two in asked.values())
    assert all(sorted(label for _, label in two) == [0, 1] for two in asked.values())
    assert set(collections.Counter(row["object"] for _, row in drawn()).values()) == {100}


def test_units_are_written_in_full_and_short_british_and_american():
    text = " ".join(row["question"] for row in of("train"))
    for word in ("grams", "grammes", "kg", "cm", "centimeters", "centimetres", "ml", "mins", "kilos", "litres"):
        assert re.search(rf"\b{word}\b", text), word
    questions = [row["question"] for row in of("train")]
    for style in (str.islower, str.isupper, lambda q: q[0].isupper(), lambda q: q.endswith("?"), str.isascii):
        assert any(map(style, questions))
    assert any(not q.endswith(("?", ".", "!")) for q in questions)


def test_a_seed_gives_the_same_records_and_the_paper_keeps_its_own(tmp_path):
    assert list(generate_many_records(2000, 0)) == drawn() != drawn(1)
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


def test_accuracy_is_given_for_seen_and_unseen_wordings():
    task = Task("mme", wordings="many")
    rows = of("test")
    references = [task.example(row, lambda text: ()).reference for row in rows]
    said = [row["label"] if row["stream"] == "seen" else 1 - row["label"] for row in rows]
    found = task.score(said, references)
    assert (found["accuracy_seen"], found["accuracy_unseen"], found["accuracy"]) == (1, 0, 0.5)


def test_measures_read_counts_in_words_and_the_tables_keep_the_papers():
    default: Any = config_file.get_config("task=measures")
    assert default.task.wordings == "many" and default.scheme.rules == "words"
    for words in ("embed=dice", "system=gpt", "system=digits"):
        swapped: Any = config_file.get_config(f"task=measures,{words}")
        assert swapped.scheme.rules == "words"
    for system in settings.SYSTEMS:
        table = settings.make_config("laptop", "mme", system)
        assert "wordings" not in table.task and table.scheme.rules == "default"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run of seconds, and its metrics."""
    folder = tmp_path_factory.mktemp("measures")
    config: Any = config_file.get_config("smoke,task=measures")
    with config.unlocked():
        config.data.dir = str(folder / "data")
    return folder / "run", runs.run(config, str(folder / "run"), "train")


def test_a_smoke_run_reports_both_streams(trained):
    _, results = trained
    assert {"accuracy", "accuracy_seen", "accuracy_unseen"} <= results["test"].keys()


@pytest.mark.parametrize(
    ("record", "says"),
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
def test_whatever_is_typed_gets_an_answer_or_one_clear_line(trained, record, says):
    model, skipped = numjax.load(trained[0]), []
    predicted = model.predict([record], skipped=skipped)
    if says is None:
        assert predicted[0]["prediction"] in (0, 1) and not skipped
    else:
        assert not predicted and says in skipped[0]["reason"] and "\n" not in skipped[0]["reason"]


# ---------------------------------------------------------------------------------------------------
# The score of typed questions.


class Judge:
    """Says true as a function of (question, answer) does."""

    def __init__(self, says):
        self.says = says

    def score(self, records):
        yes = np.asarray([self.says(r["question"], Decimal(r["answer"])) for r in records], float)
        return np.stack([1 - yes, yes], axis=1)


QUESTIONS = [
    score.MeasureQuestion("a", "two eggs", 70, 140),
    score.MeasureQuestion("b", "two tennis balls", 112, 120),
]
RANGES = {q.text: (q.low, q.high) for q in QUESTIONS}


def test_a_sweep_reaches_a_hundred_times_beyond_and_holds_a_right_answer():
    for thing in THINGS:
        for k in (1, 2, 77, 1000):
            low, high = k * thing.low, k * thing.high
            found = score.make_sweep(low, high)
            assert 58 <= len(found) <= 61 and found == sorted(found)
            assert float(found[0]) == pytest.approx(low / 100, rel=0.01)
            assert float(found[-1]) == pytest.approx(high * 100, rel=0.01)
            assert any(low <= value <= high for value in found)
            steps = np.diff(np.log(np.asarray(found, float)))
            assert steps.max() < 1.5 * np.log(1e4 * high / low) / (score.POINTS - 1) + 0.02


def test_right_and_wrong_candidates_weigh_the_same_in_the_balanced_score():
    right = score.answer_questions(Judge(lambda q, value: RANGES[q][0] <= value <= RANGES[q][1]), QUESTIONS)
    never = score.answer_questions(Judge(lambda q, value: False), QUESTIONS)
    above = score.answer_questions(Judge(lambda q, value: value >= RANGES[q][0]), QUESTIONS)
    assert all((a.accuracy, a.balanced) == (1, 1) for a in right)
    assert all(a.balanced == 0.5 and a.accuracy > 0.8 for a in never)
    assert all(a.right == 1 and 0.4 < a.wrong < 0.6 and a.balanced == (a.right + a.wrong) / 2 for a in above)
    assert score.summarise(right + never)["balanced"] == 0.75


def test_the_command_prints_each_question_and_ends_with_json(trained, tmp_path, capsys):
    lines = [{"question": "How heavy are 2 eggs?", "thing": "egg", "count": 2}, {"id": "x", "question": "One piano?"}]
    lines[1] |= {"thing": "pianos", "count": 1}
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    score.main([f"--workdir={trained[0]}", f"--questions={tmp_path / 'own.jsonl'}", "--show"])
    *table, last = capsys.readouterr().out.splitlines()
    found = json.loads(last)
    assert [row.split()[-1] for row in table] == ["question", "eggs?", "piano?", "all"]
    assert found["n"] == 2 and set(found["questions"]) == {"1", "x"}
    assert found["balanced"] == pytest.approx(np.mean([q["balanced"] for q in found["questions"].values()]))


@pytest.mark.parametrize(
    ("text", "says"),
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
def test_questions_that_cannot_be_used_end_in_one_line(tmp_path, text, says):
    (tmp_path / "own.jsonl").write_text(text)
    with pytest.raises(DataError, match=re.escape(says)) as error:
        score.load_questions(tmp_path / "own.jsonl")
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="cannot be read"):
        score.load_questions(tmp_path / "none.jsonl")
