"""Arithmetic of a plan: read from text such as "q - a * b", evaluated exactly, written as Math23K writes equations.

A node is a name or a constant (`str`), or (operator, left, right).
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction

from numjax.errors import UsageError

Node = str | tuple[str, "Node", "Node"]

_READ = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPUTE: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) %")
_BINDS = {"+": 1, "-": 1, "*": 2, "/": 2}


def read(text: str) -> Node:
    """The expression that a text with + - * / and parentheses over names and numbers is.

    Raises:
      UsageError: it is something else.
    """

    def node(found: ast.expr) -> Node:
        if isinstance(found, ast.BinOp) and type(found.op) in _READ:
            return _READ[type(found.op)], node(found.left), node(found.right)
        if isinstance(found, ast.Name):
            return found.id
        if isinstance(found, ast.Constant) and isinstance(found.value, int | float):
            return ast.get_source_segment(text, found) or str(found.value)
        raise UsageError(f"the expression {text!r} holds more than names, numbers and + - * /")

    try:
        return node(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise UsageError(f"the expression {text!r} cannot be read: {error.msg}") from None


def of_equation(equation: str) -> Node:
    """The right side of "x = …" as `write` writes it, 45 % read as 45/100."""
    return read(_PERCENT.sub(r"(\1/100)", equation.partition("=")[2].strip()))


def put(node: Node, name: str, other: Node) -> Node:
    """`node` with `other` in the place of a name."""
    if isinstance(node, str):
        return other if node == name else node
    return node[0], put(node[1], name, other), put(node[2], name, other)


def leaves(node: Node) -> Iterator[str]:
    """Names and constants from left to right."""
    if isinstance(node, str):
        yield node
    else:
        yield from leaves(node[1])
        yield from leaves(node[2])


def is_constant(leaf: str) -> bool:
    """Whether a leaf is a number."""
    return leaf[0].isdigit()


def steps(node: Node) -> int:
    """How many operations there are."""
    return 0 if isinstance(node, str) else 1 + steps(node[1]) + steps(node[2])


def evaluate(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    """The exact value.

    Raises:
      ZeroDivisionError: it divides by zero.
    """
    if isinstance(node, str):
        return Fraction(node) if is_constant(node) else values[node]
    return _COMPUTE[node[0]](evaluate(node[1], values), evaluate(node[2], values))


def parts(node: Node) -> Iterator[Node]:
    """Every operation in it, itself first."""
    if not isinstance(node, str):
        yield node
        yield from parts(node[1])
        yield from parts(node[2])


def ordered(node: Node, place: Mapping[str, int]) -> Node:
    """The same value with the operands of each sum and product in the order in which a text gives them.

    Args:
      place: where each name stands; constants come last.
    """
    if isinstance(node, str):
        return node
    sign, left, right = node[0], ordered(node[1], place), ordered(node[2], place)
    if sign in "+*" and _first(right, place) < _first(left, place):
        left, right = right, left
    return sign, left, right


def _first(node: Node, place: Mapping[str, int]) -> int:
    return min((place[leaf] for leaf in leaves(node) if leaf in place), default=len(place))


def write(node: Node, names: Mapping[str, str]) -> str:
    """The expression with each name as `names` writes it, blanks between tokens, brackets where they are needed."""

    def inside(child: Node, above: str, right: bool) -> str:
        text = write(child, names)
        if isinstance(child, str):
            return text
        low = _BINDS[child[0]] < _BINDS[above]
        same = _BINDS[child[0]] == _BINDS[above] and right
        return f"( {text} )" if low or same else text

    if isinstance(node, str):
        return names.get(node, node)
    return f"{inside(node[1], node[0], False)} {node[0]} {inside(node[2], node[0], True)}"
