"""How many children a node may have, by its type and symbol."""

from __future__ import annotations

import functools

WIDEST = 62  # children: the widest node of the model's tree positions

LEAVES = frozenset("VNCTW-")

# Relations: two sides or more. A chain a = b < c is `and` of the relations between neighbours.
RELATIONS = frozenset(
    "eq neq approx equivalent lt gt leq geq in notin subset prsubset similar-to similar-to-or-equals proportional-to "
    "much-less-than much-greater-than perpendicular-to parallel-to maps-to implies iff proves models assign".split()
)

_ARITIES = {
    **dict.fromkeys(
        "divide SUP SUB root binomial rem setdiff conditional annotated limit-from continued-fraction "
        "repeating-decimal interval(O-O) interval(C-C) interval(O-C) interval(C-O)".split(),
        (2, 2),
    ),
    **dict.fromkeys("minus plus-or-minus minus-or-plus".split(), (1, 2)),
    **dict.fromkeys(
        "factorial double-factorial percent degree norm ket bra differential-d not forall exists".split(), (1, 1)
    ),
    "evaluated-at": (2, 3),  # at a point, or between two
    **dict.fromkeys("times compose conditional-set".split(), (2, WIDEST)),
}

# Wider nodes in LaTeXML's trees: a - b - c is one node.
_PUBLISHED_ARITIES = {"divide": (2, WIDEST), "minus": (1, WIDEST)}


@functools.lru_cache(maxsize=1 << 14)
def arity(type: str, symbol: str, as_published: bool = False) -> tuple[int, int]:
    """The least and the most children of a node that has children.

    A U, O, F, M or E node may always have none instead: U, O and F are then the bare sign (the + of r_+), M the empty
    list. So n children are right if n = 0 or least <= n <= most; for the leaf types both are 0.

    Args:
      type, symbol: of the node (`numjax.expr.tree`). as_published: with LaTeXML's flattened minus and divide.
    """
    if type in LEAVES:
        return 0, 0
    if type in "UO":
        if as_published and symbol in _PUBLISHED_ARITIES:
            return _PUBLISHED_ARITIES[symbol]
        if symbol in _ARITIES:
            return _ARITIES[symbol]
        return (2, WIDEST) if symbol in RELATIONS else (1, WIDEST)
    if type == "M":
        rows = _rows(symbol)
        if rows is not None:
            return rows, rows
    return 1, WIDEST


def _rows(symbol: str) -> int | None:
    """The number of members in "L-3", "S-2", "V-4" or of rows in "M-2x3"; None for another symbol."""
    kind, dash, count = symbol.partition("-")
    if not dash or len(count) > 9:
        return None
    if kind in ("L", "S", "V"):
        return int(count) if count.isascii() and count.isdigit() else None
    if kind == "M":
        rows, cross, columns = count.partition("x")
        if cross and rows.isascii() and rows.isdigit() and columns.isascii() and columns.isdigit():
            return int(rows)
    return None
