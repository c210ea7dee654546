"""Trees without what only a convention decides, to hold content MathML against a reader of LaTeX.

MathMLben's content is semantic: W(2, k) is a call, i of x_i an argument, NP one name. Its LaTeX does not say so, so
both become what is written: calls, indices and products are rows of their parts, names rows of letters, fonts are
dropped.
"""

from __future__ import annotations

import unicodedata

from numjax.expr.mathml.content import BIG, FUNCTIONS
from numjax.expr.tree import Tree

ACCENTS = frozenset("¯^~→˙¨")
DOTS = frozenset("⋅*∗×\u2062\u2061")
LISTS = ("interval(O-O)", "V-", "L-")


def as_written(tree: Tree) -> Tree:
    """A tree's normal form of notation; trees of the same writing have the same."""
    below = [as_written(child) for child in tree.children or ()]
    kind, name = tree.type, unicodedata.normalize("NFKC", tree.symbol)
    name = "".join(name.replace("\u2062", "").split()) or name
    if not below:
        if (kind, name) in (("U", "times"), ("V", "∗")):
            return Tree("V", "*")
        if name in ("⋯", "..."):
            return Tree("V", "...")
        if name in ("∘", "compose"):
            return Tree("V", "compose")
        if name in ("differential-d", "partialdiff"):
            return Tree("V", "d" if name == "differential-d" else "∂")
        if name == "imaginaryi":
            return Tree("V", "i")
        if kind in "VF" and name in FUNCTIONS:
            return Tree("F", name)
        if kind == "V" and name.replace(".", "").isdigit():
            return Tree("N", name)
        if kind in "VTF-" and name.isalpha() and name not in FUNCTIONS:
            return row([Tree("V", c) for c in name])
        return Tree("V", name) if kind in "T-" else Tree(kind, name)
    base, scripts = _base(tree)
    if kind == "+" and not (scripts and base in BIG | FUNCTIONS):
        return row(below)
    if kind == "+":
        return Tree("+", "", [_index_first(below[0]), *below[1:]])
    if name == "diffop" and len(below) == 2 and below[1] == Tree("N", "1"):
        return Tree("O", "SUP", [below[0], Tree("V", "′")])
    if name == "form-seq" and below[-1].symbol == name:
        below = [*below[:-1], *(below[-1].children or ())]
    if (name == "SUB" and base not in BIG | FUNCTIONS) or (kind, name) == ("U", "times") or name in DOTS:
        return row(below)
    if kind == "F" and name not in FUNCTIONS | ACCENTS:
        return row([as_written(Tree("V", tree.symbol)), *below])
    if name in ("differential-d", "partialdiff"):
        return row([Tree("V", "d" if name == "differential-d" else "∂"), *below])
    if name == "degree":
        return Tree("O", "SUP", [below[0], Tree("V", "compose")])
    if name == "SUP" and below[0].symbol == "times" and (below[0].children or below)[0].symbol in "d∂":
        first, *rest = below[0].children or ()
        return row([first, Tree("O", "SUP", [row(rest), below[1]])])
    if name.startswith(LISTS) or (kind, name) == ("M", "S-1"):
        return row(below)
    if kind == "M" and len(below) == 1:
        return below[0]
    return Tree(kind, {"asymptotic-expansion": "similar-to", "continued-fraction": "divide"}.get(name, name), below)


def _index_first(head: Tree) -> Tree:
    """Σ with its bounds in one order, whichever is written first."""
    if head.symbol == "SUB" and head.children and head.children[0].symbol == "SUP" and head.children[0].children:
        (base, power), index = head.children[0].children, head.children[1]
        return Tree("O", "SUP", [Tree("O", "SUB", [base, index]), power])
    return head


def row(parts: list[Tree]) -> Tree:
    """Parts in a row, rows in it opened."""
    flat: list[Tree] = []
    for part in parts:
        flat += part.children or [part] if (part.type, part.symbol) == ("U", "times") else [part]
    return flat[0] if len(flat) == 1 else Tree("U", "times", flat)


def _base(tree: Tree) -> tuple[str, bool]:
    """(symbol under all scripts of a node or of a compound operator's head, whether there are scripts)."""
    node = tree.children[0] if tree.type == "+" and tree.children else tree
    scripts = False
    while node.symbol in ("SUB", "SUP") and node.children:
        node, scripts = node.children[0], True
    return node.symbol, scripts
