"""LaTeX → operator tree.

  parse(r"\\frac{1}{2} (a + b)^2 = c")  →  Tree
  parse(r"\\frac{1}{2")                 →  Unreadable(error="{ is not closed", at=8)

Time is linear in the formula's length, nesting and size are limited (`numjax.expr.reader`), and nothing raises: what
cannot be read is an `Unreadable` with its column. The ambiguities of written mathematics are decided by
`numjax.expr.rules.Rules`, precedence by the one table in `numjax.expr.operators`.
"""

from __future__ import annotations

from numjax.expr.constructs import ALL, PREFIXES, Formula, read
from numjax.expr.lexer import LexError, column, tokens_of
from numjax.expr.reader import LARGEST, Stop
from numjax.expr.rules import DEFAULT, Rules, Unreadable
from numjax.expr.tree import Tree

DEEPEST = 200  # levels of a tree: a - b + c - d … makes one a sign


def parse(text: str, rules: Rules = DEFAULT) -> Tree | Unreadable:
    """The tree of a formula in LaTeX, without dollar signs around it (they are taken off where they are there)."""
    start = 0
    stripped = text.strip()
    for fence, end in (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]")):
        if len(stripped) > len(fence) and stripped.startswith(fence) and stripped.endswith(end):
            stripped = stripped[len(fence) : -len(end)]
            start = text.index(fence) + len(fence)
            text = stripped
            break
    try:
        tokens = tokens_of(text, rules.thousands)
    except LexError as error:
        return Unreadable(error.message, start + error.at)
    try:
        tree = read(Formula(tokens, rules, ALL, PREFIXES))
    except Stop as stop:
        return Unreadable(stop.message, start + column(text, stop.index, rules.thousands))
    except RecursionError:
        return Unreadable("nested too deep for the stack that is left", start)
    if tree.depth > DEEPEST:
        return Unreadable(f"{tree.depth} levels deep, more than {DEEPEST}", start)
    if tree.size > LARGEST:
        return Unreadable(f"{tree.size} nodes, more than {LARGEST}", start)
    return tree
