"""The metrics of tasks that write formulas or text, against their equations."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import pytest

from numjax.errors import UsageError
from numjax.expr.tree import Tree
from numjax.metrics import formulas, overlap


def make_number(text) -> Tree:
    return Tree("N", str(text))


def make_equation(*parts: Tree, symbol: str = "plus") -> Tree:
    return Tree("U", "eq", [Tree("V", "x"), Tree("U", symbol, parts)])


def test_missing_predictions_are_charged():
    reference = make_equation(make_number(12), make_number(3))
    other = make_equation(make_number(12), make_number(4))
    scores = formulas.scores([reference, other, None, None], [reference] * 4)
    assert scores["TED_read"] == 0.5 and scores["TED"] == (0 + 1 + 5 + 5) / 4
    assert scores["read"] == 0.5 and scores["tree_match"] == 0.25 == scores["solve_rate"]
    published = formulas.scores([reference, other, None, None], [reference] * 4, as_published=True)
    assert published["TED"] == (0 + 1 + 7 + 7) / 4, "digits are nodes"
    assert "TED_read" not in formulas.scores([None], [reference])


def test_values_are_compared_with_the_answer_or_the_reference():
    reference, swapped = (
        make_equation(make_number(12), make_number(3)),
        make_equation(make_number(3), make_number(12)),
    )
    third = make_equation(make_number(5), Tree("O", "divide", [make_number(1), make_number(3)]), symbol="times")
    assert formulas.scores([swapped], [reference])["solve_rate"] == 1
    assert formulas.scores([swapped], [reference], [Fraction(15)])["solve_rate"] == 1
    assert formulas.scores([swapped], [reference], [Fraction(16)])["solve_rate"] == 0
    assert formulas.scores([swapped], [reference], [Fraction(16)], as_published=True)["solve_rate"] == 1
    assert formulas.scores([third], [third], [1.66667])["solve_rate"] == 1
    assert formulas.scores([third], [third], [1.66667], tolerance=1e-9)["solve_rate"] == 0
    assert formulas.scores([reference], [reference], [15e9 + 1])["solve_rate"] == 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("answer", "inside", "outside"),
    [
        (10_000, "10000.99", "10001.01"),  # relative above 1
        (10_000, "9999.01", "9998.99"),
        (1, "1.00009", "1.00011"),
        ("0.5", "0.50009", "0.50011"),  # absolute below 1
        ("0.001", "0.00109", "0.00111"),
        (0, "0.00009", "0.00011"),
    ],
)
def test_values_agree_to_one_in_ten_thousand(sign, answer, inside, outside):
    answer = sign * Fraction(answer)
    assert formulas.values_agree(sign * Fraction(inside), answer, formulas.TOLERANCE)
    assert not formulas.values_agree(sign * Fraction(outside), answer, formulas.TOLERANCE)
    assert not formulas.values_agree(-sign * Fraction(inside), answer, formulas.TOLERANCE) or not answer


@pytest.mark.parametrize("tolerance", [None, formulas.TOLERANCE])
def test_a_number_beyond_floats_is_no_complex_one(tolerance):
    assert not formulas.values_agree(Fraction(10**400), 1j, tolerance)
    assert not formulas.values_agree(1j, -Fraction(10**400), tolerance)
    assert formulas.values_agree(1j, 1j, tolerance) and formulas.values_agree(2 + 0j, Fraction(2), tolerance)


def test_complex_values_agree_relatively_too():
    assert formulas.values_agree(1000.05j, 1000j, 1e-4) and not formulas.values_agree(1000.2j, 1000j, 1e-4)
    assert formulas.values_agree(0.00005j, 0j, 1e-4) and not formulas.values_agree(0.0002j, 0j, 1e-4)


def test_formulas_without_a_value_are_not_solved():
    undefined = make_equation(make_number(1), Tree("O", "divide", [make_number(1), make_number(0)]))
    scores = formulas.scores([undefined, undefined], [undefined, make_equation(make_number(1), make_number(2))])
    assert scores["solve_rate"] == 0 and scores["unevaluable"] == 0.5
    huge = Tree("O", "SUP", [make_number(10), make_number(400)])
    assert formulas.scores([huge], [huge])["solve_rate"] == 1, "beyond floats"
    assert formulas.scores([huge], [make_number(1)])["solve_rate"] == 0


SENTENCES = [
    "the cat sat on the mat today",
    r"uniqueness of <m> \partial _ t u = 0 </m>",
    "is there a closed form ?",
]


def test_equal_texts_score_best_and_empty_texts_worst():
    best = overlap.scores(SENTENCES, SENTENCES)
    assert best["BLEU-4"] == best["ROUGE-L"] == 1 and best["METEOR_exact_stem"] > 0.99
    assert set(overlap.scores([""] * 3, SENTENCES).values()) == {0.0}


def test_bleu_is_that_of_the_corpus():
    bleu = overlap.bleu(["a b c d e", "f g"], ["a b c d x", "f g h"])
    precisions = (6 / 7, 4 / 5, 2 / 3, 1 / 2)
    brevity = math.exp(1 - 8 / 7)
    assert bleu == pytest.approx(brevity * math.prod(precisions) ** 0.25)


def test_rouge_is_the_longest_common_subsequence():
    prediction, reference = "a x b c", "a b c d e"
    precision, recall = 3 / 4, 3 / 5
    for beta in (1.0, 1.2):
        expected = (1 + beta**2) * precision * recall / (recall + beta**2 * precision)
        assert overlap.rouge_l([prediction], [reference], beta) == pytest.approx(expected)
    published = overlap.scores([prediction], [reference], as_published=True)["ROUGE-L"]
    assert published == overlap.rouge_l([prediction], [reference], overlap.PUBLISHED_BETA)
    assert overlap.scores([prediction], [reference])["ROUGE-L"] == overlap.rouge_l([prediction], [reference], 1.0)
    assert overlap.rouge_l([r"= \frac"], [r"= \sqrt"]) == 0.5, "signs are tokens"


def test_meteor_matches_stems_but_no_synonyms():
    exact = overlap.meteor(["he walks home"], ["he walks home"])
    assert overlap.meteor(["he walked home"], ["he walks home"]) == exact
    assert overlap.meteor(["a big car"], ["a large car"]) < exact


def test_empty_or_unequal_lists_are_refused():
    for call in (overlap.bleu, overlap.rouge_l, overlap.meteor, formulas.scores):
        with pytest.raises(UsageError):
            call([], [])
        with pytest.raises(UsageError, match="1 predictions for 0"):
            call(["a"], [])


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(
        UsageError, match=r"sacrebleu is not installed: in the checkout, pip install -e '\.\[metrics\]'"
    ):
        overlap.bleu(["a"], ["a"])
