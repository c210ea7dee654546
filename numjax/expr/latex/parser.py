"""LaTeX → operator tree.

  parse(r"\\frac{1}{2} (a + b)^2 = c")  →  Tree
  parse(r"\\frac{1}{2")                 →  Unreadable(error="{ is not closed", at=8)

Time is linear in the formula's length. Nesting and size are limited (`numjax.expr.latex.state`). Nothing raises: a
formula that cannot be read gives an `Unreadable` with the column, and so does one whose tree is so deep that its
printed form could not be read. `numjax.expr.rules.Rules` decides the ambiguities of mathematical notation, the table
in `numjax.expr.operators` the precedence.
"""

from __future__ import annotations

from numjax.expr.canonical import DEEPEST as DEEPEST_CANONICAL
from numjax.expr.latex.constructs import ALL, PUBLISHED, FormulaReader, parse_formula
from numjax.expr.latex.lexer import LexError, find_column, tokenize
from numjax.expr.latex.state import LARGEST, Stop
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree

DEEPEST = 200  # levels of a tree: a - b + c - d … has one per sign


def parse(text: str, rules: Rules = DEFAULT) -> Tree | Unreadable:
    """The tree of a formula in LaTeX. Dollar signs around it are removed."""
    start = 0
    stripped = text.strip()
    for fence, end in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
        if len(stripped) > len(fence) and stripped.startswith(fence) and stripped.endswith(end):
            stripped = stripped[len(fence) : -len(end)]
            start = text.index(fence) + len(fence)
            text = stripped
            break
    tree = _parse_tokens(text, rules)
    if isinstance(tree, Unreadable):
        return tree._replace(at=start + tree.at)
    if tree.depth > DEEPEST:
        return Unreadable(f"{tree.depth} levels deep, more than {DEEPEST}", start)
    if tree.size > LARGEST:
        return Unreadable(f"{tree.size} nodes, more than {LARGEST}", start)
    if tree.depth > DEEPEST_CANONICAL and rules.products and not _can_be_read_again(tree):
        return Unreadable(f"{tree.depth} levels deep: written out, its brackets are nested too deep", start)
    return tree


def _parse_tokens(text: str, rules: Rules) -> Tree | Unreadable:
    try:
        tokens = tokenize(text, rules)
    except LexError as error:
        return Unreadable(error.message, error.column)
    try:
        return parse_formula(FormulaReader(tokens, rules, ALL if rules.products else PUBLISHED))
    except Stop as stop:
        return Unreadable(stop.message, find_column(text, stop.index, rules))
    except RecursionError:
        return Unreadable("nested too deep for the stack that is left", 0)


def _can_be_read_again(tree: Tree) -> bool:
    """Whether the printed tree can be read, as canonical trees always can. a - b - c … is deep, but needs no
    brackets; - - - x needs some for each minus."""
    from numjax.expr.printer.printer import latex  # the printer imports the reader

    try:
        return isinstance(_parse_tokens(latex(tree), DEFAULT), Tree)
    except RecursionError:
        return False
