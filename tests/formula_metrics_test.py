"""What tasks that write are scored by, against formulas of their own."""

from __future__ import annotations

import math
import sys
from fractions import Fraction

import pytest

from numjax.errors import UsageError
from numjax.expr.tree import Tree
from numjax.metrics import formulas, overlap


def n(text) -> Tree:
    return Tree("N", str(text))


def equation(*parts: Tree, symbol: str = "plus") -> Tree:
    return Tree("U", "eq", [Tree("V", "x"), Tree("U", symbol, parts)])


def test_failures_count():
    reference = equation(n(12), n(3))
    other = equation(n(12), n(4))
    found = formulas.scores([reference, other, None, None], [reference] * 4)
    assert found["TED_read"] == 0.5 and found["TED"] == (0 + 1 + 5 + 5) / 4
    assert found["read"] == 0.5 and found["tree_match"] == 0.25 == found["solve_rate"]
    published = formulas.scores([reference, other, None, None], [reference] * 4, as_published=True)
    assert published["TED"] == (0 + 1 + 7 + 7) / 4, "digits are nodes"
    assert "TED_read" not in formulas.scores([None], [reference])


def test_values_are_held_against_the_answer_or_the_reference():
    reference, turned = equation(n(12), n(3)), equation(n(3), n(12))
    third = equation(n(5), Tree("O", "divide", [n(1), n(3)]), symbol="times")
    assert formulas.scores([turned], [reference])["solve_rate"] == 1
    assert formulas.scores([turned], [reference], [Fraction(15)])["solve_rate"] == 1
    assert formulas.scores([turned], [reference], [Fraction(16)])["solve_rate"] == 0
    assert formulas.scores([turned], [reference], [Fraction(16)], as_published=True)["solve_rate"] == 1
    assert formulas.scores([third], [third], [1.66667])["solve_rate"] == 1
    assert formulas.scores([third], [third], [1.66667], tolerance=1e-9)["solve_rate"] == 0
    assert formulas.scores([reference], [reference], [15e9 + 1])["solve_rate"] == 0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("answer", "just", "beyond"),
    [
        (10_000, "10000.99", "10001.01"),  # relative above 1
        (10_000, "9999.01", "9998.99"),
        (1, "1.00009", "1.00011"),
        ("0.5", "0.50009", "0.50011"),  # absolute below 1
        ("0.001", "0.00109", "0.00111"),
        (0, "0.00009", "0.00011"),
    ],
)
def test_values_agree_to_one_in_ten_thousand(sign, answer, just, beyond):
    answer = sign * Fraction(answer)
    assert formulas.values_agree(sign * Fraction(just), answer, formulas.TOLERANCE)
    assert not formulas.values_agree(sign * Fraction(beyond), answer, formulas.TOLERANCE)
    assert not formulas.values_agree(-sign * Fraction(just), answer, formulas.TOLERANCE) or not answer


def test_what_has_no_value_is_not_solved():
    lost = equation(n(1), Tree("O", "divide", [n(1), n(0)]))
    found = formulas.scores([lost, lost], [lost, equation(n(1), n(2))])
    assert found["solve_rate"] == 0 and found["unevaluable"] == 0.5
    huge = Tree("O", "SUP", [n(10), n(400)])
    assert formulas.scores([huge], [huge])["solve_rate"] == 1, "beyond floats"
    assert formulas.scores([huge], [n(1)])["solve_rate"] == 0


SENTENCES = [
    "the cat sat on the mat today",
    r"uniqueness of <m> \partial _ t u = 0 </m>",
    "is there a closed form ?",
]


def test_the_same_is_best_and_nothing_is_worst():
    best = overlap.scores(SENTENCES, SENTENCES)
    assert best["BLEU-4"] == best["ROUGE-L"] == 1 and best["METEOR_exact_stem"] > 0.99
    assert set(overlap.scores([""] * 3, SENTENCES).values()) == {0.0}


def test_bleu_is_that_of_the_corpus():
    found = overlap.bleu(["a b c d e", "f g"], ["a b c d x", "f g h"])
    precisions = (6 / 7, 4 / 5, 2 / 3, 1 / 2)
    brevity = math.exp(1 - 8 / 7)
    assert found == pytest.approx(brevity * math.prod(precisions) ** 0.25)


def test_rouge_is_the_longest_common_subsequence():
    prediction, reference = "a x b c", "a b c d e"
    precision, recall = 3 / 4, 3 / 5
    for beta in (1.0, 1.2):
        wanted = (1 + beta**2) * precision * recall / (recall + beta**2 * precision)
        assert overlap.rouge_l([prediction], [reference], beta) == pytest.approx(wanted)
    published = overlap.scores([prediction], [reference], as_published=True)["ROUGE-L"]
    assert published == overlap.rouge_l([prediction], [reference], overlap.PUBLISHED_BETA)
    assert overlap.rouge_l([r"= \frac"], [r"= \sqrt"]) == 0.5, "signs are tokens"


def test_meteor_knows_stems_but_no_synonyms():
    exact = overlap.meteor(["he walks home"], ["he walks home"])
    assert overlap.meteor(["he walked home"], ["he walks home"]) == exact
    assert overlap.meteor(["a big car"], ["a large car"]) < exact


def test_pairs_must_be_pairs():
    for call in (overlap.bleu, overlap.rouge_l, overlap.meteor, formulas.scores):
        with pytest.raises(UsageError):
            call([], [])
        with pytest.raises(UsageError, match="1 predictions for 0"):
            call(["a"], [])


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(UsageError, match=r"sacrebleu is not installed: pip install 'numjax\[metrics\]'"):
        overlap.bleu(["a"], ["a"])
