"""Kets and norms between bars, signs and names in fonts, commands of TeX, deep trees, and LaTeXML's own names."""

from __future__ import annotations

import gzip
import itertools
import json
import random

import pytest

from numjax.expr import mathml
from numjax.expr.latex.parser import parse
from numjax.expr.operators import CONNECTIVE, INFIX, META_RELATIONS
from numjax.expr.printer import published
from numjax.expr.printer.printer import latex
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree
from tests.expr_latex_test import show

PUBLISHED = Rules.as_published()
BOTH = pytest.mark.parametrize("rules", [DEFAULT, PUBLISHED], ids=["default", "as_published"])


# -- kets and norms --------------------------------------------------------------------------------------------------


def draw_ket(draw: random.Random) -> tuple[str, str]:
    """The same ket with plain and with sized delimiters."""
    items = ["n_1", "\\uparrow", "x^2", "{\\bf k}", "-\\frac12", "(j, m)", "\\alpha", "\\{a, b\\}", "f(x)", "2 3"]
    body = draw.choice([",", ";", " , ", "; ", ", \\ldots ,"]).join(draw.choices(items, k=draw.randrange(1, 4)))
    bar = draw.choice(["|", "\\mid", "\\vert", "\\big|"])
    return f"{bar} {body} \\rangle", f"\\left| {body} \\right\\rangle"


@BOTH
def test_a_ket_is_the_same_with_plain_and_with_sized_delimiters(rules):
    draw = random.Random(1)
    rows = ["{0}", "{0} = {1}", "A {0}", "{0} + {1}", "{0} {1}", "c_{{{0}}}", "\\frac{{{0}}}{{2}}", "({0}, {1})",
            "{0} \\otimes {1}", "\\sum_n {0} \\langle n |", "\\{{ v : v = {0} \\}}", "|x| {0}", "a = b, {0}",
            "\\langle a | b \\rangle {0}", "\\begin{{matrix}} {0} & {1} \\\\ y & z \\end{{matrix}}"]  # fmt: skip
    for _ in range(400):
        row = draw.choice(rows)
        kets = [draw_ket(draw) for _ in range(2)]
        plain, sized = (row.format(*(ket[i] for ket in kets)) for i in (0, 1))
        tree = parse(plain, rules)
        assert isinstance(tree, Tree) and tree == parse(sized, rules), (plain, show(tree), show(parse(sized, rules)))
        if rules is DEFAULT:
            assert parse(latex(tree)) == tree, plain


@pytest.mark.parametrize(
    ("formula", "tree"),
    [
        ("| j ; m , \\pm \\rangle", "O!ket(M!L-3(V!j, V!m, O!plus-or-minus))"),
        ("H \\mid \\chi \\rangle = \\mid s \\rangle", "U!eq(U!times(V!H, O!ket(V!χ)), O!ket(V!s))"),
        ("|2, 0\\rangle\\langle 2, 0|", "U!times(O!ket(M!L-2(N!2, N!0)), O!bra(M!L-2(N!2, N!0)))"),
        ("\\langle u, |v|, w \\rangle", "M!D-⟩(M!L-3(V!u, F!abs(V!v), V!w))"),
        ("\\langle 0 | A | 1, 2 \\rangle", "O!quantum-operator-product(N!0, V!A, M!L-2(N!1, N!2))"),
        ("r \\mid s, t", "O!conditional(V!r, M!L-2(V!s, V!t))"),
        ("\\{ u \\mid u < 2 \\}", "O!conditional-set(V!u, O!lt(V!u, N!2))"),
        ("|u| \\left| 5 \\right\\rangle", "U!times(F!abs(V!u), O!ket(N!5))"),
    ],
)
def test_bars_beside_angles(formula, tree):
    assert show(parse(formula)) == tree


@BOTH
@pytest.mark.parametrize(
    ("formula", "tree"),
    [
        ("||u + v||", "O!norm(U!plus(V!u, V!v))"),
        ("| | u | |_2^2", "O!SUP(O!SUB(O!norm(V!u), N!2), N!2)"),
        ("3 \\vert\\vert u \\vert\\vert", "U!times(N!3, O!norm(V!u))"),
        ("||u| - 2|", "F!abs(O!minus(F!abs(V!u), N!2))"),
        ("|2 - |u||", "F!abs(O!minus(N!2, F!abs(V!u)))"),
        ("|u||v|", "U!times(F!abs(V!u), F!abs(V!v))"),
        ("||u|_1|", "F!abs(O!SUB(F!abs(V!u), N!1))"),
        ("\\left| \\left| u \\right| \\right|", "F!abs(F!abs(V!u))"),
    ],
)
def test_double_bars_are_a_norm(formula, tree, rules):
    assert show(parse(formula, rules)) == tree


# -- signs and names in fonts, commands ------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("sign", ["\\times", "+", "=", "\\cdot", "\\wedge", "\\leq", "\\otimes", "/", "-"])
def test_a_sign_in_another_font_is_the_sign(sign, rules):
    expected = parse(f"u {sign} v", rules)
    for form in (f"{{\\bf {sign}}}", f"\\mathbf{{{sign}}}", f"{{ \\rm {sign} }}", f"\\boldsymbol {{ {sign} }}"):
        assert parse(f"u {form} v", rules) == expected, form
    assert parse(f"u^{{\\bf {sign}}}", rules) == parse(f"u^{{{sign}}}", rules)


def test_an_error_behind_a_sign_in_a_font_has_its_column():
    formula = "u \\mathbf{+} {\\bf =} \\foo"
    assert parse(formula) == Unreadable("unknown macro \\foo", formula.index("\\foo"))


@BOTH
@pytest.mark.parametrize(
    ("formula", "tree"),
    [
        ("\\mathrm{CO2}", "V!CO2"),
        ("\\mathrm{A12b}", "V!A12b"),
        ("x_{\\rm N 5}", "O!SUB(V!x, V!N5)"),
        ("\\mathrm{X}2", "U!times(V!X, N!2)"),
        ("\\mathrm{2X}", "U!times(N!2, V!X)"),
        ("\\mathrm{X_2}", "O!SUB(V!X, N!2)"),
        ("\\mathrm{X2.5}", "U!times(V!X, N!2.5)"),
        ("\\mathbb{R2}", "U!times(V!ℝ, N!2)"),
        ("x 2 y", "U!times(V!x, N!2, V!y)"),
    ],
)
def test_a_name_goes_on_with_digits_where_letters_join(formula, tree, rules):
    assert show(parse(formula, rules)) == tree
    default = parse(formula)
    assert isinstance(default, Tree) and parse(latex(default)) == default


@BOTH
@pytest.mark.parametrize(
    ("formula", "same_as"),
    [
        ("u \\enskip v", "u v"), ("u\\-v", "u v"), ("u \\* v", "u \\times v"), ("u \\hfill v", "u v"),
        ("u \\raise 3pt \\hbox{w}", "u \\hbox{w}"), ("\\lower-1.5ex v", "v"), ("\\raise .2em {v}", "v"),
        ("\\'u", "\\acute u"), ("\\`{u}", "\\grave{u}"), ("\\not \\exists u", "\\nexists u"),
        ("u \\centerdot v", "u \\cdotp v"), ("\\kern1pt v \\hfil w", "v w"),
    ],
)  # fmt: skip
def test_commands_that_stand_for_others(formula, same_as, rules):
    assert isinstance(parse(formula, rules), Tree) and parse(formula, rules) == parse(same_as, rules)


@BOTH
def test_commands_of_their_own(rules):
    assert show(parse("U \\leftrightarrows V", rules)) == "F!⇆(V!U, V!V)"
    assert show(parse("\\textcircled{3}", rules)) == "F!\u20dd(N!3)"


# -- deep trees ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "write",
    [
        lambda n: "-" * n + "x", lambda n: "x" + "!! " * n, lambda n: "x" + "_a" * n, lambda n: "x" + "\\%" * n,
        lambda n: "\\sin " * n + "x", lambda n: "\\hat" * n + " x", lambda n: "\\frac1" * n + " x",
        lambda n: "\\forall " * n + "x", lambda n: "\\sqrt" * n + " x", lambda n: "x" + " +" * n,
        lambda n: "x" + "/y" * n, lambda n: "x" + ":y" * n, lambda n: "x" + " - y" * n, lambda n: "x" + "'^2" * n,
    ],
)  # fmt: skip
def test_a_printed_tree_parses_to_the_same_tree(write):
    outcomes = [parse(write(n)) for n in (5, 40, 48, 60, 90, 99, 120, 190)]
    for tree in outcomes:
        if isinstance(tree, Tree):
            assert parse(latex(tree)) == tree
    assert all(isinstance(tree, Tree) for tree in outcomes[:2])


def test_a_deep_tree_that_needs_no_brackets_is_accepted():
    assert isinstance(parse("a" + " - b" * 180), Tree)
    assert parse("-" * 90 + "x") == Unreadable("91 levels deep: written out, its brackets are nested too deep", 0)


# -- LaTeXML's conventions -------------------------------------------------------------------------------------------


def test_signs_between_formulas_are_looser_than_relations_to_latexml():
    """↔ and ⇌ stand between formulas, arrows in one direction between expressions."""
    between = [sign for sign, op in INFIX.items() if op.published[1] in META_RELATIONS and op.power >= CONNECTIVE]
    assert {"\\iff", "\\Leftrightarrow", "\\vdash", "\\leftrightarrow", "\\therefore"} <= {*between}
    for sign, relation in itertools.product(between, ("=", "<", "\\to", "\\in")):
        sides = [show(parse(side, PUBLISHED)) for side in (f"u {relation} v", f"w {relation} z")]
        kind, symbol = INFIX[sign].published
        tree = parse(f"u {relation} v {sign} w {relation} z", PUBLISHED)
        assert show(tree) == f"{kind}!{symbol}({', '.join(sides)})"
    assert show(parse("u = v \\Rightarrow w", PUBLISHED)) == "U!and(U!eq(V!u, V!v), F!⇒(V!v, V!w))"


@pytest.mark.parametrize("sign", ["+", "-", "\\cdot", "=", "\\pm"])
@pytest.mark.parametrize("derivative", ["\\partial", "\\partial_t", "\\partial^2", "\\partial_x^2"])
def test_a_derivative_before_a_sign_stands_alone(derivative, sign):
    for rules in (DEFAULT, PUBLISHED):
        tree = parse(f"{derivative} {sign} u", rules)
        assert isinstance(tree, Tree) and tree.children and tree.children[0] == parse(derivative, rules), show(tree)
    assert show(parse("\\partial_t u v", PUBLISHED)).startswith("+!O!partialdiff(O!SUB(O!partialdiff, V!t), U!times(")


@pytest.mark.parametrize(
    ("formula", "tree", "default"),
    [
        ("\\underline{u}", "F!¯(V!u)", "F!_(V!u)"),
        ("\\underleftarrow{u}", "F!←(V!u)", "F!←_(V!u)"),
        ("u = ?", "U!eq(V!u, V!&quest;)", "U!eq(V!u, V!?)"),
        ("G \\dashv F", "O!does-not-prove(V!G, V!F)", "F!⊣(V!G, V!F)"),
        ("T \\nvdash u", "O!not-proves(V!T, V!u)", "O!does-not-prove(V!T, V!u)"),
        ("u \\odot v", "O!direct-product(V!u, V!v)", "F!⊙(V!u, V!v)"),
        ("\\not\\exists u", "O!not-exists(V!u)", "O!not-exists(V!u)"),
        ("f^{'}", "F!′(V!f)", "O!SUP(V!f, V!′)"),
        ("f_2^{''}", "F!′′(O!SUB(V!f, N!2))", "O!SUP(O!SUB(V!f, N!2), V!′′)"),
        ("f' + f^\\prime", "U!plus(O!SUP(V!f, V!′), O!SUP(V!f, V!′))", "U!plus(O!SUP(V!f, V!′), O!SUP(V!f, V!′))"),
        ("\\exp[u + 1] v", "U!times(F!exp(U!plus(V!u, N!1)), V!v)",
         "U!times(F!exp(M!D-lsqb;&rsqb;(U!plus(V!u, N!1))), V!v)"),
        ("\\ln\\left\\{u\\right\\}", "F!ln(V!u)", "F!ln(M!S-1(V!u))"),
        ("\\sin^2[u]", "+!F!sin(O!SUP(F!sin, N!2), V!u)", "+!F!sin(O!SUP(F!sin, N!2), M!D-lsqb;&rsqb;(V!u))"),
        ("\\max\\{u, v, 3\\}", "F!max(V!u, V!v, N!3)", "F!max(M!S-3(V!u, V!v, N!3))"),
        ("\\det[u]", "F!det(M!D-lsqb;&rsqb;(V!u))", "F!det(M!D-lsqb;&rsqb;(V!u))"),
        ("\\exp[u, v, w)", "F!exp(M!L-3(V!u, V!v, V!w))", "F!exp(M!L-3(V!u, V!v, V!w))"),
        ("u :_k v", "+!V!:(O!SUB(V!:, V!k), V!u, V!v)", "+!V!:(O!SUB(V!:, V!k), V!u, V!v)"),
        ("\\exp[u, v)", "F!exp(O!interval(C-O)(V!u, V!v))", "F!exp(O!interval(C-O)(V!u, V!v))"),
    ],
)  # fmt: skip
def test_names_and_brackets_of_latexml(formula, tree, default):
    assert show(parse(formula, PUBLISHED)) == tree
    assert show(parse(formula)) == default


def test_published_names_are_printed_by_their_signs():
    for formula in ("G \\dashv F", "T \\nvdash u", "u \\odot v", "u \\ominus v", "T \\vdash u"):
        tree = parse(formula, PUBLISHED)
        assert isinstance(tree, Tree) and published.latex(tree) == formula


def test_published_symbols_are_in_the_original_vocabulary(real_data):
    """Of the operators that are no names of functions or words; "conditional" and "differential-d" are newer."""
    vocabulary = json.loads((real_data("mathgpt_vocab") / "vocab.json").read_text())
    newer = {"conditional", "differential-d", "double-factorial"}
    with gzip.open(real_data("latex_formulas") / "formulas.tsv.gz", "rt") as file:
        formulas = [line.rstrip("\n").partition("\t")[2] for line in file][::9]
    unknown = set()
    for formula in formulas:
        tree = parse(formula, PUBLISHED)
        for node in tree.walk() if isinstance(tree, Tree) else ():
            if node.type in "UOC" and node.symbol not in vocabulary[node.type] and node.symbol not in newer:
                unknown.add((node.type, node.symbol, formula))
    assert not {symbol for _, symbol, _ in unknown} - {"contains-as-subgroup"}, unknown


def test_weierstrass_has_one_name():
    tree = mathml.parse('<math><apply><csymbol cd="latexml">Weierstrass-p</csymbol><ci>z</ci></apply></math>')
    assert isinstance(tree, Tree) and (tree.type, tree.symbol) == ("O", "weierstrass-p")
    assert parse("\\wp") == Tree(tree.type, tree.symbol)
