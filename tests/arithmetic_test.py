"""The task arithmetic: its options, prompts and metrics."""

from __future__ import annotations

import re
from decimal import Decimal

import pytest

from numjax.build import build
from numjax.bundled.data.arithmetic import generate
from numjax.bundled.data.arithmetic.edges import list_edges
from numjax.bundled.data.arithmetic.operations import OPERATIONS
from numjax.errors import DataError, UsageError
from numjax.metrics.regression import r_squared, scaled_error
from numjax.tasks.arithmetic import match_digits, write_scratchpad
from numjax.text import document as documents
from numjax.types import Mark


def test_too_many_problems_are_one_line():
    with pytest.raises(UsageError, match="add does not hold that many different problems"):
        list(generate.make_problems(["add"], 200, 1, seed=0, length=1, longer=[]))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"operations": "add+plus"}, "no operation 'plus'; there are add"),
        ({"size": 0}, "size and test must be at least 1"),
        ({"longer": "8+x"}, "give lengths such as"),
        ({"longer": "5"}, "longer has lengths from 7 to 100"),
        ({"operations": "add+sub+add"}, "has one twice: give each once"),
    ],
)
def test_bad_options_are_one_line(options, says):
    from numjax.bundled.data.arithmetic.builder import Arithmetic

    with pytest.raises(UsageError, match=says):
        Arithmetic.complete_options(options)


def test_a_seed_is_any_whole_number_below_its_bound():
    from numjax.bundled.data.arithmetic.builder import Arithmetic

    for seed in (2**53 + 1, 2**63 - 1, 5.0, "7"):
        assert Arithmetic.complete_options({"seed": seed})["seed"] == int(seed)
    for seed in (2**63, 5.5, float("inf"), "5.0", None):
        with pytest.raises(UsageError, match="seed="):
            Arithmetic.complete_options({"seed": seed})


def make_task(**options):
    return build("tasks", {"name": "arithmetic"} | options)


def score(prediction, answer, operation="add", accepted=None, stream="inside", question=""):
    reference = {
        "question": question,
        "answer": answer,
        "accepted": accepted or answer,
        "operation": operation,
        "stream": stream,
    }
    return make_task().score([prediction], [reference])


@pytest.mark.parametrize(
    ("value", "gold", "share"),
    [
        *(("1334", "1234", 0.75), ("91234", "1234", 1), ("34", "1234", 0.5), ("-1234", "1234", 0)),
        *(("0", "100", 1 / 3), ("0.5", "0.25", 1 / 3), ("12", "12.5", 2 / 3), ("1e3", "1000", 1)),
    ],
)
def test_digit_match_counts_places_from_the_point(value, gold, share):
    assert match_digits(Decimal(value), Decimal(gold)) == pytest.approx(share)


@pytest.mark.parametrize("text", ["3e1000000", "-3e-1000000", "1e999999999999999999", "3e-999999999999999999"])
def test_a_number_of_any_size_is_scored(text):
    """A model that is not trained writes what the grammar allows."""
    assert score(text, "46", "convert")["exact"] == 0 <= score(text, "46")["digits"] < 1


def test_answers_are_compared_by_their_values_and_form():
    assert score("046.0", "46")["exact"] == 1 and score("47", "46")["exact"] == 0
    assert score("1 , 2 , 3", "1 , 2 , 3", "sort")["exact"] == 1
    assert score("2 , 1 , 3", "1 , 2 , 3", "sort") == score("2 , 1 , 3", "1 , 2 , 3", "sort") | {"exact": 0.0}
    assert score("1 , 2", "1 , 2 , 3", "sort")["well_formed"] == 0
    assert score("13 / 31", "13 / 31", "frac")["exact"] == 1 and score("26 / 62", "13 / 31", "frac")["exact"] == 0
    assert score("0803", "00803", "copy")["exact"] == 0 and score("5.04e4", "5.04e4", "convert")["exact"] == 1
    assert score("12", "34", "pick", accepted="34 | 12")["exact"] == 1
    assert score("12", "34", "pick", accepted="34 | 12")["digits"] == 1
    assert score("14", "34", "pick", accepted="34 | 12")["digits"] == 0.5
    assert score("56", "34", "pick", accepted="34 | 12")["exact"] == 0
    missing = score(None, "46")
    assert missing["exact"] == missing["well_formed"] == missing["digits"] == 0
    assert score("46", "46")["exact/add/inside"] == score("46", "46")["exact/add"] == 1


def test_the_true_answers_are_right():
    rows = list(generate.make_problems(list(OPERATIONS), 66, 4, seed=1, length=4, longer=[6]))
    task = make_task(operations="all")
    predictions, references = [], []
    for _, record in rows:
        example = task.example(record, documents.parse)
        predictions.append(task.predicted(example.document[example.loss_from :]))
        references.append(example.reference)
    metrics = task.score(predictions, references)
    assert metrics["r2/tabular"] == metrics["r2/orbit/magnitude"] == 1
    perfect = {name: float(not name.startswith("scaled_error")) for name in metrics}
    assert metrics == perfect


def test_r_squared_is_a_share_of_the_variance():
    golds = [Decimal(n) for n in (1, 2, 3, 6)]
    assert r_squared(golds, golds) == 1 and r_squared([Decimal(3)] * 4, golds) == r_squared([None] * 4, golds) == 0
    assert r_squared([Decimal(2), Decimal(2), Decimal(3), Decimal(5)], golds) == pytest.approx(1 - 2 / 14)
    assert (
        r_squared([Decimal("1e200"), *golds[1:]], golds) == r_squared([Decimal("1e999999"), *golds[1:]], golds) == -1
    )
    assert r_squared([Decimal(3)], [Decimal(3)]) == 1 and r_squared([Decimal(4)], [Decimal(3)]) == -1
    assert r_squared([], []) == 0


def test_a_scaled_error_is_in_steps_of_the_history():
    history = [Decimal(n) for n in (10, 12, 11, 14)]
    assert (
        scaled_error(Decimal(16), Decimal(14), history) == 1 and scaled_error(Decimal(14), Decimal(14), history) == 0
    )
    assert scaled_error(None, Decimal(14), history) == scaled_error(Decimal("1e999999"), Decimal(14), history) == 10
    assert scaled_error(Decimal(5), Decimal(5), [Decimal(5)] * 3) == 0
    assert scaled_error(Decimal(6), Decimal(5), [Decimal(5)] * 3) == 10
    row = score("16", "14", "series", question="next 10 12 11 14 =")
    assert row["scaled_error"] == row["scaled_error/series/inside"] == 1 and row["exact"] == 0
    assert score("16 , 17", "14", "series", question="next 10 12 11 14 =")["scaled_error"] == 10
    assert "scaled_error" not in score("16", "14")


def test_regressions_are_scored_by_stream():
    """An answer of another form is no number."""
    answers = {"inside": ("1.5", "2.5", "3.5"), "magnitude": ("150", "250", "350")}
    references = [
        {"question": "", "answer": a, "accepted": a, "operation": "tabular", "stream": stream}
        for stream, group in answers.items()
        for a in group
    ]
    metrics = make_task().score(["1.5", "2.5", "3.5", "150", None, "350 or so"], references)
    assert metrics["r2/tabular/inside"] == 1 and metrics["r2/tabular/magnitude"] == 0.5
    assert 0 < metrics["r2/tabular"] < 1 and "r2/add" not in metrics


def test_a_typed_question_is_a_prompt_with_or_without_its_sign():
    task = make_task()
    record = {"id": "a", "question": "12 + 34 =", "answer": "46", "accepted": "46", "operation": "add", "stream": ""}
    prompt = task.prompt_from_text("12 + 34", documents.parse)
    assert prompt == task.prompt_from_text(" 12 + 34 =", documents.parse) == task.prompt(record, documents.parse)
    assert prompt[-1] == Mark("[SEP]")
    with pytest.raises(DataError, match="there is no question in it"):
        task.prompt_from_text(" = ", documents.parse)
    with pytest.raises(UsageError, match=r"set task\.answer=text"):
        make_task(operations="add+sort", answer="number")


def test_a_scratchpad_has_the_digits_and_carries_of_the_sum(rng):
    assert write_scratchpad("19 + 29 =") == "A->8 , C->1 ; A->4 , C->0 ; "
    assert write_scratchpad("128 + 367 =") == "A->5 , C->1 ; A->9 , C->0 ; A->4 , C->0 ; "
    problems = [OPERATIONS["add"](rng, length) for length in range(1, 31) for _ in range(10)]
    for problem in [*problems, *list_edges("add", 40)]:
        operands = re.findall("[0-9]+", problem.question)
        steps = re.findall(r"A->([0-9]) , C->([01]) ; ", text := write_scratchpad(problem.question))
        assert len(text) == 14 * len(steps) and len(steps) == max(map(len, operands))
        for place, (_, carry) in enumerate(steps, 1):
            assert int(carry) == sum(int(operand) % 10**place for operand in operands) // 10**place
        assert int(steps[-1][1] + "".join(digit for digit, _ in reversed(steps))) == int(problem.answer)


def test_the_prediction_is_what_stands_behind_the_last_step():
    task = make_task(operations="add+max", steps="scratchpad")
    rows = [record for _, record in generate.make_problems(["add", "max"], 36, 4, seed=1, length=4, longer=[6])]
    examples = [task.example(record, documents.parse) for record in rows]
    predictions = [task.predicted(example.document[example.loss_from :]) for example in examples]
    assert predictions == [record["answer"] for record in rows]
    texts = list(task.texts(rows))
    for record, example, text in zip(rows, examples, texts, strict=True):
        is_sum = record["operation"] == "add"
        answer = (write_scratchpad(record["question"]) if is_sum else "") + record["answer"]
        written = example.document[example.loss_from : -1]
        assert "".join(documents.surface_of(segment) for segment in written) == f" {answer}"
        assert text == f"{record['question']} {answer}"
    unfinished = task.predicted(documents.parse(" A->5 , C->1 ; A->9 , C->0"))
    assert task.score([unfinished], [examples[0].reference])["well_formed"] == 0


def test_steps_need_a_sum():
    with pytest.raises(DataError, match=r"'1\.5 \+ 2 =' has no steps: they need a sum of two whole numbers"):
        write_scratchpad("1.5 + 2 =")
    with pytest.raises(UsageError, match="steps must be empty or scratchpad, not 'detailed'"):
        make_task(steps="detailed")
    with pytest.raises(UsageError, match=r"more than one number: set task\.answer=text"):
        make_task(steps="scratchpad", answer="number")
