"""Normalises trees of formulas, so that a test can compare content MathML with a LaTeX reader.

The content MathML of MathMLben is semantic: W(2, k) is a call, the i of x_i is an argument, NP is one name. Its LaTeX
does not have this information. Both trees become trees of the notation. Calls, indices and products become rows of
their parts. Names become rows of letters. Fonts are dropped.
"""

from __future__ import annotations

import unicodedata

from numjax.expr.mathml.content import BIG, FUNCTIONS
from numjax.expr.tree import Tree

ACCENTS = frozenset("¯^~→˙¨")
DOTS = frozenset("⋅*∗×\u2062\u2061")
LISTS = ("interval(O-O)", "V-", "L-")


def normalize_notation(tree: Tree) -> Tree:
    """Returns the normal form of a tree. Trees with the same notation have the same normal form."""
    children = [normalize_notation(child) for child in tree.children or ()]
    kind, name = tree.type, unicodedata.normalize("NFKC", tree.symbol)
    name = "".join(name.replace("\u2062", "").split()) or name
    if not children:
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
            return make_row([Tree("V", c) for c in name])
        return Tree("V", name) if kind in "T-" else Tree(kind, name)
    base, has_scripts = _find_base(tree)
    if kind == "+" and not (has_scripts and base in BIG | FUNCTIONS):
        return make_row(children)
    if kind == "+":
        return Tree("+", "", [_order_bounds(children[0]), *children[1:]])
    if name == "diffop" and len(children) == 2 and children[1] == Tree("N", "1"):
        return Tree("O", "SUP", [children[0], Tree("V", "′")])
    if name == "form-seq" and children[-1].symbol == name:
        children = [*children[:-1], *(children[-1].children or ())]
    if (name == "SUB" and base not in BIG | FUNCTIONS) or (kind, name) == ("U", "times") or name in DOTS:
        return make_row(children)
    if kind == "F" and name not in FUNCTIONS | ACCENTS:
        return make_row([normalize_notation(Tree("V", tree.symbol)), *children])
    if name in ("differential-d", "partialdiff"):
        return make_row([Tree("V", "d" if name == "differential-d" else "∂"), *children])
    if name == "degree":
        return Tree("O", "SUP", [children[0], Tree("V", "compose")])
    if name == "SUP" and children[0].symbol == "times" and (children[0].children or children)[0].symbol in "d∂":
        first, *rest = children[0].children or ()
        return make_row([first, Tree("O", "SUP", [make_row(rest), children[1]])])
    if name.startswith(LISTS) or (kind, name) == ("M", "S-1"):
        return make_row(children)
    if kind == "M" and len(children) == 1:
        return children[0]
    return Tree(
        kind, {"asymptotic-expansion": "similar-to", "continued-fraction": "divide"}.get(name, name), children
    )


def _order_bounds(head: Tree) -> Tree:
    """Puts the lower bound of Σ before the upper bound. Other trees stay."""
    if head.symbol == "SUB" and head.children and head.children[0].symbol == "SUP" and head.children[0].children:
        (base, power), index = head.children[0].children, head.children[1]
        return Tree("O", "SUP", [Tree("O", "SUB", [base, index]), power])
    return head


def make_row(parts: list[Tree]) -> Tree:
    """Returns a row of the parts. A part that is a row is replaced by its own parts."""
    flat_parts: list[Tree] = []
    for part in parts:
        flat_parts += part.children or [part] if (part.type, part.symbol) == ("U", "times") else [part]
    return flat_parts[0] if len(flat_parts) == 1 else Tree("U", "times", flat_parts)


def _find_base(tree: Tree) -> tuple[str, bool]:
    """Returns (the symbol of a node or of a compound operator's head without its scripts, whether it has scripts)."""
    node = tree.children[0] if tree.type == "+" and tree.children else tree
    has_scripts = False
    while node.symbol in ("SUB", "SUP") and node.children:
        node, has_scripts = node.children[0], True
    return node.symbol, has_scripts
