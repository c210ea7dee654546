"""Scheme slots: a long number in several [NUM], whose sum it is."""

from __future__ import annotations

from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from numjax.build import build, find
from numjax.bundled.configs import schemes
from numjax.config import fit
from numjax.errors import DataError, UsageError
from numjax.system import System
from numjax.text import vocab as vocabularies
from numjax.types import Mark, Number, NumberRange, Text
from tests.swapped import train_with_changes


@pytest.fixture(scope="module")
def vocabulary():
    return vocabularies.build({"name": "sentencepiece", "size": 320}, ["How many grams are 2 eggs? 1,200 or -3.2%."])


def make_scheme(vocabulary, **options):
    return find("text", "slots")(vocabulary, **options)


def read_slots(scheme, text: str) -> list[str]:
    row = scheme.encode(scheme.parse(text))
    names = [scheme.vocab.mark_name(i) for i in row.ids.tolist()]
    assert names == ["[R]", *["[NUM]"] * len(row.numbers), "[/R]"]
    assert row.numeral_index.tolist() == [-1, *range(len(row.numbers)), -1]
    return [str(number.value) for number in row.numbers]


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("1234567.5", ["34567.5", "12"]),
        ("-1234567", ["-34567", "-12"]),
        ("-100000", ["-0", "-1"]),
        ("12345", ["12345"]),
        ("0.001", ["0.001"]),
        ("1e10", ["00000", "00000", "1"]),
        ("50%", ["0.50"]),
    ],
)
def test_a_number_is_cut_at_its_point(text, slots, vocabulary):
    assert list(map(Decimal, read_slots(make_scheme(vocabulary), text))) == list(map(Decimal, slots))
    assert [s[0] == "-" for s in read_slots(make_scheme(vocabulary), text)] == [s[0] == "-" for s in slots]


def test_a_zero_is_one_slot_however_small_it_is_written(vocabulary):
    scheme = make_scheme(vocabulary)
    for text, slot in (("0e-99999999999", "0"), ("-0.000", "-0"), ("0.0", "0")):
        row = scheme.encode(scheme.parse(text))
        assert [str(number.value) for number in row.numbers] == [slot]
        assert scheme.decode(row.ids, row.numbers) == (Number(text, Decimal(slot)),)


@pytest.mark.parametrize("digits", [1, 3, 5, 9])
def test_numbers_of_any_length_come_back(digits, vocabulary, rng):
    """Decimal's own sums would round to 28 digits."""
    scheme = make_scheme(vocabulary, digits=digits, most=200)
    surfaces = ["007", "1,234,567.50", "-0", "-100000", "1.5e3", "12%"]
    for _ in range(300):
        text = "".join(map(str, rng.integers(0, 10, rng.integers(1, 70))))
        at = int(rng.integers(1, len(text) + 1))
        surfaces.append(("-" if rng.random() < 0.4 else "") + text[:at] + (f".{text[at:]}" if text[at:] else ""))
    document = (Mark("[CLS]"), *scheme.parse(" and ".join(surfaces)), Mark("[EOS]"))
    row = scheme.encode(document)
    assert scheme.decode(row.ids, row.numbers) == document
    whole = [s for s in document if isinstance(s, Number)]
    assert scheme.decode(row.ids, whole) == document, "a generated text has whole numbers"
    joined = scheme.join_numbers(row.ids.tolist(), [number.value for number in row.numbers])
    assert [n.value for n in joined] == [n.value for n in whole]
    assert [n.value.is_signed() for n in joined] == [n.value.is_signed() for n in whole]


def test_a_number_is_the_sum_of_what_is_predicted(vocabulary):
    """Also of slots that no number has: with more digits, other signs, or nothing above."""
    scheme = make_scheme(vocabulary)
    opening, num_id, closing = (scheme.vocab.mark(name) for name in ("[R]", "[NUM]", "[/R]"))
    ids = [num_id, opening, num_id, num_id, closing, opening, num_id, closing, opening, num_id]
    values = [Decimal(text) for text in ("9", "123456.25", "-2", "7", "8")]
    numbers = scheme.join_numbers(ids, values)
    assert [number.value for number in numbers] == [Decimal("-76543.75"), Decimal(7)]
    decoded = scheme.decode(ids, numbers)
    assert [s for s in decoded if isinstance(s, Number)] == numbers
    assert decoded[-2:] == (Mark("[R]"), Mark("[NUM]")), "an open number stays as it is"
    assert scheme.decode([opening, num_id, closing]) == (Mark("[NUM]"),)
    assert scheme.join_numbers([opening, closing], []) == []


def test_a_number_of_more_digits_than_python_writes_comes_back(vocabulary):
    """Python refuses to write or read an int of more than 4,300 digits."""
    scheme = make_scheme(vocabulary, digits=100, most=20)
    opening, num_id, closing = (scheme.vocab.mark(name) for name in ("[R]", "[NUM]", "[/R]"))
    slots = [Decimal(10**99 + i) for i in range(44)]
    (number,) = scheme.join_numbers([opening, *[num_id] * 44, closing], slots)
    assert number.value == Decimal("".join(str(slot) for slot in reversed(slots)))
    assert scheme.decode([opening, *[num_id] * 44, closing], [number]) == (number,)


def test_a_number_that_is_too_long_is_refused(vocabulary):
    scheme = make_scheme(vocabulary, digits=2, most=3)
    for text in ("1234567", "0.1234567", "1e-9000", "-1e9000"):
        with pytest.raises(DataError, match="more than 6 digits"):
            scheme.encode((Number(text, Decimal(text)),))
    assert read_slots(scheme, "123456.123456") == ["56.123456", "34", "12"]


@pytest.mark.parametrize(
    ("slot", "whole"),
    [
        (NumberRange(places=5, high=4), NumberRange(places=5, high=99)),
        (NumberRange(digits=20, places=5, high=4), NumberRange(places=5, high=99)),
        (NumberRange(digits=7), NumberRange(places=2, high=99)),
        (NumberRange(signed=False, places=0, high=9), NumberRange(signed=False, places=0, high=99)),
        (NumberRange(places=5, high=3), NumberRange(places=5, high=3)),
        (NumberRange(digits=4), NumberRange(digits=4)),
        (NumberRange(digits=15, low=-7, high=307), NumberRange(places=7, high=99)),
        (NumberRange(low=1), NumberRange(low=1)),
    ],
)
def test_what_slots_hold_says_what_numbers_are_held(slot, whole, vocabulary):
    assert make_scheme(vocabulary).widen(slot) == whole
    digit = NumberRange(places=0, high=0)
    assert make_scheme(vocabulary, digits=1, most=9).widen(digit) == NumberRange(places=0, high=8)


def test_a_number_whose_beginning_is_cut_off_leaves_the_next_one_alone(vocabulary):
    scheme = make_scheme(vocabulary)
    row = scheme.encode(scheme.parse("1234567 and 89"))
    assert scheme.decode(row.ids[2:], row.numbers[1:])[-1] == Number("89", Decimal(89))


def test_text_between_numbers_stays(vocabulary):
    scheme = make_scheme(vocabulary)
    document = (Mark("[CLS]"), Text("pay "), Number("1234567", Decimal(1234567)), Text(" now"), Mark("[EOS]"))
    row = scheme.encode(document)
    assert scheme.decode(row.ids, row.numbers) == document
    assert list(np.diff(row.starts)) == [1, 4, 4, 4, 1]


def test_an_embedding_that_spells_is_refused():
    config = schemes.get_config("fone_slots,smoke")
    with config.unlocked():
        config.embeds.numeral = dict(name="char_lstm", fusion="add")
    with pytest.raises(UsageError, match="parts of numbers"):
        fit.check(config, build("tasks", config.task))


def test_a_model_writes_long_numbers_and_says_how_sure_it_is(tmp_path):
    config = schemes.get_config("fone_slots,smoke")
    with config.unlocked():
        config.task.answer = "number"
    model, metrics = train_with_changes(tmp_path, config)
    assert {"next/digits", "next/sign", "next/token"} <= set(metrics)
    question = "123456789 + 987654321 ="
    generation = model.generate(question, max_tokens=12, intervals=(0.5,))
    (number, *_) = generation.numbers
    assert number["value"] in generation.text and number["value"] == str(Decimal(number["value"]))
    assert 0 < number["probability"] <= 1 and number["method"] == "samples"
    (interval,) = number["intervals"]
    assert Decimal(interval["low"]) <= Decimal(interval["high"])


def test_a_head_that_writes_no_numbers_in_slots_says_none(vocabulary):
    config = SimpleNamespace(data=SimpleNamespace(digits=20))

    def find_writes(number_range):
        head = SimpleNamespace(provides=lambda name: True, number_range=number_range, exact=False)
        model = SimpleNamespace(heads={"masked": head}, embeds={}, backbone=SimpleNamespace(positions={}))
        system: Any = SimpleNamespace(scheme=make_scheme(vocabulary), model=model, config=config)
        return System.find_abilities(system).writes

    assert find_writes(None) is None
    assert find_writes(NumberRange(places=3, high=8)).high == 99
