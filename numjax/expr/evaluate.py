"""The numeric value of an operator tree: exact fractions while it can be, floats only behind irrational functions.

Nothing is ever handed to Python's own `eval`: a symbol is looked up here or among the variables, or refused. Sizes
are bounded before they are computed, so that 9^9^9^9 is refused and not tried.

Conventions: `log` is decimal and `ln` natural, a log with a subscript has that base; π and e are constants unless
they are given as variables; minus and divide of many operands go from the left.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction

from numjax.errors import DataError
from numjax.expr.arithmetic import BITS, NAMED, OPERATIONS, Unevaluable, Value, bounded, log, power, real, whole
from numjax.expr.tree import Tree

DEEPEST = 500  # levels of a tree
MOST_TERMS = 2000  # of a sum or a product, also of nested ones together

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]{1,6}))?")
_MULTIPLIED = frozenset(("⋅", "·", "∗", "*", "×"))
_DIVIDED = frozenset(("÷", "/", "∕"))


def evaluate(tree: Tree, variables: Mapping[str, Value | int] | None = None, *, mixed: bool = False) -> Value:
    """The value of an expression: a Fraction where it is rational, else a float or, off the real line, a complex.

    Args:
      variables: values by name.
      mixed: read a whole number before a proper fraction of whole numbers as their sum: 3 1/2 is 7/2. A tree cannot
        tell it from their product, which is what it is by default.

    Raises:
      Unevaluable: it has no value.
    """
    if tree.depth > DEEPEST:
        raise Unevaluable(f"more than {DEEPEST} levels deep")
    known = {name: _given(name, value) for name, value in (variables or {}).items()}
    try:
        return _Evaluation(known, mixed).of(tree)
    except (OverflowError, ZeroDivisionError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        # Of floats: exp(1000), log(0), acos(2) where complex numbers do not help.
        raise Unevaluable(f"a value is not defined or beyond floats ({error})") from None


def solve(tree: Tree, variables: Mapping[str, Value | int] | None = None, *, mixed: bool = False) -> Value:
    """The value of x in an equation `x = expression` (either way round), or of an expression as it is.

    In a chain x = a = b the first equation counts. Arguments and errors as in `evaluate`; an equation that has to
    be solved for x is refused.
    """
    while (tree.type, tree.symbol) == ("U", "and") and tree.children:
        tree = tree.children[0]
    if (tree.type, tree.symbol) != ("U", "eq"):
        return evaluate(tree, variables, mixed=mixed)
    sides = tree.children or ()
    if len(sides) < 2:
        raise Unevaluable("an equation with one side")
    for unknown, other in ((sides[0], sides[1]), (sides[-1], sides[-2])):
        if unknown.type == "V":
            if any(node == unknown for node in other.walk()):
                raise Unevaluable(f"{unknown.symbol} stands on both sides")
            return evaluate(other, variables, mixed=mixed)
    raise Unevaluable("neither side of the equation is a variable alone")


def _given(name: str, value: Value | int) -> Value:
    if isinstance(value, bool) or not isinstance(value, int | float | complex | Fraction):
        raise Unevaluable(f"the variable {name} is no number")
    return Fraction(value) if isinstance(value, int) else value


class _Evaluation:
    def __init__(self, variables: Mapping[str, Value], mixed: bool):
        self.variables = dict(variables)
        self.mixed = mixed
        self.terms = MOST_TERMS

    def of(self, node: Tree) -> Value:
        if node.children is None:
            return bounded(self.leaf(node), shown(node))
        return bounded(self.inner(node, node.children), shown(node))

    def leaf(self, node: Tree) -> Value:
        kind, symbol = node.type, node.symbol
        if kind == "N":
            return _number(symbol)
        if kind in "V-" and symbol in self.variables:
            return self.variables[symbol]
        if kind in "VC":
            if symbol in ("π", "pi"):
                return math.pi
            if symbol == "e":
                return math.e
            if symbol == "imaginaryi":
                return 1j
        raise Unevaluable(f"{shown(node)} has no value")

    def inner(self, node: Tree, children: Sequence[Tree]) -> Value:
        kind, symbol = node.type, node.symbol
        if kind == "+":
            return self.compound(children)
        if kind == "M" and symbol.startswith("D-") and len(children) == 1:
            return self.of(children[0])
        if symbol == "SUP" and len(children) == 2 and children[1] == Tree("O", "compose"):
            return real(self.of(children[0]), "degree") * math.pi / 180
        if symbol == "times" and self.mixed and _is_mixed(children):
            return self.of(children[0]) + self.of(children[1])
        if symbol == "repeating-decimal" and all(child.type == "N" for child in children):
            return _repeating(*(child.symbol for child in children))
        operation = OPERATIONS.get(_known_as(symbol))
        if kind not in "UOF" or operation is None:
            raise Unevaluable(f"{shown(node)} cannot be evaluated")
        least, most, compute = operation
        if not least <= len(children) <= most:
            raise Unevaluable(f"{shown(node)} has {len(children)} operands")
        return compute([self.of(child) for child in children])

    def compound(self, children: Sequence[Tree]) -> Value:
        """sin^2 x, log_2 x, and sums and products between bounds."""
        head, *arguments = children
        raised = low = high = None
        base = head
        while base.symbol in ("SUB", "SUP") and base.children and len(base.children) == 2:
            inner, script = base.children
            if base.symbol == "SUB":
                low = script
            else:
                raised = high = script
            base = inner
        if base.symbol in ("sum", "product") and len(arguments) == 1 and low is not None and high is not None:
            return self.series(base.symbol, low, high, arguments[0])
        if low is not None and base.symbol == "log" and raised is None and len(arguments) == 1:
            return log([self.of(arguments[0]), self.of(low)])
        function = Tree("F", base.symbol, arguments)
        if base.children is None and base.type in "FV" and low is None and raised is not None:
            if base.type == "V" and _known_as(base.symbol) not in NAMED:
                raise Unevaluable(f"{base.symbol} is no function that is known here")
            exponent = self.of(raised)
            if exponent == -1:
                return self.of(Tree("F", "arc" + base.symbol, arguments))
            return power([self.of(function), exponent])
        raise Unevaluable(f"{shown(base)} with scripts cannot be evaluated")

    def series(self, symbol: str, low: Tree, high: Tree, body: Tree) -> Value:
        sides = low.children or ()
        if (low.type, low.symbol) != ("U", "eq") or len(sides) != 2 or sides[0].type != "V":
            raise Unevaluable(f"the lower bound of a {symbol} is not of the form i = 1")
        start, end = whole(self.of(sides[1]), symbol), whole(self.of(high), symbol)
        name = sides[0].symbol
        outer = self.variables.get(name)
        total: Value = Fraction(0 if symbol == "sum" else 1)
        self.terms -= max(0, end - start + 1)
        if self.terms < 0:
            raise Unevaluable(f"a {symbol} of more than {MOST_TERMS:,} terms")
        for index in range(start, end + 1):
            self.variables[name] = Fraction(index)
            term = self.of(body)
            total = bounded(total + term if symbol == "sum" else total * term, f"a {symbol}")
        self.variables.pop(name, None)
        if outer is not None:
            self.variables[name] = outer
        return total


def _number(written: str) -> Fraction:
    match = _NUMBER.fullmatch(written)
    if not match or len(written) > BITS // 4 or abs(int(match[1] or 0)) > BITS // 4:
        raise Unevaluable(f"{written[:40]!r} is no number, or too long a one")
    return Fraction(written)


def _repeating(begin: str, period: str) -> Fraction:
    """0.1 and 6: 1/6."""
    places = len(begin.partition(".")[2])
    return _number(begin) + _number(period) / ((10 ** len(period) - 1) * 10**places)


def _is_mixed(children: Sequence[Tree]) -> bool:
    if len(children) != 2 or children[0].type != "N" or children[1].symbol != "divide":
        return False
    parts = [children[0], *(children[1].children or ())]
    whole = all(part.type == "N" and part.symbol.isdigit() for part in parts)
    return whole and len(parts) == 3 and len(parts[2].symbol) < 10 and int(parts[1].symbol) < int(parts[2].symbol)


def _known_as(symbol: str) -> str:
    return "times" if symbol in _MULTIPLIED else "divide" if symbol in _DIVIDED else symbol


def shown(node: Tree) -> str:
    return f"{node.type}!{node.symbol[:40]}"
