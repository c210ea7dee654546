"""Normalises trees of formulas, to compare content MathML with a LaTeX parser.

The content MathML of MathMLben is semantic: W(2, k) is a call, the i of x_i is an argument, NP is one name. Its LaTeX
does not have this information. Both trees become trees of the notation. Calls, indices and products become rows of
their parts. Names become rows of letters. Fonts are dropped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from numjax.expr.mathml.content import BIG, FUNCTIONS
from numjax.expr.tree import Tree

ACCENTS = frozenset("¯^~→˙¨")
DOTS = frozenset("⋅*∗×\u2062\u2061")
LISTS = ("interval(O-O)", "V-", "L-")


# What `normalize_notation` does to the structure of a tree, by name.
RULES = {
    "names": "names of several letters are rows of letters",
    "calls": "calls are rows of the function and its arguments",
    "indices": "indices are in the row of what they stand at",
    "products": "products are rows of all their factors",
    "operators": "compound operators are rows of their parts; bounds are in one order",
    "differentials": "differentials, derivatives and degrees are as written",
    "lists": "lists and pairs are rows of their members",
}


def normalize_symbols(tree: Tree) -> Tree:
    """Returns a tree with one symbol for each sign, and leaves of one type for each symbol; its structure stays."""
    if tree.children:
        return Tree(tree.type, _normalize_name(tree.symbol), [normalize_symbols(child) for child in tree.children])
    return _normalize_leaf(tree.type, _normalize_name(tree.symbol))


def normalize_notation(tree: Tree, skipped_rules: Collection[str] = ()) -> Tree:
    """Returns the normal form of a tree. Trees with the same notation have the same normal form.

    Args:
      skipped_rules: names of `RULES` that are not applied.
    """
    children = [normalize_notation(child, skipped_rules) for child in tree.children or ()]
    kind, name = tree.type, _normalize_name(tree.symbol)
    if not children:
        leaf = _normalize_leaf(kind, name)
        is_name = leaf.type == "V" and kind in "VTF-" and leaf.symbol == name and name.isalpha()
        return make_row([Tree("V", c) for c in name]) if is_name and "names" not in skipped_rules else leaf
    base, has_scripts = _find_base(tree)
    if kind == "+" and "operators" not in skipped_rules:
        if has_scripts and base in BIG | FUNCTIONS:
            return Tree("+", "", [_order_bounds(children[0]), *children[1:]])
        return make_row(children)
    if "differentials" not in skipped_rules:
        if (differential := _normalize_differential(name, children)) is not None:
            return differential
    if name == "SUB" and base not in BIG | FUNCTIONS and "indices" not in skipped_rules:
        return make_row(children)
    if ((kind, name) == ("U", "times") or name in DOTS) and "products" not in skipped_rules:
        return make_row(children)
    if kind == "F" and name not in FUNCTIONS | ACCENTS and "calls" not in skipped_rules:
        return make_row([normalize_notation(Tree("V", tree.symbol), skipped_rules), *children])
    if "lists" not in skipped_rules:
        if name == "form-seq" and children[-1].symbol == name:
            children = [*children[:-1], *(children[-1].children or ())]
        if name.startswith(LISTS) or (kind, name) == ("M", "S-1"):
            return make_row(children)
        if kind == "M" and len(children) == 1:
            return children[0]
    return Tree(
        kind, {"asymptotic-expansion": "similar-to", "continued-fraction": "divide"}.get(name, name), children
    )


def _normalize_name(symbol: str) -> str:
    name = unicodedata.normalize("NFKC", symbol)
    return "".join(name.replace("\u2062", "").split()) or name


def _normalize_leaf(kind: str, name: str) -> Tree:
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
    is_letters = kind in "VTF-" and name.isalpha() and name not in FUNCTIONS
    return Tree("V", name) if kind in "T-" or is_letters else Tree(kind, name)


def _normalize_differential(name: str, children: list[Tree]) -> Tree | None:
    """Returns a derivative, differential or degree as it is written, None for other nodes."""
    if name == "diffop" and len(children) == 2 and children[1] == Tree("N", "1"):
        return Tree("O", "SUP", [children[0], Tree("V", "′")])
    if name in ("differential-d", "partialdiff"):
        return make_row([Tree("V", "d" if name == "differential-d" else "∂"), *children])
    if name == "degree":
        return Tree("O", "SUP", [children[0], Tree("V", "compose")])
    if name == "SUP" and children[0].symbol == "times" and (children[0].children or children)[0].symbol in "d∂":
        first, *rest = list(children[0].children or ())
        return make_row([first, Tree("O", "SUP", [make_row(rest), children[1]])])
    return None


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
