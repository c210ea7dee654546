"""One symbol alone: the LaTeX sign that it is written with, and the family of operators that it belongs to.

Both follow from the tables that formulas are read with, so an operator that is added there has both.
"""

from __future__ import annotations

from numjax.expr.commands import ACCENT_OF, BIG, FUNCTIONS, INTEGRALS, LEAVES, QUANTIFIERS
from numjax.expr.constructs import INFIX  # with the negated relations
from numjax.expr.operators import AND, CONNECTIVE, META, OR, PRODUCT, RELATION, SIGN, SUM

# Symbol → its sign, whatever the type.
SIGNS: dict[str, str] = {}
for _table in (LEAVES, BIG, INTEGRALS, QUANTIFIERS, FUNCTIONS):
    for _sign, _leaf in _table.items():
        SIGNS.setdefault(_leaf.symbol, _sign)
for (_, _symbol), _sign in SIGN.items():
    SIGNS[_symbol] = _sign
SIGNS.update(
    {"compose": r"\circ", "partialdiff": r"\partial", "infinity": r"\infty", "percent": r"\%", "divide": "/"}
)

# What is written around, above or below its operands, and groups by the first letter of their symbol.
_CONSTRUCTS = {
    "SUP": "^",
    "SUB": "_",
    "root": r"\sqrt",
    "binomial": r"\binom",
    "continued-fraction": r"\cfrac",
    "abs": "| |",
    "norm": r"\| \|",
    "floor": r"\lfloor \rfloor",
    "ceiling": r"\lceil \rceil",
    "ket": r"| \rangle",
    "bra": r"\langle |",
    "inner-product": r"\langle | \rangle",
    "conditional-set": r"\{ | \}",
    "evaluated-at": "|",
    "conditional": "|",
    "factorial": "!",
    "double-factorial": "!!",
    "degree": r"\degree",
    "differential-d": "d",
    "form-seq": ",",
    "cases": r"\begin{cases}",
    "interval(O-O)": "( , )",
    "interval(C-C)": "[ , ]",
    "interval(O-C)": "( , ]",
    "interval(C-O)": "[ , )",
}
_GROUPS = {"L": ",", "S": r"\{ \}", "V": "( )", "M": r"\begin{matrix}", "R": "&", "D": "[ ]"}
_NEGATED = {infix.symbol: sign for sign, infix in reversed(INFIX.items()) if sign.startswith("\\not\\")}
_PLACES = {
    **dict.fromkeys((META, CONNECTIVE, RELATION), "relation"),
    **dict.fromkeys((OR, AND, SUM), "sum"),
    PRODUCT: "product",
}
_BETWEEN = {(infix.type, infix.symbol): _PLACES[infix.power] for infix in INFIX.values()}
_BEFORE = {
    (leaf.type, leaf.symbol): family
    for table, family in ((BIG, "big operator"), (INTEGRALS, "big operator"), (QUANTIFIERS, "quantifier"))
    for leaf in table.values()
}
_SCRIPTS = frozenset("SUP SUB root binomial continued-fraction evaluated-at".split())
_FENCES = frozenset(
    "abs norm floor ceiling ket bra inner-product quantum-operator-product conditional-set cases form-seq "
    "interval(O-O) interval(C-C) interval(O-C) interval(C-O)".split()
)


def sign(type: str, symbol: str) -> str:
    """LaTeX of a node's symbol by itself: sign("O", "leq") is \\leq; its name where it has none."""
    if type == "M":
        return _GROUPS.get(symbol.removeprefix("matrix-")[:1], symbol)
    if type in "TN":
        return symbol
    if type == "F" and symbol in ACCENT_OF and symbol not in SIGNS:
        return ACCENT_OF[symbol]
    return _CONSTRUCTS.get(symbol) or SIGNS.get(symbol) or _NEGATED.get(symbol, symbol)


def family(type: str, symbol: str) -> str:
    """What an operator does: relation, sum (what binds like one), product, function, big operator, quantifier,
    accent, script, group (lists, matrices and fences), text or other."""
    if type in "MT":
        return "group" if type == "M" else "text"
    if symbol in _SCRIPTS:
        return "script"
    if symbol in _FENCES:
        return "group"
    key = (type, symbol)
    found = _BETWEEN.get(key) or _BEFORE.get(key)
    if found is not None:
        return found
    if type == "F":
        return "accent" if symbol in ACCENT_OF else "function"
    return "other"
