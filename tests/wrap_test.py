"""Formulas in plain text and in HTML."""

from __future__ import annotations

import gzip
import json
import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numjax.expr import latex
from numjax.expr.evaluate import solve
from numjax.expr.prose.wrap import from_html, wrap_formulas
from numjax.expr.tree import Tree

FORMULA = re.compile("<m> (.*?) </m>")


@pytest.mark.parametrize(
    ("text", "formulas"),
    [
        ("She sold 48/2 = 24 clips in May.", ["48 / 2 = 24"]),
        ("3 a day", ["3"]),
        ("12 6 x = 2", ["12", "6", "x = 2"]),  # two operands end a run
        ("I had a pen, k pens and q pens", ["k"]),  # one word: a number or one of k, x, y, z
        ("α is not b", [r"\alpha"]),
        ("0.2 x 50 = $10", [r"0.2 \times 50 = \$ 10"]),
        ("2x3, a x b, 2x + 3, 11x.", [r"2 \times 3", r"a \times b", "2x + 3", "11x"]),
        ("What is 3 + 5? Or 3 + ? = 8?", ["3 + 5", "3 + ? = 8"]),
        ("x + 3 = ____", [r"x + 3 = \_"]),
        ("page 3) of (5 apples) and (7)", ["3", "5", "7"]),  # brackets without their partner, or around one word
        ("(if x > 3) + 2", ["x > 3", "2"]),
        ("covid-19, a 120-page book, an e-mail", ["19", "120"]),
        ("Answer: 5 at 10:30, 3 : 5", ["5", "10 : 30", "3 : 5"]),
        ("50% of 40°, 2πr", [r"50 \%", r"40 \degree", r"2 \pi r"]),
        ("x=5\n- 3 apples", ["x = 5", "3"]),
        ("from 6 pm to 10pm, 2nd", ["6"]),
        ("so f(x) = -3(x + 1)", ["f ( x ) = - 3 ( x + 1 )"]),
        ("x_1 + y_2 is snake_case", ["x _ 1 + y _ 2"]),
        ("already <m> 3 + y </m> and 4", ["3 + y", "4"]),
        ("", []),
    ],
)
def test_runs_of_operands_and_signs_are_formulas(text, formulas):
    assert FORMULA.findall(wrap_formulas(text)) == formulas


def test_text_outside_formulas_is_untouched():
    assert wrap_formulas("He has (3) pens, costing $12!") == r"He has (<m> 3 </m>) pens, costing <m> \$ 12 </m>!"
    assert wrap_formulas(r"the set \{a word\} and \textbackslash here") == "the set {a word} and \\here"


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>What is 3 &divide; 4?</p><p>next</p>", "What is 3 ÷ 4?\nnext"),
        ("x<sub>1</sub> + 4<sup>2</sup>", "x _ { 1 } + 4 ^ { 2 }"),
        ("<ul><li>7x\n = 2</li><li>-x = 3<br>y</li>", "7x = 2\n-x = 3\ny"),
        ("{a} \\b", r"\{a\} \textbackslash b"),
        ("____ &nbsp; <b>is", r"\_ is"),
        ("<math><mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><mn>2</mn></mfrac></math>",
         r"\frac { a + 1 } { 2 }"),
        ("<math><msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup></math>", "x _ { 1 } ^ { 2 }"),
        ("<math><mroot><mi>x</mi><mn>3</mn></mroot><msqrt><mi>a</mi><mn>2</mn></msqrt></math>",
         r"\sqrt [ { 3 } ] { x } \sqrt { a 2 }"),
        ('<img data-mathml="«math»«msup»«mi»x«/mi»«mn»2«/mn»«/msup»«/math»"/> of', "x ^ { 2 } of"),
        ("<script>x = 3</script>10<sup>-3", "10 ^ { -3 }"),
        ("a &lt; b, 3 < 5", "a < b, 3 < 5"),
    ],
)  # fmt: skip
def test_html_becomes_text_and_latex(html, text):
    assert from_html(html) == text


@pytest.mark.parametrize(
    ("html", "value"),
    [
        ("6 ÷ ½", 12), ("2½ + 1", Fraction(7, 2)), ("6 × 2½", 15), ("¾", Fraction(3, 4)),
        ("<math><mn>6</mn><mo>÷</mo><mfrac><mn>3</mn><mn>4</mn></mfrac></math>", 8),
        ("<math><mn>2</mn><mo>^</mo><mfrac><mn>4</mn><mn>2</mn></mfrac></math>", 4),
        ("<math><msup><mn>-2</mn><mn>2</mn></msup></math>", 4),
        ("<math><msup><mn>−3</mn><mn>3</mn></msup></math>", -27),
        ("<math><mn>3</mn><mfrac><mn>1</mn><mn>2</mn></mfrac></math>", Fraction(7, 2)),
    ],
)  # fmt: skip
def test_formulas_of_html_have_their_values(html, value):
    (formula,) = FORMULA.findall(wrap_formulas(from_html(html)))
    tree = latex.parse(formula)
    assert isinstance(tree, Tree) and solve(tree) == value


def test_formulas_of_html_become_trees():
    (formula,) = FORMULA.findall(
        wrap_formulas(from_html("<math><mfrac><mn>1</mn><mn>2</mn></mfrac></math> &times; x<sup>2</sup>"))
    )
    tree = latex.parse(formula)
    assert isinstance(tree, Tree)
    half, power = Tree("O", "divide", [Tree("N", "1"), Tree("N", "2")]), [Tree("V", "x"), Tree("N", "2")]
    assert tree == Tree("U", "times", [half, Tree("O", "SUP", power)])


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab xX12.,-+*/=()[]?%:^\n", max_size=40))
def test_only_marks_blanks_and_signs_change(text):
    """Without marks and blanks, and with the original signs, the text is unchanged; formulas stay formulas."""
    wrapped = wrap_formulas(text)
    restored = re.sub(r" ?</?m> ?", "", wrapped).replace(r"\%", "%").replace(r"\_", "_").replace(r"\times", "x")
    assert re.sub(r"\s", "", restored).lower() == re.sub(r"\s", "", text).lower()
    assert set(FORMULA.findall(wrapped)) <= set(FORMULA.findall(wrap_formulas(wrapped)))
    assert wrapped.count("<m>") == wrapped.count("</m>")


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet='ab<>/&;psumth "=«»', max_size=60))
def test_broken_html_never_raises(text):
    assert isinstance(wrap_formulas(from_html(text)), str)


def test_formulas_of_real_problems_are_parsed(real_data):
    path = real_data("gsm8k") / "train.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line, _ in zip(file, range(400), strict=False)]
    formulas = [f for row in rows for f in FORMULA.findall(wrap_formulas(re.sub("<<.*?>>", "", row["answer"])))]
    assert len(formulas) > 1000
    assert sum(isinstance(latex.parse(f), Tree) for f in formulas) >= 0.999 * len(formulas)
