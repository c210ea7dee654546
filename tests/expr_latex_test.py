"""LaTeX → operator tree: which formulas parse, by which rules, and errors for bad input."""

from __future__ import annotations

import gzip
import json
import random
import time

import pytest

from numjax.expr.canonical import find_problem
from numjax.expr.latex.parser import parse
from numjax.expr.printer.printer import latex
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree

PUBLISHED = Rules.as_published()


def show(tree: Tree | Unreadable) -> str:
    """Shows a tree on one line: U!plus(V!x, N!1)."""
    if isinstance(tree, Unreadable):
        return f"{tree.error} @ {tree.at}"
    children = "" if tree.children is None else f"({', '.join(map(show, tree.children))})"
    return f"{tree.type}!{tree.symbol}{children}"


@pytest.mark.parametrize(
    ("formula", "tree"),
    [
        # Arithmetic and precedence.
        ("1 + 2 \\times 3", "U!plus(N!1, U!times(N!2, N!3))"),
        ("2x y", "U!times(N!2, V!x, V!y)"),
        ("a - b - c", "O!minus(O!minus(V!a, V!b), V!c)"),
        ("a / b / c", "O!divide(O!divide(V!a, V!b), V!c)"),
        ("-x y", "O!minus(U!times(V!x, V!y))"),
        ("x^2_i", "O!SUB(O!SUP(V!x, N!2), V!i)"),
        ("x^23", "U!times(O!SUP(V!x, N!2), N!3)"),
        ("x^{-1}", "O!SUP(V!x, O!minus(N!1))"),
        ("r_+", "O!SUB(V!r, U!plus)"),
        ("f''", "O!SUP(V!f, V!′′)"),
        ("n! + 5\\%", "U!plus(O!factorial(V!n), O!percent(N!5))"),
        ("\\frac12", "O!divide(N!1, N!2)"),
        ("a \\over b + c", "O!divide(V!a, U!plus(V!b, V!c))"),
        ("\\sqrt[3]{x} \\sqrt y", "U!times(O!root(V!x, N!3), O!root(V!y, N!2))"),
        ("{}_2 F_1", "O!SUB(O!SUB(V!F, N!1), N!2)"),
        # Functions and big operators.
        ("\\sin 2x + 1", "U!plus(F!sin(U!times(N!2, V!x)), N!1)"),
        ("\\sin x \\cos y", "U!times(F!sin(V!x), F!cos(V!y))"),
        ("\\log_2 8", "+!F!log(O!SUB(F!log, N!2), N!8)"),
        ("\\gcd(a, b)", "F!gcd(V!a, V!b)"),
        ("\\operatorname{Res} z", "F!Res(V!z)"),
        ("\\sum_{i=1}^n i", "+!O!SUB(O!SUP(O!SUB(O!sum, U!eq(V!i, N!1)), V!n), V!i)"),
        ("\\int x dx", "O!int(U!times(V!x, O!differential-d(V!x)))"),
        ("\\lim_{x \\to 0} x", "+!O!limit(O!SUB(O!limit, F!→(V!x, N!0)), V!x)"),
        ("\\partial_x u v", "U!times(+!O!partialdiff(O!SUB(O!partialdiff, V!x), V!u), V!v)"),
        ("\\forall x \\in A", "O!in(O!forall(V!x), V!A)"),
        # Relations.
        ("a = b < c", "U!and(U!eq(V!a, V!b), O!lt(V!b, V!c))"),
        ("f : A \\to B", "F!:(V!f, F!→(V!A, V!B))"),
        ("x \\equiv 3 \\pmod 7", "U!equivalent(V!x, O!annotated(N!3, F!pmod(N!7)))"),
        ("r \\mid a + b", "O!conditional(V!r, U!plus(V!a, V!b))"),
        ("a \\not= b \\notin C", "U!and(U!neq(V!a, V!b), O!notin(V!b, V!C))"),
        ("a \\otimes_R b", "+!O!tensor-product(O!SUB(O!tensor-product, V!R), V!a, V!b)"),
        ("a : b = c : d", "U!eq(F!:(V!a, V!b), F!:(V!c, V!d))"),
        ("a : b = c", "F!:(V!a, U!eq(V!b, V!c))"),
        # Connectives bind less than relations; the signs of logic are between the two.
        ("x > 0 \\Rightarrow y > 0", "F!⇒(O!gt(V!x, N!0), O!gt(V!y, N!0))"),
        ("p \\implies q \\iff r", "U!and(O!implies(V!p, V!q), O!iff(V!q, V!r))"),
        ("x = 1 \\lor x = 2", "U!or(U!eq(V!x, N!1), U!eq(V!x, N!2))"),
        ("p \\land q \\land r = s \\lor t = u", "U!or(U!and(V!p, V!q, U!eq(V!r, V!s)), U!eq(V!t, V!u))"),
        ("p \\lor q \\land r", "U!or(V!p, U!and(V!q, V!r))"),
        ("p \\land q = q \\land p", "U!eq(U!and(V!p, V!q), U!and(V!q, V!p))"),
        ("p \\land q \\equiv r", "U!equivalent(U!and(V!p, V!q), V!r)"),
        ("a \\equiv 1 \\pmod 3 \\land b", "U!and(U!equivalent(V!a, O!annotated(N!1, F!pmod(N!3))), V!b)"),
        ("x \\to y \\land u \\to v", "U!and(F!→(V!x, V!y), F!→(V!u, V!v))"),
        ("\\land_i p", "+!U!and(O!SUB(U!and, V!i), V!p)"),
        ("p \\land", "O!limit-from(V!p, U!and)"),
        ("a \\mid b \\Rightarrow a \\mid c", "F!⇒(O!conditional(V!a, V!b), O!conditional(V!a, V!c))"),
        ("3 | x \\Rightarrow 6 | y", "F!⇒(O!conditional(N!3, V!x), O!conditional(N!6, V!y))"),
        ("|x| < 3 \\Rightarrow 3 | x", "F!⇒(O!lt(F!abs(V!x), N!3), O!conditional(N!3, V!x))"),
        ("a | b \\text{ and } b | c", "O!form-seq(O!conditional(V!a, V!b), T!and, O!conditional(V!b, V!c))"),
        ("|a| \\land |b|", "U!and(F!abs(V!a), F!abs(V!b))"),
        ("x > 0 \\not\\Rightarrow y > 0", "F!⇏(O!gt(V!x, N!0), O!gt(V!y, N!0))"),
        ("x = 1 \\nLeftrightarrow y = 2", "F!⇎(U!eq(V!x, N!1), U!eq(V!y, N!2))"),
        ("x \\not\\to 0", "F!↛(V!x, N!0)"),
        ("a \\land b \\mid c", "O!conditional(U!and(V!a, V!b), V!c)"),
        ("p \\land q \\to r", "F!→(U!and(V!p, V!q), V!r)"),
        ("a = b \\quad \\Rightarrow \\quad c, d", "F!⇒(U!eq(V!a, V!b), M!L-2(V!c, V!d))"),
        ("x_n \\to x = y", "U!and(F!→(O!SUB(V!x, V!n), V!x), U!eq(V!x, V!y))"),
        ("a = b \\vee c = d", "U!and(U!eq(V!a, U!or(V!b, V!c)), U!eq(U!or(V!b, V!c), V!d))"),
        ("\\Gamma \\vdash x = y", "O!proves(V!Γ, U!eq(V!x, V!y))"),
        # Words that join statements stand between them.
        ("x = 1 \\text{ or } x = 2", "O!form-seq(U!eq(V!x, N!1), T!or, U!eq(V!x, N!2))"),
        ("1, 2 \\mbox{ and } 3", "O!form-seq(M!L-2(N!1, N!2), T!and, N!3)"),
        ("x_{\\text{if}}", "O!SUB(V!x, T!if)"),
        ("\\text{SO}(3) = \\text{so}_2", "U!eq(U!times(T!SO, N!3), O!SUB(T!so, N!2))"),
        # Lists, sets, fences.
        ("1, 2, 3", "M!L-3(N!1, N!2, N!3)"),
        ("x, y \\in A", "O!in(M!L-2(V!x, V!y), V!A)"),
        ("x = 1, 2, y = 3", "O!form-seq(U!eq(V!x, M!L-2(N!1, N!2)), U!eq(V!y, N!3))"),
        ("[a, b) \\cup (c, d)", "U!union(O!interval(C-O)(V!a, V!b), O!interval(O-O)(V!c, V!d))"),
        ("(a, b, c)", "M!V-3(V!a, V!b, V!c)"),
        ("\\{x \\mid x > 0\\}", "O!conditional-set(V!x, O!gt(V!x, N!0))"),
        ("\\{1, 2\\}", "M!S-2(N!1, N!2)"),
        ("|x| + |y|", "U!plus(F!abs(V!x), F!abs(V!y))"),
        ("2|x|", "U!times(N!2, F!abs(V!x))"),
        ("||x| - 1|", "F!abs(O!minus(F!abs(V!x), N!1))"),
        ("\\left\\| v \\right\\|", "O!norm(V!v)"),
        ("\\lfloor x \\rfloor", "F!floor(V!x)"),
        ("f |_{x = 0}", "O!evaluated-at(V!f, U!eq(V!x, N!0))"),
        ("\\left. f \\right|_0^1", "O!evaluated-at(V!f, N!0, N!1)"),
        ("\\langle a | b \\rangle", "O!inner-product(V!a, V!b)"),
        ("| 0 \\rangle", "O!ket(N!0)"),
        ("\\langle u, v \\rangle", "M!D-⟩(M!L-2(V!u, V!v))"),
        # Scripts that are no powers, and repeating decimals.
        ("f^{(n + 1)}(x)", "U!times(O!SUP(V!f, M!D-lpar;&rpar;(U!plus(V!n, N!1))), V!x)"),
        ("x_i^{(2)} + 2^{(n)}", "U!plus(O!SUP(O!SUB(V!x, V!i), M!D-lpar;&rpar;(N!2)), O!SUP(N!2, V!n))"),
        (
            "\\hat y^{(t - 1)} + L^{(\\alpha)}",
            "U!plus(O!SUP(F!^(V!y), M!D-lpar;&rpar;(O!minus(V!t, N!1))), O!SUP(V!L, M!D-lpar;&rpar;(V!α)))",
        ),
        ("f^{(\\frac12, x)}", "O!SUP(V!f, O!interval(O-O)(O!divide(N!1, N!2), V!x))"),
        ("R^* + R^\\times", "U!plus(O!SUP(V!R, V!∗), O!SUP(V!R, U!times))"),
        ("\\sin(x)^2", "O!SUP(F!sin(V!x), N!2)"),
        ("0.1\\overline{6}", "O!repeating-decimal(N!0.1, N!6)"),
        # Environments.
        (
            "\\left\\{\\begin{array}{rcl} x & = & 1 \\\\ y & < & 2 \\end{array}\\right.",
            "O!cases(U!eq(V!x, N!1), E!, O!lt(V!y, N!2), E!)",
        ),
        (
            "\\left\\{\\begin{array}{ll} 1 & x > 0 \\\\ 2 \\end{array}\\right.",
            "O!cases(N!1, O!gt(V!x, N!0), N!2, E!)",
        ),
        (
            "\\left\\{\\begin{array}{rl} \\frac12 x & = x^23 \\\\ y & = 2 \\end{array}\\right.",
            "O!cases(U!eq(U!times(O!divide(N!1, N!2), V!x), U!times(O!SUP(V!x, N!2), N!3)), E!, U!eq(V!y, N!2), E!)",
        ),
        (
            "\\begin{cases} x &= 1 \\\\ y &= \\frac12 \\end{cases}",
            "O!cases(U!eq(V!x, N!1), E!, U!eq(V!y, O!divide(N!1, N!2)), E!)",
        ),
        ("\\begin{cases} a \\\\ b \\end{cases}", "O!cases(V!a, E!, V!b, E!)"),
        ("\\begin{pmatrix} 1 & 0 \\\\ 0 & 1 \\end{pmatrix}", "M!M-2x2(M!R!(N!1, N!0), M!R!(N!0, N!1))"),
        ("\\begin{array}{cc} 1 & 2 \\\\ 3 \\end{array}", "M!M-2x2(M!R!(N!1, N!2), M!R!(N!3, E!))"),
        ("\\begin{cases} a & x > 0 \\\\ b & \\text{else} \\end{cases}", "O!cases(V!a, O!gt(V!x, N!0), V!b, T!else)"),
        (
            "\\begin{align*} a &= b \\\\ c &= d \\end{align*}",
            "O!form-seq(U!eq(V!a, V!b), U!eq(V!c, V!d))",
        ),
        ("\\pmatrix{1 \\cr 2}", "M!M-2x1(M!R!(N!1), M!R!(N!2))"),
        # Accents, fonts, text, spaces.
        ("\\vec{v} \\bar x", "U!times(F!→(V!v), F!¯(V!x))"),
        ("\\mathbb{R}^n", "O!SUP(V!ℝ, V!n)"),
        ("{\\cal L} \\mathbf x", "U!times(V!ℒ, V!𝐱)"),
        ("\\mathrm{Hom}", "V!Hom"),
        ("\\text{if } x", "O!form-seq(T!if, V!x)"),
        ("5 \\text{ cm } x", "U!times(N!5, T!cm, V!x)"),
        ("1 2 . 5 \\, x", "U!times(N!12.5, V!x)"),
        ("a \\stackrel{?}{=} b", "+!U!eq(O!SUP(U!eq, V!?), V!a, V!b)"),
        # Macros.
        ("\\newcommand{\\R}[1]{\\mathbb{R}^{#1}} x \\in \\R{2}", "O!in(V!x, O!SUP(V!ℝ, N!2))"),
        ("\\def\\half{\\frac12}\\half", "O!divide(N!1, N!2)"),
        # The printer's general notation.
        ("\\tree[O]{a*20.b}{{x}{1 + 2}}", "O!a b(V!x, U!plus(N!1, N!2))"),
        ("$x$", "V!x"),
    ],
)
def test_formulas_parse_to_these_trees(formula, tree):
    assert show(parse(formula)) == tree


@pytest.mark.parametrize(
    ("formula", "printed"),
    [
        # Commas in brackets separate items or thousands.
        ("[0,100)", "[0, 100)"), ("[1,100]", "[1, 100]"), ("(100,200)", "(100, 200)"), ("(-100,100)", "(- 100, 100)"),
        (r"\{100,200,300,400\}", r"\{100, 200, 300, 400\}"), ("f(1,100)", "f(1, 100)"), ("(0,120)", "(0, 120)"),
        ("(1,000)", "1000"), ("(2,000,3,000)", "(2000, 3000)"), ("x=1,234,567+2", "x = 1234567 + 2"),
        ("2,500+(1,000+3)", "2500 + (1000 + 3)"), ("(12,345.67)", "12345.67"), ("x^{1,000}", "x^{1000}"),
        (r"(1{,}234)", "1234"), ("(3+1,234)", "3 + 1234"), (r"\textcolor{red}{x+1}", "x + 1"),
        # Narrow spaces part groups of three digits.
        ("1~234", "1234"), (r"12\ 345\:678", "12345678"), (r"\frac{1~000}{2}", r"\frac{1000}{2}"),
        ("2~34", r"2 \times 34"), (r"3.141\,592\,65", "3.14159265"), ("0.123~456", "0.123456"),
        (r"1.234\,56", r"1.234 \times 56"), (r"3.14\,159", r"3.14 \times 159"),
        # A whole number and a fraction are a sum, whatever sign follows.
        (r"37\frac{1}{2}\%", r"(37 + \frac{1}{2})\%"), (r"22\frac12^\circ", r"(22 + \frac{1}{2})^{\circ}"),
        (r"2\nicefrac{1}{2}", r"2 + \frac{1}{2}"), (r"2\sfrac12", r"2 + \frac{1}{2}"),
        (r"2\cfrac12", r"2 + \frac{1}{2}"), (r"\sin 2\frac12", r"\sin(2 + \frac{1}{2})"),
        (r"\sin 2\frac12 x", r"\sin((2 + \frac{1}{2}) \times x)"), (r"\sin x \frac12", r"\sin(x \times \frac{1}{2})"),
        (r"3\frac12\frac13", r"(3 + \frac{1}{2}) \times \frac{1}{3}"), (r"2.5\frac12", r"2.5 \times \frac{1}{2}"),
        (r"2\frac12^2", r"2 \times (\frac{1}{2})^{2}"), (r"2\times\frac12\%", r"2 \times (\frac{1}{2})\%"),
        (r"2\frac{x}{2}\%", r"2 \times (\frac{x}{2})\%"), (r"x_2\frac12", r"x_{2} \times \frac{1}{2}"),
    ],
)  # fmt: skip
def test_numbers_of_several_parts_are_read_whole(formula, printed):
    tree = parse(formula)
    assert isinstance(tree, Tree) and latex(tree) == printed and parse(printed) == tree


@pytest.mark.parametrize(
    ("rule", "symbol"),
    [("0pt", "binomial"), ("0.0em", "binomial"), ("0", "binomial"), ("0.4pt", "divide"), ("", "divide")],
)
def test_a_general_fraction_without_a_rule_is_a_binomial(rule, symbol):
    assert show(parse(rf"\genfrac{{(}}{{)}}{{{rule}}}{{}}{{5}}{{2}}")) == f"O!{symbol}(N!5, N!2)"


@pytest.mark.parametrize(
    ("formula", "switch", "default", "other"),
    [
        ("f(x, y)", {"calls": ""}, "F!f(V!x, V!y)", "U!times(V!f, O!interval(O-O)(V!x, V!y))"),
        ("a(x)", {"calls": "a"}, "U!times(V!a, V!x)", "F!a(V!x)"),
        ("1,000", {"thousands": "protected"}, "N!1000", "M!L-2(N!1, N!000)"),
        ("1{,}000.5", {"thousands": "none"}, "N!1000.5", "M!L-2(N!1, N!000.5)"),
        (r"0.123\,456", {"thousands": "none"}, "N!0.123456", "U!times(N!0.123, N!456)"),
        (
            r"\sin 2\frac57",
            {"mixed": False},
            "F!sin(U!plus(N!2, O!divide(N!5, N!7)))",
            "F!sin(U!times(N!2, O!divide(N!5, N!7)))",
        ),
        ("abc", {"words": "words"}, "U!times(V!a, V!b, V!c)", "V!abc"),
        ("\\foo + 1", {"unknown": "symbol"}, "unknown macro \\foo @ 0", "U!plus(V!\\foo, N!1)"),
        ("68\\frac57", {"mixed": False}, "U!plus(N!68, O!divide(N!5, N!7))", "U!times(N!68, O!divide(N!5, N!7))"),
        ("a - b - c", {"nary": True}, "O!minus(O!minus(V!a, V!b), V!c)", "O!minus(V!a, V!b, V!c)"),
        ("a \\times b c", {"products": False}, "U!times(V!a, V!b, V!c)", "U!times(U!times(V!a, V!b), V!c)"),
        ("a \\cdot b", {"products": False}, "U!times(V!a, V!b)", "F!⋅(V!a, V!b)"),
        ("2 \\text{ cm}", {"text": False}, "U!times(N!2, T!cm)", "U!times(N!2, W!)"),
        ("f^{(n)}", {"orders": False}, "O!SUP(V!f, M!D-lpar;&rpar;(V!n))", "O!SUP(V!f, V!n)"),
        ("40^\\circ", {"degrees": False}, "O!degree(N!40)", "O!SUP(N!40, O!compose)"),
        ("\\int x", {"bounds": False}, "O!int(V!x)", "O!int(V!x, W!, W!)"),
        (
            "\\int \\frac{dx}{x}",
            {"differentials": "integrand"},
            "O!int(O!divide(O!differential-d(V!x), V!x))",
            "O!int(O!divide(U!times(V!d, V!x), V!x))",
        ),
    ],
)
def test_every_ambiguity_has_a_switch(formula, switch, default, other):
    assert show(parse(formula)) == default
    assert show(parse(formula, DEFAULT._replace(**switch))) == other


@pytest.mark.parametrize(
    ("formula", "column"),
    [
        ("", 0),
        ("   ", 3),
        ("{}", 0),
        ("\\, \\;", 5),
        ("a + \\foo", 4),
        ("(a + b", 0),
        ("a + b)", 5),
        ("x^{2", 2),
        ("{x", 0),
        ("x}", 1),
        ("\\frac{1}{2", 8),
        ("\\left( x", 0),
        ("x \\right)", 2),
        ("\\begin{matrix} 1", 0),
        ("\\begin{nothing} 1 \\end{nothing}", 0),
        ("\\begin{matrix} 1 \\end{pmatrix}", 0),
        ("x^^2", 2),
        ("\\tree[?]{a}{}", 0),
        ("\\tree[V]{a}{{x}}", 0),
        ("a \x00 b", 2),
        ("x^", 1),
        ("x + {y_}", 6),
    ],
)
def test_an_unreadable_formula_has_a_column(formula, column):
    error = parse(formula)
    assert isinstance(error, Unreadable) and error.error and "\n" not in error.error
    assert error.at == column


def test_a_sign_of_two_operands_has_something_missing_before_it():
    tree = parse(r"\setminus x")
    assert tree == Tree("O", "setdiff", [Tree("W", ""), Tree("V", "x")]) and find_problem(tree) is None
    assert parse(latex(tree)) == tree


def test_a_comment_ends_with_its_line_and_a_percent_sign_alone_is_one():
    assert parse("a % b\n + c") == parse("a + c")
    assert parse("5% + 3% + b") == parse(r"5\% + 3\% + b")


@pytest.mark.parametrize(
    "formula",
    [
        "{" * 10_000 + "x" + "}" * 10_000,
        "(" * 10_000 + "x" + ")" * 10_000,
        "x^{" * 10_000 + "x" + "}" * 10_000,
        "\\frac{1}{" * 10_000,
        "\\sqrt" * 10_000 + "x",
        "\\left(" * 10_000,
        "-" * 10_000 + "x",
        "|" * 10_000,
        "\\tree[O]{a}{{" * 10_000,
        "a - " * 10_000 + "a",
        "a : " * 10_000 + "a",
        "x" + "^2" * 10_000,
        "(a = b = " * 90 + "c" + ")" * 90,
        "(a = " * 40 + "b" + " = c)" * 40,
        "\\def\\a{\\a\\a}\\a",
        "".join(f"\\newcommand{{\\{chr(97 + i)}}}{{\\{chr(98 + i)}\\{chr(98 + i)}}}" for i in range(24)) + "\\a",
        "\\def\\b#1{#1#1}" + "\\b{" * 40 + "x" + "}" * 40,
        "x" * 200_000,
        "1,000" + ",000" * 20_000 + "0",
        "\\text{" * 10_000,
        "\\begin{matrix}" + "x&" * 9_000 + "\\\\x" * 9_000 + "\\end{matrix}",
        "\\{ : " * 20,
        "\\langle x \\middle",
        "\\frac \\stackrel{x}{",
        "1" + " " * 90_000 + "2",
    ],
)
def test_bombs_are_refused_quickly(formula):
    start = time.process_time()
    tree = parse(formula)
    assert isinstance(tree, Unreadable) or tree.depth <= 200
    assert time.process_time() - start < 5


def test_random_text_and_broken_formulas_never_crash():
    """Fewer texts than the 100,000 of `experiments/benchmarks/latex.py --fuzz`."""
    draw = random.Random(5)
    pieces = (
        "\\left \\right { } ^ _ | ( ) [ ] \\{ \\} \\frac \\sum \\int & \\\\ \\begin{matrix} \\end{matrix} , ; = + -"
    )
    tokens = [
        *pieces.split(),
        "\\over",
        "\\langle",
        "\\rangle",
        "x",
        "d",
        "f",
        "12",
        "'",
        "!",
        "\\mathrm",
        "\\bf",
        "\\not",
    ]
    for _ in range(4000):
        if draw.random() < 0.4:
            formula = bytes(draw.randrange(256) for _ in range(draw.randrange(40))).decode("utf-8", "replace")
        else:
            formula = " ".join(draw.choice(tokens) for _ in range(draw.randrange(30)))
        for rules in (DEFAULT, PUBLISHED):
            tree = parse(formula, rules)
            if isinstance(tree, Unreadable):
                assert 0 <= tree.at <= len(formula)
            elif rules is DEFAULT:
                assert parse(latex(tree)) == tree


def test_trees_agree_with_the_reference(real_data):
    """Shares of trees identical to LaTeXML + Tangent-CFT; the parser was written without a look at half of them."""
    trees = real_data("latexml_trees") / "trees.jsonl.gz"
    is_same: dict[str, list[bool]] = {}
    with gzip.open(trees, "rt") as file:
        for line in file:
            row = json.loads(line)
            if row["tree"] is not None:
                tree = parse(row["latex"], PUBLISHED)
                is_equal = isinstance(tree, Tree) and tree.to_json() == row["tree"]
                is_same.setdefault(row["source"], []).append(is_equal)
    shares = {source: sum(rows) / len(rows) for source, rows in is_same.items()}
    assert shares["math23k"] >= 0.99 and shares["math"] >= 0.94
    assert sum(map(sum, is_same.values())) / sum(map(len, is_same.values())) >= 0.93


def test_real_formulas_parse_and_print_back(real_data):
    path = real_data("latex_formulas") / "formulas.tsv.gz"
    with gzip.open(path, "rt") as file:
        formulas = [line.rstrip("\n").partition("\t")[2] for line in file][::12]
    n_parsed = 0
    for formula in formulas:
        tree = parse(formula)
        if isinstance(tree, Tree):
            n_parsed += 1
            assert parse(latex(tree)) == tree, formula
            assert (
                find_problem(tree) is None or tree.depth > 48 or any(len(n.children or ()) > 62 for n in tree.walk())
            )
    assert n_parsed / len(formulas) >= 0.985


# Cases of KaTeX's screenshots that are no mathematics (boxes, pictures, HTML, brackets that do not match, macros
# defined outside of the formula). They are refused.
NO_MATHEMATICS = {
    "BinCancellation", "DeepFontSizing", "DelimiterSizing", "GroupMacros", "HTML", "Includegraphics",
    "NullDelimiterInteraction", "Rule", "UnsupportedCmds", "Verb",
}  # fmt: skip


def test_the_constructs_of_katex_parse(real_data):
    yaml = pytest.importorskip("yaml")
    cases = yaml.safe_load((real_data("katex") / "ss_data.yaml").read_text())
    refused = set()
    for name, case in cases.items():
        formula = case if isinstance(case, str) else case["tex"]
        tree = parse(formula)
        if isinstance(tree, Unreadable):
            refused.add(name)
        else:
            assert parse(latex(tree)) == tree, name
    assert refused <= NO_MATHEMATICS and len(cases) > 100
