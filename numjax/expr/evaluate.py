"""The numeric value of an operator tree: exact fractions where possible, floats only after irrational functions.

Python's own `eval` is never used: a symbol is defined here or among the variables, or is refused. Sizes are checked
before a result is computed, so 9^9^9^9 is refused at once.

Conventions: `log` is decimal and `ln` natural, a log with a subscript has that base; π and e are constants unless
they are given as variables; minus and divide of many operands go from the left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from numjax.errors import DataError
from numjax.expr.arithmetic import (
    BITS,
    FUNCTIONS,
    OPERATIONS,
    Unevaluable,
    Value,
    check_size,
    count_bits,
    log,
    power,
    require_integer,
    require_real,
)
from numjax.expr.tree import Tree

DEEPEST = 500  # levels of a tree
MOST_TERMS = 2000  # of a sum or a product, also of nested ones together
MOST_WORK = 1 << 18  # nodes that are evaluated; one with a long value counts once for each 64 bits

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,6}))?")
_MULTIPLIED = frozenset(("⋅", "·", "∗", "*", "×"))
_DIVIDED = frozenset(("÷", "/", "∕"))


def evaluate(tree: Tree, variables: Mapping[str, Value | int] | None = None) -> Value:
    """The value of an expression: a Fraction where it is rational, else a float or, off the real line, a complex.

    Args:
      variables: values by name.

    Raises:
      Unevaluable: it has no value.
    """
    if tree.depth > DEEPEST:
        raise Unevaluable(f"more than {DEEPEST} levels deep")
    values = {name: _check_variable(name, value) for name, value in (variables or {}).items()}
    try:
        return _Evaluation(values).evaluate(tree)
    except RecursionError:
        raise Unevaluable("nested too deep") from None
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        # Of floats: exp(1000), log(0), acos(2) where complex numbers do not help.
        raise Unevaluable(f"a value is not defined or beyond floats ({error})") from None


def solve(tree: Tree, variables: Mapping[str, Value | int] | None = None) -> Value:
    """The value of x in an equation `x = expression` (either way round), or of an expression as it is.

    In a chain x = a = b the first equation counts. Arguments and errors as in `evaluate`; an equation that has to
    be solved for x is refused.
    """
    while (tree.type, tree.symbol) == ("U", "and") and tree.children:
        tree = tree.children[0]
    if (tree.type, tree.symbol) != ("U", "eq"):
        return evaluate(tree, variables)
    sides = tree.children or ()
    if len(sides) < 2:
        raise Unevaluable("an equation with one side")
    for unknown, expression in ((sides[0], sides[1]), (sides[-1], sides[-2])):
        if unknown.type == "V":
            if any(node == unknown for node in expression.walk()):
                raise Unevaluable(f"{unknown.symbol} stands on both sides")
            return evaluate(expression, variables)
    raise Unevaluable("neither side of the equation is a variable alone")


def _check_variable(name: str, value: Value | int) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float | complex | Fraction):
        raise Unevaluable(f"the variable {name} is no number")
    return Fraction(value) if isinstance(value, int) else value


class _Evaluation:
    def __init__(self, variables: Mapping[str, Value]):
        self.variables = dict(variables)
        self.terms = MOST_TERMS
        self.work = MOST_WORK

    def evaluate(self, node: Tree) -> Value:
        value = self.leaf_value(node) if node.children is None else self.node_value(node, node.children)
        value = check_size(value, describe(node))
        self.work -= 1 + (count_bits(value) >> 6 if isinstance(value, Fraction) else 0)
        if self.work < 0:
            raise Unevaluable("an expression that takes too long")
        return value

    def leaf_value(self, node: Tree) -> Value:
        kind, symbol = node.type, node.symbol
        if kind == "N":
            return _parse_number(symbol)
        if kind in "V-" and symbol in self.variables:
            return self.variables[symbol]
        if kind in "VC":
            if symbol in ("π", "pi"):
                return math.pi
            if symbol == "e":
                return math.e
            if symbol == "imaginaryi":
                return 1j
        raise Unevaluable(f"{describe(node)} has no value")

    def node_value(self, node: Tree, children: Sequence[Tree]) -> Value:
        kind, symbol = node.type, node.symbol
        if kind == "+":
            return self.compound_value(children)
        # "matrix-D" is what a published tree keeps of brackets.
        if kind == "M" and symbol.startswith(("D-", "matrix-D")) and len(children) == 1:
            return self.evaluate(children[0])
        if symbol == "SUP" and len(children) == 2 and children[1] == Tree("O", "compose"):
            return require_real(self.evaluate(children[0]), "degree") * math.pi / 180
        if symbol == "repeating-decimal" and all(child.type == "N" for child in children):
            return _repeating_decimal(*(child.symbol for child in children))
        operation = OPERATIONS.get(_operation_name(symbol))
        if kind not in "UOF" or operation is None:
            raise Unevaluable(f"{describe(node)} cannot be evaluated")
        minimum, maximum, compute = operation
        if not minimum <= len(children) <= maximum:
            raise Unevaluable(f"{describe(node)} has {len(children)} operands")
        return compute([self.evaluate(child) for child in children])

    def compound_value(self, children: Sequence[Tree]) -> Value:
        """sin^2 x, log_2 x, and sums and products between bounds."""
        head, *arguments = children
        superscript = low = high = None
        base = head
        while base.symbol in ("SUB", "SUP") and base.children and len(base.children) == 2:
            base_node, script = base.children
            if base.symbol == "SUB":
                low = script
            else:
                superscript = high = script
            base = base_node
        if base.symbol in ("sum", "product") and len(arguments) == 1 and low is not None and high is not None:
            return self.series_value(base.symbol, low, high, arguments[0])
        if low is not None and base.symbol == "log" and superscript is None and len(arguments) == 1:
            return log([self.evaluate(arguments[0]), self.evaluate(low)])
        function = Tree("F", base.symbol, arguments)
        if base.children is None and base.type in "FV" and low is None and superscript is not None:
            if base.type == "V" and _operation_name(base.symbol) not in FUNCTIONS:
                raise Unevaluable(f"{base.symbol} is not a known function")
            exponent = self.evaluate(superscript)
            if exponent == -1:
                return self.evaluate(Tree("F", "arc" + base.symbol, arguments))
            return power([self.evaluate(function), exponent])
        raise Unevaluable(f"{describe(base)} with scripts cannot be evaluated")

    def series_value(self, symbol: str, low: Tree, high: Tree, body: Tree) -> Value:
        sides = low.children or ()
        if (low.type, low.symbol) != ("U", "eq") or len(sides) != 2 or sides[0].type != "V":
            raise Unevaluable(f"the lower bound of a {symbol} is not of the form i = 1")
        start, end = require_integer(self.evaluate(sides[1]), symbol), require_integer(self.evaluate(high), symbol)
        name = sides[0].symbol
        outer_value = self.variables.get(name)
        total: Value = Fraction(0 if symbol == "sum" else 1)
        self.terms -= max(0, end - start + 1)
        if self.terms < 0:
            raise Unevaluable(f"a {symbol} of more than {MOST_TERMS:,} terms")
        for index in range(start, end + 1):
            self.variables[name] = Fraction(index)
            term = self.evaluate(body)
            total = check_size(total + term if symbol == "sum" else total * term, f"a {symbol}")
        self.variables.pop(name, None)
        if outer_value is not None:
            self.variables[name] = outer_value
        return total


def _parse_number(text: str) -> Fraction:
    match = _NUMBER.fullmatch(text)
    if not match or len(text) > BITS // 4 or abs(int(match[1] or 0)) > BITS // 4:
        raise Unevaluable(f"{text[:40]!r} is not a number or is too long")
    return Fraction(text)


def _repeating_decimal(begin: str, period: str) -> Fraction:
    """The value of a repeating decimal: 0.1 and 6 make 1/6."""
    places = len(begin.partition(".")[2])
    return _parse_number(begin) + _parse_number(period) / ((10 ** len(period) - 1) * 10**places)


def _operation_name(symbol: str) -> str:
    return "times" if symbol in _MULTIPLIED else "divide" if symbol in _DIVIDED else symbol


def describe(node: Tree) -> str:
    return f"{node.type}!{node.symbol[:40]}"
