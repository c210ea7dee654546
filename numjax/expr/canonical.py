"""Checks that trees are canonical, for the reader, the printer and the decoder's grammar.

Every canonical tree prints to LaTeX that reads back as the same tree (`numjax.expr.printer`). A canonical tree has:

- a type of `numjax.expr.tree.TYPES`; no children below V, N, C, T, W and -, else none or as many as
  `numjax.expr.symbols.arity` allows; a compound operator (+) has its operator as the first child;
- a list, set or vector symbol ("L-3") that counts its members, a matrix ("M-2x3") of rows ("R!") of that length;
- a number that is digits with at most one point and at least one digit, with or without a leading minus and an
  exponent: "12", "3.5", ".5", "1.", "-2", "1e-5", not ".", "1.2.3" or "1,000";
- a symbol, except for W, E and +, and no lone surrogates in it (they cannot be written as UTF-8).

Everything else is allowed: minus of a minus, a product of one product, a bare sign anywhere.
"""

from __future__ import annotations

import re

from numjax.expr.symbols import arity
from numjax.expr.tree import TYPES, Tree

# The deepest canonical tree: the model itself stops at 32.
DEEPEST = 48

NUMBER = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_SURROGATE = re.compile("[\ud800-\udfff]")


def find_problem(tree: Tree, as_published: bool = False) -> str | None:
    """Why a tree is not canonical, or None if it is.

    Args:
      as_published: allow minus and divide with more than two operands, as LaTeXML's way of reading makes them.
    """
    if tree.depth > DEEPEST:
        return f"{tree.depth} levels deep, more than {DEEPEST}"
    for node in tree.walk():
        reason = _find_node_problem(node, as_published)
        if reason:
            return reason
    return None


def nest_left(tree: Tree) -> Tree:
    """The tree with minus and divide of many operands, as LaTeXML's way of reading makes them, nested from the left.

    Raises:
      RecursionError: the tree is too deep for the stack.
    """
    if tree.children is None:
        return tree
    children = [nest_left(child) for child in tree.children]
    if tree.type != "O" or tree.symbol not in ("minus", "divide") or len(children) < 3:
        return Tree(tree.type, tree.symbol, children)
    out = children[0]
    for child in children[1:]:
        out = Tree("O", tree.symbol, [out, child])
    return out


def _find_node_problem(node: Tree, as_published: bool) -> str | None:
    kind, symbol, children = node.type, node.symbol, node.children
    if kind not in TYPES:
        return f"unknown type {kind!r}"
    if not symbol and kind not in "WE+":
        return f"{kind} without a symbol"
    if _SURROGATE.search(symbol):
        return f"lone surrogate in {kind}!{symbol!r}"
    if kind == "N" and not NUMBER.fullmatch(symbol):
        return f"{symbol!r} is no number"
    count = len(children or ())
    if kind == "M":
        reason = _find_group_problem(node, symbol, count)
        if reason:
            return reason
    if not count:
        return "compound operator without an operator" if kind == "+" else None
    minimum, maximum = arity(kind, symbol, as_published)
    if maximum == 0:
        return f"{kind}!{symbol} is a leaf and has {count} children"
    if not minimum <= count <= maximum:
        expected = str(minimum) if minimum == maximum else f"{minimum} to {maximum}"
        return f"{kind}!{symbol} has {count} children, not {expected}"
    return None


_COUNTED = re.compile(r"[LSV]-(0|[1-9][0-9]*)")
_MATRIX = re.compile(r"M-([1-9][0-9]*)x([1-9][0-9]*)")


def _find_group_problem(node: Tree, symbol: str, count: int) -> str | None:
    counted = _COUNTED.fullmatch(symbol)
    if counted:
        return None if counted[1] == str(count) else f"M!{symbol} has {count} members"
    matrix = _MATRIX.fullmatch(symbol)
    if matrix is None:
        return None
    if matrix[1] != str(count):
        return f"M!{symbol} has {count} rows"
    for row in node.children or ():
        if (row.type, row.symbol) != ("M", "R!") or str(len(row.children or ())) != matrix[2]:
            return f"M!{symbol} has a row that is not M!R! of {matrix[2]} entries"
    return None
