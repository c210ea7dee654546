"""Arithmetic: answers against exact computations from the question's text, splits, and metrics."""

from __future__ import annotations

import collections
import math
import re
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.data.arithmetic import generate
from numjax.bundled.data.arithmetic.operations import OPERATIONS, list_edges, round_half_up
from numjax.errors import DataError, UsageError
from numjax.tasks.arithmetic import match_digits, write_scratchpad
from numjax.text import document as documents
from numjax.types import Mark

NUMBER = r"-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e-?[0-9]+)?"


def solve(question: str) -> str | list[str]:
    """Returns the answer of a question, computed from its text with fractions; for pick both answers."""
    numbers = [Fraction(text.replace(",", "")) for text in re.findall(NUMBER, question.replace(" , ", " ; "))]
    texts = re.findall(NUMBER, question.replace(" , ", " ; "))
    word = question.split()[0]
    if word == "copy":
        return question.removeprefix("copy ").removesuffix(" =")
    if word == "pick":
        return [str(number) for number in numbers]
    if word == "max":
        return spell(max(numbers))
    if word == "sort":
        return " , ".join(map(spell, sorted(numbers)))
    if word == "digit":
        return texts[1][len(texts[1]) - int(texts[0])]
    if word == "length":
        return str(len(texts[0]))
    if word == "count":
        return str(texts[1].count(texts[0]))
    if word == "round":
        return round_slowly(numbers[0], int(numbers[1]))
    if word == "write":
        return spell(numbers[0]) if question.endswith("plainly =") else write_power(numbers[0])
    if word == "reduce":
        return spell_fraction(numbers[0] / numbers[1])
    if " mod " in question:
        a, b, p = numbers
        return str((a + b if "+" in question else a * b) % p)
    if question.count("/") == 2:
        return spell_fraction(numbers[0] / numbers[1] + numbers[2] / numbers[3])
    a, b = numbers
    sign = question.split()[1]
    if sign in "+-":
        return spell(a + b if sign == "+" else a - b)
    value = a * b if sign == "*" else a / b
    is_long = sign == "/" or "." in question or value >= 10**7
    return spell(value) if not is_long else spell(Fraction(round_slowly(value, 7)))


def spell(value: Fraction) -> str:
    places = next(n for n in range(400) if (value * 10**n).denominator == 1)
    digits = str(abs((value * 10**places).numerator)).zfill(places + 1)
    text = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return f"-{text}" if value < 0 else text


def spell_fraction(value: Fraction) -> str:
    return str(value).replace("/", " / ")


def round_slowly(value: Fraction, digits: int) -> str:
    exponent = 0
    while Fraction(10) ** (exponent + 1) <= value:
        exponent += 1
    while Fraction(10) ** exponent > value:
        exponent -= 1
    for place in (exponent - digits + 1, exponent - digits + 2):
        steps = math.floor(value / Fraction(10) ** place + Fraction(1, 2))
        if len(str(steps)) == digits:
            break
    text = str(steps) + "0" * max(place, 0)
    return text if place >= 0 else f"{text.zfill(1 - place)[:place]}.{text.zfill(1 - place)[place:]}"


def write_power(value: Fraction) -> str:
    digits, exponent = spell(value).replace(".", "").lstrip("0").rstrip("0"), 0
    while Fraction(10) ** (exponent + 1) <= value:
        exponent += 1
    while Fraction(10) ** exponent > value:
        exponent -= 1
    return digits[0] + (f".{digits[1:]}" if digits[1:] else "") + f"e{exponent}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_answers_are_those_of_exact_fractions(name, rng):
    draw = OPERATIONS[name]
    problems = [draw(rng, length) for length in (1, 2, 3, 4, 6, 8, 12, 20) for _ in range(40)]
    for problem in problems:
        expected = solve(problem.question)
        if name in ("mul1", "mul2", "mul"):
            a, b = map(int, re.findall(NUMBER, problem.question))
            expected = str(a * b)
        if isinstance(expected, list):
            assert sorted(expected) == sorted((problem.answer, *problem.accepted))
        else:
            assert problem.answer == expected, problem.question


def test_published_roundings():
    texts = {("2.3551", 3): "2.36", ("9.9999", 3): "10.0", ("12.351", 3): "12.4", ("99951", 3): "100000"}
    assert {key: round_half_up(Decimal(key[0]), key[1]) for key in texts} == texts


def test_a_carry_runs_through_all_places_in_a_tenth_of_the_sums(rng):
    sums = [OPERATIONS["add"](rng, 6) for _ in range(4000)]
    chains = 0
    for problem in sums:
        a, b, total = (int(text) for text in (*re.findall(NUMBER, problem.question), problem.answer))
        chains += total >= 10 ** max(len(str(a)), len(str(b))) and total % 10 ** (len(str(total)) - 1) == 0
    assert 0.08 < chains / len(sums) < 0.12


def canonical(question: str) -> tuple:
    """Returns a question without the order of sums, products and lists."""
    values = tuple(Fraction(t.replace(",", "")) for t in re.findall(NUMBER, question.replace(" , ", " ; ")))
    words = re.sub(NUMBER, "#", question.replace(" , ", " ; "))
    is_unordered = words in ("# + # =", "# * # =") or words.startswith(("max", "sort", "pick"))
    return words, tuple(sorted(values)) if is_unordered else values


def test_splits_share_no_values():
    names = list(OPERATIONS)
    rows = list(generate.make_problems(names, 9000, 30, seed=3, length=6, longer=[8, 12]))
    splits = collections.defaultdict(list)
    for split, record in rows:
        splits[split].append(record)
    assert len(splits["train"]) == 9000 and len({record["id"] for _, record in rows}) == len(rows)
    copies = [(record["operation"], canonical(record["question"])) for _, record in rows]
    # Ways of writing one number are different questions only where the way is asked for.
    counts = collections.Counter(key for key in copies if key[0] not in ("copy", "convert", "round", "count"))
    assert max(counts.values()) == 1
    streams = collections.Counter((r["operation"], r["stream"]) for r in splits["test"])
    assert streams["add", "inside"] == streams["add", "length 12"] == 30 and streams["add", "edges"] > 10
    assert ("mul", "length 8") not in streams and ("fmul", "length 8") not in streams
    for record in splits["test"]:
        if record["operation"] == "add" and record["stream"] == "length 12":
            assert max(len(text) for text in re.findall(NUMBER, record["question"])) == 12
    assert all(record["answer"] in record["accepted"].split(" | ") for _, record in rows)


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
    ],
)
def test_bad_options_are_one_line(options, says):
    from numjax.bundled.data.arithmetic.builder import Arithmetic

    with pytest.raises(UsageError, match=says):
        Arithmetic.complete_options(options)


def make_task(**options):
    return build("tasks", {"name": "arithmetic"} | options)


def score(prediction, answer, operation="add", accepted=None, stream="inside"):
    reference = {"answer": answer, "accepted": accepted or answer, "operation": operation, "stream": stream}
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
    assert score("56", "34", "pick", accepted="34 | 12")["exact"] == 0
    missing = score(None, "46")
    assert missing["exact"] == missing["well_formed"] == missing["digits"] == 0
    assert score("46", "46")["exact/add/inside"] == score("46", "46")["exact/add"] == 1


def test_the_true_answers_are_right():
    rows = list(generate.make_problems(list(OPERATIONS), 36, 4, seed=1, length=4, longer=[6]))
    task = make_task(operations="all")
    predictions, references = [], []
    for _, record in rows:
        example = task.example(record, documents.parse)
        predictions.append(task.predicted(example.document[example.loss_from :]))
        references.append(example.reference)
    metrics = task.score(predictions, references)
    assert {name: value for name, value in metrics.items() if value != 1} == {}


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


def test_decimal_context_does_not_round():
    """Long operands must not meet the default context of 28 digits."""
    rng = np.random.default_rng(0)
    with localcontext(prec=5, rounding=ROUND_HALF_UP):
        for _ in range(50):
            problem = OPERATIONS["decadd"](rng, 40)
            assert problem.answer == solve(problem.question)


def test_a_scratchpad_has_the_digits_and_carries_of_the_sum(rng):
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
