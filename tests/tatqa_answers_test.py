"""TAT-QA's answers against exact fractions and intervals, without the released questions."""

from __future__ import annotations

import itertools
from decimal import Decimal
from fractions import Fraction

import pytest

from numjax.tasks.tatqa.answers import assemble, compute, round_answer
from numjax.tasks.tatqa.units import TABLE, Value, make_context

SURE, UNSURE = 0.0, -9.0  # log-probabilities of units that are selected or not


def test_rounded_answers_are_the_nearest_and_halves_go_away_from_zero(rng):
    """Of the multiples of 0.01, or of 0.0001 where 0.01 would give zero; of two that are as near the larger one."""
    halves = [50 * n for n in range(-41, 42)] + [5 * n for n in range(-99, 100)]
    millionths = [10 * n for n in (*range(-520, 520), *rng.integers(-(10**9), 10**9, 400).tolist())]
    for n in [*halves, *(100 * n for n in halves), *millionths]:
        number = Fraction(n, 10**6)
        step = Fraction(1, 100 if abs(number) >= Fraction(1, 200) else 10_000)
        answer = Fraction(repr(round_answer(Decimal(n).scaleb(-6))))
        assert (answer / step).denominator == 1
        assert abs(answer - number) < step / 2 or (abs(answer - number) == step / 2 and abs(answer) > abs(number)), n


@pytest.mark.parametrize("text", ["1e20", "-123456789012345678901234567890.125", "7e300"])
def test_amounts_beyond_all_cents_are_the_nearest_double(text):
    assert round_answer(Decimal(text)) == float(text)


def test_a_quintillion_still_has_cents():
    assert round_answer(Decimal("99999999999999.125")) == 99999999999999.13


def operands(values, scale):
    """The numbers that an operator adds up: percentages as written where the answer is one, else fractions."""
    return [Fraction(v.number) / (100 if v.percent and scale != "percent" else 1) for v in values]


@pytest.mark.parametrize("scale", ["", "million", "percent"])
def test_operators_are_their_formulas_over_exact_fractions(rng, scale):
    for _ in range(60):
        values = [
            Value(Decimal(int(n)).scaleb(-2), bool(rng.integers(2)))
            for n in rng.integers(1, 10**6, rng.integers(2, 5))
        ]
        plain, fractions = operands(values, scale), [Fraction(v.number) / (100 if v.percent else 1) for v in values]
        hundred = 100 if scale == "percent" else 1
        product = Fraction(1)
        for fraction in fractions:
            product *= fraction
        wanted = {
            "SUM": sum(plain),
            "AVERAGE": sum(plain) / len(plain),
            "DIFF": plain[0] - plain[1],
            "TIMES": product * hundred,
            "DIVIDE": fractions[0] / fractions[1] * hundred,
            "CHANGE-RATIO": (fractions[0] / fractions[1] - 1) * hundred,
        }
        for operator, exact in wanted.items():
            result = compute(operator, scale, values)
            assert result is not None and float(result) == pytest.approx(float(exact), rel=1e-12), operator


def test_quotients_are_of_magnitudes_and_never_by_zero():
    loss, gain, zero = (Value(Decimal(n)) for n in (-30, 40, 0))
    for first, second in itertools.product((loss, gain), repeat=2):
        assert compute("DIVIDE", "", [first, second]) == abs(first.number / second.number)
        assert compute("CHANGE-RATIO", "", [first, second]) == first.number / second.number - 1
    assert compute("DIVIDE", "", [gain, zero]) is None and compute("CHANGE-RATIO", "percent", [loss, zero]) is None


def spans(question, table, paragraphs, operator, chosen, scale=""):
    """The answer where the units of these texts are selected."""
    context = make_context(question, table, paragraphs)
    scores = [SURE if context.text[unit.start : unit.end] in chosen else UNSURE for unit in context.units]
    return assemble(context, operator, scale, scores)


SALES = [
    ["", "2019", "2018"],
    ["Sales1", "$300", "200"],
    ["Plants2 and land", "$(111)", "(74)"],
    ["FY 2019 (2)", "1", "2"],
]


@pytest.mark.parametrize(
    ("cell", "question", "answer"),
    [
        ("Sales1", "What rose?", "Sales"),  # a digit after letters is a footnote
        ("Plants2 and land", "What fell?", "Plants2 and land"),  # inside a text it is not
        ("2019", "What is the year?", "2019"),
        ("FY 2019 (2)", "In which year was it?", "2019"),
        ("FY 2019 (2)", "What is it called?", "FY 2019 (2)"),
        ("$300", "How much?", "$300"),
    ],
)
def test_cells_are_answered_without_footnotes_and_years_where_a_year_is_asked(cell, question, answer):
    assert spans(question, SALES, [], "SPAN-TABLE", {cell}) == [answer]


def test_words_in_sequence_are_one_answer_and_lists_are_parted():
    text = ["Its leases end in 2020, 2021 and rent is “fixed income”. Nothing else."]
    assert spans("?", SALES, text, "SPAN-TEXT", {"rent", "is"}) == ["rent is"]
    assert spans("?", SALES, text, "MULTI-SPAN", {"2020,", "2021"}) == ["2020,", "2021"]
    assert spans("?", SALES, text, "COUNT", {"2020,", "2021", "rent"}) == 3
    assert spans("?", SALES, text, "MULTI-SPAN", {"2019", "200", "1"}) == ["2019", "200", "1"]
    assert spans("?", SALES, text, "MULTI-SPAN", {"$300", "200"}) == ["300", "200"], "one currency, or none"
    assert spans("?", SALES, text, "SPAN-TEXT", set()) != [], "the best unit where none is likely"


def test_whole_sentences_are_answers_of_their_own():
    text = ["We lease ships. They are new. No more is e.g. owned."]
    sentences = {"We", "lease", "ships.", "They", "are", "new."}
    assert spans("?", SALES, text, "MULTI-SPAN", sentences) == ["We lease ships.", "They are new."]
    rest = {"No", "more", "is", "e.g.", "owned."}
    assert spans("?", SALES, text, "MULTI-SPAN", rest) == ["No more is e.g. owned."], "a small letter starts nothing"


def test_ordered_operators_take_the_two_best_numbers_in_the_order_of_the_text():
    context = make_context("?", SALES, [])
    texts = [context.text[unit.start : unit.end] for unit in context.units]
    scores = [{"$300": -1.0, "200": -0.5, "(74)": -2.0, "Sales1": 0.0}.get(text, UNSURE) for text in texts]
    assert assemble(context, "DIFF", "", scores) == 100
    assert assemble(context, "DIFF", "", scores, swapped=True) == -100
    assert assemble(context, "CHANGE-RATIO", "percent", scores) == 50
    assert all(unit.group == TABLE for unit in context.units)


def test_a_share_is_of_the_cells_own_line_without_its_totals():
    table = [["", "2019", "2018"], ["North", "30", "10"], ["South", "50", "5"], ["Total", "80", "15"]]
    for operator, scale, answer in (
        ("SHARE-COLUMN", "percent", 37.5), ("SHARE-COLUMN", "", 0.38), ("SHARE-ROW", "percent", 75),
    ):  # fmt: skip
        assert spans("?", table, [], operator, {"30"}, scale) == answer
    across = [["", "2019", "2018", "Total"], ["North", "30", "10", "40"]]
    assert spans("?", across, [], "SHARE-ROW", {"30"}, "percent") == 75
