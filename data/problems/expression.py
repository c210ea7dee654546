"""Arithmetic of a plan: parses text such as "q - a * b", evaluates it exactly and writes it in Math23K's form.

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

_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPUTE: dict[str, Callable[[Fraction, Fraction], Fraction]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_PERCENT = re.compile(r"(\d+(?:\.\d+)?) %")
_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2}


def parse(text: str) -> Node:
    """Returns the expression of a text with + - * / and parentheses over names and numbers.

    Raises:
      UsageError: the text holds anything else.
    """

    def convert(tree: ast.expr) -> Node:
        if isinstance(tree, ast.BinOp) and type(tree.op) in _SIGNS:
            return _SIGNS[type(tree.op)], convert(tree.left), convert(tree.right)
        if isinstance(tree, ast.Name):
            return tree.id
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
            return ast.get_source_segment(text, tree) or str(tree.value)
        raise UsageError(f"the expression {text!r} holds more than names, numbers and + - * /")

    try:
        return convert(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise UsageError(f"the expression {text!r} cannot be read: {error.msg}") from None


def parse_equation(equation: str) -> Node:
    """Returns the right side of "x = …" in the form of `write`; 45 % becomes 45/100."""
    return parse(_PERCENT.sub(r"(\1/100)", equation.partition("=")[2].strip()))


def substitute(node: Node, name: str, replacement: Node) -> Node:
    """Returns `node` with `replacement` for a name."""
    if isinstance(node, str):
        return replacement if node == name else node
    return node[0], substitute(node[1], name, replacement), substitute(node[2], name, replacement)


def leaves(node: Node) -> Iterator[str]:
    """Yields names and constants from left to right."""
    if isinstance(node, str):
        yield node
    else:
        yield from leaves(node[1])
        yield from leaves(node[2])


def is_constant(leaf: str) -> bool:
    """Whether a leaf is a number."""
    return leaf[0].isdigit()


def count_steps(node: Node) -> int:
    """Returns the number of operations."""
    return 0 if isinstance(node, str) else 1 + count_steps(node[1]) + count_steps(node[2])


def evaluate(node: Node, values: Mapping[str, Fraction]) -> Fraction:
    """Returns the exact value.

    Raises:
      ZeroDivisionError: the expression divides by zero.
    """
    if isinstance(node, str):
        return Fraction(node) if is_constant(node) else values[node]
    return _COMPUTE[node[0]](evaluate(node[1], values), evaluate(node[2], values))


def subexpressions(node: Node) -> Iterator[Node]:
    """Yields every operation in a node, the node itself first."""
    if not isinstance(node, str):
        yield node
        yield from subexpressions(node[1])
        yield from subexpressions(node[2])


def order_operands(node: Node, rank: Mapping[str, int]) -> Node:
    """Returns the same expression with the operands of each sum and product in the order of the text.

    Args:
      rank: position of each name in the text; constants come last.
    """
    if isinstance(node, str):
        return node
    sign, left, right = node[0], order_operands(node[1], rank), order_operands(node[2], rank)
    if sign in "+*" and _first_rank(right, rank) < _first_rank(left, rank):
        left, right = right, left
    return sign, left, right


def _first_rank(node: Node, rank: Mapping[str, int]) -> int:
    return min((rank[leaf] for leaf in leaves(node) if leaf in rank), default=len(rank))


def write(node: Node, names: Mapping[str, str]) -> str:
    """Returns the text of a node: names replaced by `names`, blanks between tokens, only the brackets it needs."""

    def write_child(child: Node, parent_sign: str, is_right: bool) -> str:
        text = write(child, names)
        if isinstance(child, str):
            return text
        is_weaker = _PRECEDENCE[child[0]] < _PRECEDENCE[parent_sign]
        needs_brackets = _PRECEDENCE[child[0]] == _PRECEDENCE[parent_sign] and is_right
        return f"( {text} )" if is_weaker or needs_brackets else text

    if isinstance(node, str):
        return names.get(node, node)
    return f"{write_child(node[1], node[0], False)} {node[0]} {write_child(node[2], node[0], True)}"
