"""Values of trees: exact where possible, against Python's arithmetic; trees without a value are refused at once."""

from __future__ import annotations

import gzip
import json
import math
import random
from decimal import Decimal
from fractions import Fraction

import pytest

from numjax.errors import DataError
from numjax.evals.numbers import value_of
from numjax.expr import evaluate as evaluation
from numjax.expr.evaluate import Unevaluable, evaluate, solve
from numjax.expr.tree import Tree, from_json
from numjax.metrics import formulas


def n(number) -> Tree:
    return Tree("N", str(number))


def v(name: str) -> Tree:
    return Tree("V", name)


def op(symbol: str, *children, type: str = "O") -> Tree:
    return Tree(type, symbol, [c if isinstance(c, Tree) else n(c) for c in children])


def plus(*children) -> Tree:
    return op("plus", *children, type="U")


def times(*children) -> Tree:
    return op("times", *children, type="U")


def f(symbol: str, *children) -> Tree:
    return op(symbol, *children, type="F")


def draw_tree(rng: random.Random, depth: int) -> tuple[Tree, Fraction]:
    """Draws a tree and its value, computed as the tree is built; with operators of many operands."""
    if depth == 0 or rng.random() < 0.2:
        text = rng.choice(
            [str(rng.randint(0, 99)), f"{rng.randint(0, 9)}.{rng.randint(0, 99):02d}", "2e-3", ".5", "7."]
        )
        return n(text), Fraction(text if text != "7." else "7")
    symbol = rng.choice(["plus", "times", "minus", "divide", "percent", "SUP"])
    count = {"percent": 1, "SUP": 1, "minus": rng.randint(1, 4)}.get(symbol, rng.randint(2, 4))
    operands = [draw_tree(rng, depth - 1) for _ in range(count)]
    trees, values = [t for t, _ in operands], [x for _, x in operands]
    if symbol == "plus":
        return plus(*trees), sum(values, Fraction(0))
    if symbol == "times":
        return times(*trees), math.prod(values, start=Fraction(1))
    if symbol == "minus":
        return op("minus", *trees), -values[0] if count == 1 else values[0] - sum(values[1:])
    if symbol == "percent":
        return op("percent", *trees), values[0] / 100
    if symbol == "SUP":
        power = rng.randint(0, 3)
        return op("SUP", trees[0], power), values[0] ** power
    if any(x == 0 for x in values[1:]):
        return trees[0], values[0]
    for x in values[1:]:
        values[0] /= x
    return op("divide", *trees), values[0]


def test_rational_arithmetic_is_exact():
    rng = random.Random(0)
    for _ in range(500):
        tree, value = draw_tree(rng, 4)
        result = evaluate(tree)
        assert result == value and isinstance(result, Fraction)


def test_operators_of_many_operands_go_from_the_left():
    for symbol, value in (("minus", 1), ("divide", Fraction(4, 3))):
        assert evaluate(op(symbol, 8, 3, *((4,) if symbol == "minus" else (2,)))) == value
        nested = op(symbol, op(symbol, 8, 3), 4 if symbol == "minus" else 2)
        assert evaluate(nested) == value


@pytest.mark.parametrize(
    ("tree", "value"),
    [
        (op("root", 9, 2), Fraction(3)),
        (op("root", "0.25", 2), Fraction(1, 2)),
        (op("root", op("minus", 27), 3), Fraction(-3)),
        (op("SUP", op("divide", 8, 27), op("divide", 2, 3)), Fraction(4, 9)),
        (op("SUP", 2, op("minus", 2)), Fraction(1, 4)),
        (op("SUP", op("minus", 1), 10**9), Fraction(1)),
        (op("SUP", 0, 0), Fraction(1)),
        (op("factorial", 5), Fraction(120)),
        (op("double-factorial", 7), Fraction(105)),
        (op("binomial", 5, 2), Fraction(10)),
        (op("repeating-decimal", Tree("N", "0.1"), Tree("N", "6")), Fraction(1, 6)),
        (op("repeating-decimal", Tree("N", "2"), Tree("N", "03")), Fraction(67, 33)),
        (op("rem", 17, 5), Fraction(2)),
        (f("floor", "-2.5"), Fraction(-3)),
        (f("ceiling", "2.1"), Fraction(3)),
        (f("abs", op("minus", 4)), Fraction(4)),
        (f("max", 1, "2.5"), Fraction(5, 2)),
        (f("gcd", 12, 18), Fraction(6)),
        (f("log", 1000), Fraction(3)),
        (Tree("+", "F!log", [op("SUB", Tree("F", "log"), 2), op("divide", 1, 8)]), Fraction(-3)),
        (f("⋅", 3, 4), Fraction(12)),
        (Tree("M", "D-lsqb;&rsqb;", [plus(1, 2)]), Fraction(3)),
        (
            Tree("+", "O!SUB", [op("SUP", op("SUB", Tree("O", "sum"), op("eq", v("i"), 1, type="U")), 4), v("i")]),
            Fraction(10),
        ),
    ],
)
def test_exact_values_are_fractions(tree, value):
    result = evaluate(tree)
    assert result == value and isinstance(result, Fraction)


@pytest.mark.parametrize(
    ("tree", "value"),
    [
        (op("root", 2, 2), math.sqrt(2)),
        (f("sin", op("degree", 30)), 0.5),
        (f("cos", op("SUP", 60, Tree("O", "compose"))), 0.5),
        (f("exp", 1), math.e),
        (f("ln", v("e")), 1.0),
        (f("sec", 0), 1.0),
        (f("arctan", 1), math.pi / 4),
        (times(2, v("π")), 2 * math.pi),
        (Tree("+", "F!sin", [op("SUP", Tree("F", "sin"), 2), n(1)]), math.sin(1) ** 2),
        (Tree("+", "F!sin", [op("SUP", Tree("F", "sin"), op("minus", 1)), n(1)]), math.pi / 2),
        (op("root", op("minus", 4), 2), 2j),
        (op("SUP", Tree("C", "imaginaryi"), 2), -1.0),
    ],
)
def test_irrational_functions(tree, value):
    assert evaluate(tree) == pytest.approx(value)


def test_variables_shadow_constants_and_a_sum_frees_its_variable():
    assert evaluate(plus(v("x"), v("e")), {"x": 2, "e": Fraction(1, 3)}) == Fraction(7, 3)
    total = Tree("+", "O!SUB", [op("SUP", op("SUB", Tree("O", "sum"), op("eq", v("x"), 1, type="U")), 3), v("x")])
    assert evaluate(plus(total, v("x")), {"x": 10}) == 16
    with pytest.raises(Unevaluable):
        evaluate(plus(total, v("x")))
    with pytest.raises(Unevaluable, match="the variable x"):
        evaluate(v("x"), {"x": "1"})  # type: ignore[dict-item]


def equation(*sides: Tree) -> Tree:
    return Tree("U", "eq", sides)


def test_equations():
    x, five = v("x"), plus(2, 3)
    assert solve(equation(x, five)) == solve(equation(five, x)) == solve(five) == 5
    assert solve(Tree("U", "and", [equation(x, five), equation(five, n(4))])) == 5
    assert solve(equation(x, times(v("a"), 2)), {"a": 4}) == 8
    for wrong in (equation(five, five), equation(x, plus(x, 1)), equation(plus(x, 1), n(2)), Tree("U", "eq")):
        with pytest.raises(Unevaluable):
            solve(wrong)
    with pytest.raises(Unevaluable, match="U!eq"):
        evaluate(equation(x, five))


TOWER = op("SUP", 9, op("SUP", 9, op("SUP", 9, 9)))


@pytest.mark.parametrize(
    "tree",
    [
        v("__import__"),
        f("__import__", v("os")),
        f("eval", n(1)),
        Tree("T", "1"),
        Tree("N", "__class__"),
        Tree("N", "1e999999999"),
        Tree("N", "1e99999"),
        Tree("N", "9" * 100_000),
        Tree("N", "1,000"),
        Tree("N", "nan"),
        Tree("N", ""),
        Tree("W", ""),
        TOWER,
        op("SUP", "1.0000001", 10**12),
        op("SUP", 2, "1e300"),
        op("SUP", 2, op("minus", "1e300")),
        op("SUP", 0, op("minus", 1)),
        op("SUP", 0, op("minus", "0.5")),
        op("divide", 1, 0),
        op("divide", 1, op("minus", 2, 2)),
        op("rem", 1, 0),
        op("root", 2, 0),
        op("factorial", 10**6),
        op("factorial", op("minus", 3)),
        op("factorial", "2.5"),
        op("factorial", op("factorial", op("factorial", 5))),
        op("binomial", 10**9, 5),
        times(*[op("SUP", 10, 3000)] * 62),
        f("exp", 10**6),
        f("log", 0),
        f("ln", 0),
        f("max", Tree("C", "imaginaryi")),
        f("floor", f("exp", 10**4)),
        f("cot", 0),
        op("minus", 1, Tree("C", "infinity")),
        op("plus-or-minus", 1, 2),
        op("divide", 1),
        Tree("O", "divide"),
        Tree("E", "cerror", [n(1)]),
        Tree("+", "", [plus(1, 2), n(3)]),
        Tree("+", "O!sum", [op("SUB", Tree("O", "sum"), v("i")), v("i")]),
        Tree("+", "O!SUB", [op("SUP", op("SUB", Tree("O", "sum"), op("eq", v("i"), 1, type="U")), "1e9"), v("i")]),
        Tree("M", "L-2", [n(1), n(2)]),
    ],
)  # fmt: skip
def test_trees_without_a_value_are_refused_at_once(tree):
    with pytest.raises(Unevaluable) as error:
        evaluate(tree)
    assert isinstance(error.value, DataError) and "\n" not in str(error.value) and len(str(error.value)) < 200


def test_nested_sums_share_one_budget():
    inner = v("j")
    for name in "ijkl":
        head = op("SUP", op("SUB", Tree("O", "sum"), op("eq", v(name), 1, type="U")), 100)
        inner = Tree("+", "O!SUB", [head, inner])
    with pytest.raises(Unevaluable, match="terms"):
        evaluate(inner, {"j": 1})


def test_sums_are_checked_at_each_step_and_all_work_is_bounded(monkeypatch):
    powers = [op("divide", 1, op("SUP", n(prime), 8000)) for prime in (3, 5, 7, 11)]
    with pytest.raises(Unevaluable, match="a sum has too many digits"):
        evaluate(plus(*powers))
    head = op("SUP", op("SUB", Tree("O", "sum"), op("eq", v("i"), 1, type="U")), 1900)
    wide = Tree("+", "O!sum", [head, plus(*[v("i")] * 1000)])
    with pytest.raises(Unevaluable, match="takes too long"):
        evaluate(wide)
    assert evaluate(Tree("+", "O!sum", [head, plus(*[v("i")] * 50)])) == 50 * 1900 * 1901 // 2
    monkeypatch.setattr(evaluation, "MOST_WORK", 100)
    with pytest.raises(Unevaluable, match="takes too long"):
        evaluate(plus(op("SUP", 2, 6400), 1))  # one long value counts as a hundred nodes
    assert evaluate(plus(*range(60))) == sum(range(60))


def test_nesting_below_the_bound_on_levels_is_refused_and_no_traceback():
    deep = n(1)
    for _ in range(490):
        deep = Tree("+", "O!sum", [op("SUP", op("SUB", Tree("O", "sum"), op("eq", v("i"), 1, type="U")), 1), deep])
    with pytest.raises(Unevaluable, match="nested too deep"):
        evaluate(deep)
    assert formulas.parse_tree(_nest_json(50_000)) is None


def _nest_json(levels: int):
    out = ["V", "x", None]
    for _ in range(levels):
        out = ["O", "minus", [out]]
    return out


def test_values_of_any_length_are_written():
    assert value_of(op("SUP", 2, 20_000)) == str(Decimal(2**20_000))
    assert value_of(op("divide", op("SUP", 2, 20_000), 3)) == f"{Decimal(2**20_000)}/3"
    assert value_of(op("divide", 1, 3)) == "1/3" and value_of(op("SUP", 3, 200)) == str(3**200)


def test_brackets_of_published_trees_are_read():
    assert evaluate(Tree("M", "matrix-D", [plus(1, 2)])) == 3 == evaluate(Tree("M", "D-lsqb;&rsqb;", [plus(1, 2)]))


def test_depth_is_bounded():
    deep = n(1)
    for _ in range(5000):
        deep = op("minus", deep)
    with pytest.raises(Unevaluable, match="levels"):
        evaluate(deep)


def test_answers_of_math23k(real_data):
    """The reference trees of its equations, evaluated, give its answers."""
    with gzip.open(real_data("math23k_en") / "math23k_en.jsonl.gz", "rt") as file:
        answers = {row["equation"]: row["ans"] for row in map(json.loads, file)}
    with gzip.open(real_data("latexml_trees") / "trees.jsonl.gz", "rt") as file:
        rows = [row for row in map(json.loads, file) if row["source"] == "math23k" and row["tree"]]
    for row in rows:
        equation = row["latex"].replace(r"\times", "*").replace(r"\%", "%")
        assert float(solve(from_json(row["tree"]))) == pytest.approx(answers[equation], rel=1e-9), equation


@pytest.mark.parametrize(
    ("tree", "value"),
    [
        (f("ln", n("1.0000000000000001")), 1e-16),
        (f("ln", n("1.00000001")), math.log1p(1e-8)),
        (f("ln", n("0.999999999999999999999")), -1e-21),
        (op("root", "2e-400", 2), math.sqrt(2) * 1e-200),
        (op("root", "2e400", 2), math.sqrt(2) * 1e200),
        (op("root", "3e-401", 3), 0.3 ** (1 / 3) * 10 ** (-400 / 3)),
    ],
)
def test_values_at_the_ends_of_floats_keep_their_digits(tree, value):
    assert float(evaluate(tree)) == pytest.approx(value, rel=1e-12)


def test_a_logarithm_to_a_base_near_one_has_a_value():
    tree = Tree("+", "F!log", [op("SUB", Tree("F", "log"), "1.00000000000000000001"), n(2)])
    assert float(evaluate(tree)) == pytest.approx(math.log(2) * 1e20, rel=1e-12)
