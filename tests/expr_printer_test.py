"""Operator tree → LaTeX: parentheses, the general notation, and parse(latex(t)) == t for every canonical tree."""

from __future__ import annotations

import functools

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from numjax.expr.canonical import DEEPEST, NUMBER, find_problem
from numjax.expr.latex.parser import parse
from numjax.expr.latex.state import hint
from numjax.expr.operators import SIGN
from numjax.expr.printer import notation, published
from numjax.expr.printer.printer import latex
from numjax.expr.rules import Rules
from numjax.expr.symbols import WIDEST, arity
from numjax.expr.tree import Tree
from tests.expr_latex_test import show

PRODUCTS = [Tree("U", "times", pair) for pair in ([Tree("V", "a"), Tree("V", "b")], [Tree("N", "2"), Tree("V", "c")])]

X, Y = Tree("V", "x"), Tree("V", "y")

# Symbols with an ordinary notation, and some without.
_ORDINARY = {
    "O": "SUP SUB root factorial norm int sum limit partialdiff differential-d forall interval(O-O) interval(C-O) "
    "degree conditional-set conditional evaluated-at cases form-seq binomial percent annotated ket inner-product "
    "limit-from supremum dimension repeating-decimal no-such-operator",
    "U": "%&{}\\ U",
    "F": "sin f abs floor ¯ → ∇ gcd Res dim pmod x^2 \U0001d53c",
    "+": "O!SUB",
    "E": "ambiguous",
    "M": "D-lsqb;&rsqb; D-⟩ R! L",
}
OPERATORS = sorted({*SIGN, *((kind, symbol) for kind, row in _ORDINARY.items() for symbol in row.split()), ("+", "")})
HEADS = [Tree("O", symbol) for symbol in "sum int limit partialdiff tensor-product".split()]
HEADS += [Tree("F", "sin"), Tree("F", "log"), Tree("U", "plus"), Tree("U", "eq"), Tree("U", "union")]
HEADS += [Tree("V", symbol) for symbol in "∇→f"]

_numbers = st.from_regex(NUMBER, fullmatch=True).filter(str.isascii) | st.sampled_from(
    ["1", "12", "3.5", "0", "1000"]
)
_names = st.sampled_from([*"xyzabdfghnABαβℝ𝐱∞′%{}\\_^~&#| ,;()", "′′", "Res", "a b", "\\foo", "dx", "?"]) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4
)
leaves = st.one_of(
    st.sampled_from("xyzabdfgh").map(lambda symbol: Tree("V", symbol)),
    _numbers.map(lambda symbol: Tree("N", symbol)),
    st.builds(Tree, st.sampled_from("VCT-"), _names),
    st.sampled_from([node for node in OPERATORS if node[0] in "UOF"]).map(lambda node: Tree(node[0], node[1])),
    st.sampled_from([Tree("W", ""), Tree("E", ""), Tree("M", "L-0"), Tree("M", "S-0"), Tree("C", "infinity")]),
)


@st.composite
def _build_tree(draw, children: st.SearchStrategy[Tree]) -> Tree:
    kind = draw(st.integers(0, 9))
    if kind == 0:
        count = draw(st.integers(0, 4))
        return Tree("M", f"{draw(st.sampled_from('LSV'))}-{count}", [draw(children) for _ in range(count)])
    if kind == 1:
        rows, columns = draw(st.integers(1, 3)), draw(st.integers(1, 3))
        row_trees = [Tree("M", "R!", [draw(children) for _ in range(columns)]) for _ in range(rows)]
        return Tree("M", f"M-{rows}x{columns}", row_trees)
    if kind == 2:
        head = draw(st.sampled_from(HEADS))
        for mark in draw(st.lists(st.sampled_from(["SUP", "SUB"]), min_size=1, max_size=3)):
            head = Tree("O", mark, [head, draw(children)])
        return Tree("+", hint(head), [head, *draw(st.lists(children, max_size=3))])
    if kind == 3:
        sides = [draw(children) for _ in range(3)]
        signs = [draw(st.sampled_from(["U eq", "O lt", "F →"])).split() for _ in range(2)]
        return Tree("U", "and", [Tree(kind, sign, sides[i : i + 2]) for i, (kind, sign) in enumerate(signs)])
    if kind == 4:
        # Statements: connectives, the signs of logic, arrows and relations in each other.
        signs = [
            "F ⇒",
            "O iff",
            "U and",
            "U or",
            "F →",
            "U eq",
            "F :",
            "U union",
            "O not-implies",
            "O annotated",
            "O conditional",
            "U equivalent",
        ]
        type, symbol = draw(st.sampled_from(signs)).split()
        children = children | st.sampled_from(
            [Tree("U", "eq", [X, Y]), Tree("O", "lt", [Y, X]), Tree("F", "→", [X, Y])]
        )
        last_child = (
            Tree("F", draw(st.sampled_from(["mod", "pmod"])), [draw(children)])
            if symbol == "annotated"
            else draw(children)
        )
        more = [draw(children)] if type == "U" and symbol != "eq" and draw(st.booleans()) else []
        return Tree(type, symbol, [draw(children), *more, last_child])
    if kind == 5:
        # Trees that parse differently alone than in a row: cells, words, derivatives.
        case = draw(st.integers(0, 3))
        words = st.sampled_from([Tree("T", word) for word in ("or", "if", "such that", "cm", ", then", "a n d")])
        if case == 0:
            cells = children | words | st.just(Tree("E", ""))
            return Tree("O", "cases", [draw(cells) for _ in range(2 * draw(st.integers(1, 3)))])
        if case == 1:
            return Tree("O", "form-seq", draw(st.lists(children | words, min_size=2, max_size=4)))
        if case == 2:
            return Tree("U", draw(st.sampled_from(["times", "plus"])), [draw(words), draw(children)])
        return Tree("O", "SUP", [draw(children), Tree("M", "D-lpar;&rpar;", [draw(children)])])
    type, symbol = draw(st.sampled_from(OPERATORS))
    least, most = arity(type, symbol)
    count = draw(st.integers(least, min(most, least + 2)))
    return Tree(type, symbol, [draw(children) for _ in range(count)])


canonical_trees = st.recursive(leaves, _build_tree, max_leaves=20).filter(lambda tree: find_problem(tree) is None)


@settings(max_examples=200, deadline=None)
@given(canonical_trees)
@example(Tree("U", "times", [Tree("N", "2"), Tree("N", "3")]))
@example(Tree("O", "int", [Tree("U", "times", [Tree("V", "d"), X])]))
@example(Tree("O", "minus", [Tree("O", "minus", [X]), Tree("O", "minus", [X, Y])]))
@example(Tree("M", "M-1x1", [Tree("M", "R!", [Tree("O", "interval(C-C)", [X, Y])])]))
@example(Tree("U", "plus", [Tree("O", "differential-d", [Tree("O", "int")]), Y]))
def test_printed_trees_parse_back(tree):
    assert parse(latex(tree)) == tree


@pytest.mark.parametrize(
    "wrap",
    [
        lambda tree: Tree("O", "divide", [tree, X]),
        lambda tree: Tree("U", "times", [Tree("U", "plus", [X, tree]), X]),
        lambda tree: Tree("O", "SUP", [Tree("O", "minus", [tree]), X]),
        lambda tree: Tree("O", "no such operator", [tree]),
        lambda tree: Tree("O", "SUB", [X, tree]),
        lambda tree: Tree("F", "sin", [Tree("O", "minus", [tree])]),
        lambda tree: Tree("M", "M-1x1", [Tree("M", "R!", [tree])]),
    ],
)  # fmt: skip
def test_the_deepest_and_the_widest_trees_parse_back(wrap):
    tree = X
    while (more := wrap(tree)).depth <= DEEPEST:
        tree = more
    assert find_problem(tree) is None and find_problem(wrap(tree)) is not None
    assert parse(latex(tree)) == tree
    for node in (("U", "plus"), ("O", "no such operator"), ("M", f"L-{WIDEST}"), ("F", "f")):
        wide = Tree(*node, [Tree("N", str(i)) for i in range(WIDEST)])
        assert find_problem(wide) is None and parse(latex(wide)) == wide


@pytest.mark.parametrize(
    ("formula", "printed"),
    [
        ("(a + b) c", "(a + b) \\times c"),
        ("a + b c", "a + b c"),
        ("a - (b - c)", "a - (b - c)"),
        ("(a - b) - c", "a - b - c"),
        ("(-1)^n", "(- 1)^{n}"),
        ("(x^a)^b", "(x^{a})^{b}"),
        ("x_i^2", "x_{i}^{2}"),
        ("\\sum_i (a + b)", "\\sum_{i} (a + b)"),
        ("2(3)", "2 \\times 3"),
        ("a = b \\le c", "a = b \\leq c"),
        ("\\sin(x + 1)", "\\sin(x + 1)"),
        ("f(x, y)", "f(x, y)"),
        ("n = 1, 2", "n = {1, 2}"),
        ("\\left[ \\frac{a}{b} \\right]", "[\\frac{a}{b}]"),
    ],
)
def test_parentheses_are_where_precedence_needs_them(formula, printed):
    tree = parse(formula)
    assert isinstance(tree, Tree)
    assert latex(tree) == printed


def nest(pattern: str, levels: int, start: str) -> str:
    for level in range(levels):
        start = pattern.replace("@", start).replace("#", r"\lor" if level % 2 else r"\land")
    return start


@pytest.mark.parametrize(
    ("pattern", "start"),
    [
        ("(x = 1 # @)", "p = 1"),  # statements
        (r"(y = 1 \land y = (@))", "p = 1"),  # what begins as a chain of relations
        (r"a \otimes_{@} b", "b"),
        ("a =^{@} b", "b"),
        ("f^{(@)}", "x"),
    ],
)
def test_every_part_is_printed_once_at_any_depth(pattern, start, monkeypatch):
    tree = parse(nest(pattern, 21, start))
    assert isinstance(tree, Tree)
    n_printed = 0

    def count(rule, node, children):
        nonlocal n_printed
        n_printed += 1
        assert n_printed <= tree.size, "a part is printed again and again"
        return rule(node, children)

    for kind, rule in notation.RULES.items():
        monkeypatch.setitem(notation.RULES, kind, functools.partial(count, rule))
    monkeypatch.setattr(notation, "_PRINTED", {})
    assert parse(latex(tree)) == tree


def test_the_published_printer_has_no_parentheses():
    rules = Rules.as_published()
    for formula, printed in (
        ("(1 + 2) \\times 3", "1 + 2 \\times 3"),
        ("a = b = c", "a = b , b = c"),
        ("\\frac{a}{b}", "a / b"),
        ("x^{2}", "x ^ { 2 }"),
        ("\\sqrt{x}", "\\sqrt [ 2 ] { x }"),
        ("\\sum_i x", "\\sum _ { i } { x }"),
        ("\\{1, 2\\}", "\\{ 1 , 2 \\}"),
    ):
        tree = parse(formula, rules)
        assert isinstance(tree, Tree)
        assert published.latex(tree) == printed, show(tree)


@pytest.mark.parametrize(
    ("tree", "reason"),
    [
        (Tree("V", "x", [X]), "leaf"),
        (Tree("O", "divide", [X]), "children"),
        (Tree("O", "divide", [X, Y, X]), "children"),
        (Tree("N", "."), "number"),
        (Tree("N", "1.2.3"), "number"),
        (Tree("N", "1,000"), "number"),
        (Tree("V", ""), "without a symbol"),
        (Tree("V", "\ud800"), "surrogate"),
        (Tree("?", "x"), "type"),
        (Tree("+", "O!sum"), "without an operator"),
        (Tree("M", "L-3", [X]), "members"),
        (Tree("M", "M-2x1", [Tree("M", "R!", [X])]), "rows"),
        (Tree("M", "M-1x2", [Tree("M", "R!", [X])]), "entries"),
        (Tree("U", "plus", [X] * (WIDEST + 1)), "children"),
    ],
)
def test_trees_that_are_not_canonical_are_named(tree, reason):
    assert reason in (find_problem(tree) or "")
    assert reason in (find_problem(Tree("U", "plus", [X, tree])) or "")


def test_published_trees_may_be_flat():
    flat = Tree("O", "minus", [X, Y, X])
    assert find_problem(flat) and find_problem(flat, as_published=True) is None


@pytest.mark.parametrize("number", ["1", "12", "3.5", ".5", "1.", "-2", "1e5", "1.5E-10"])
def test_numbers_are_kept_as_written(number):
    tree = Tree("O", "SUP", [Tree("N", number), Tree("N", number)])
    assert find_problem(tree) is None and parse(latex(tree)) == tree


@pytest.mark.parametrize("symbol", ["plus", "minus", "plus-or-minus", "minus-or-plus"])
@pytest.mark.parametrize("kind", ["U", "O"])
def test_signs_of_either_type(kind, symbol):
    for operands in (1, 2):
        tree = Tree("U", "plus", [Tree(kind, symbol, [Tree("V", "x")] * operands), Tree("N", "2")])
        assert find_problem(tree) is None and parse(latex(tree)) == tree


@pytest.mark.parametrize("inner", PRODUCTS, ids=["ab", "2c"])
@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_product_in_a_product_stays_a_factor(inner, index):
    factors = [Tree("V", "x"), Tree("N", "3"), Tree("V", "y")]
    factors[index] = inner
    for tree in (Tree("U", "times", factors), Tree("U", "times", factors[:2]), Tree("U", "times", factors[1:])):
        assert parse(latex(tree)) == tree, latex(tree)
    product = Tree("U", "times", PRODUCTS)
    assert parse(latex(product)) == product, latex(product)
