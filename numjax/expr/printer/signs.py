"""The LaTeX sign of a single symbol, and its family of operators.

Both follow from the tables of the reader, so an operator that is added there has both.
"""

from __future__ import annotations

from numjax.expr.latex.commands import ACCENT_COMMANDS, BIG, FUNCTIONS, INTEGRALS, LEAVES, QUANTIFIERS
from numjax.expr.latex.constructs import INFIX  # with the negated relations
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

# Operators written around, above or below their operands; groups by the first letter of their symbol.
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
_POWER_FAMILIES = {
    **dict.fromkeys((META, CONNECTIVE, RELATION), "relation"),
    **dict.fromkeys((OR, AND, SUM), "sum"),
    PRODUCT: "product",
}
_INFIX_FAMILIES = {(infix.type, infix.symbol): _POWER_FAMILIES[infix.power] for infix in INFIX.values()}
_PREFIX_FAMILIES = {
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
    if type == "F" and symbol in ACCENT_COMMANDS and symbol not in SIGNS:
        return ACCENT_COMMANDS[symbol]
    return _CONSTRUCTS.get(symbol) or SIGNS.get(symbol) or _NEGATED.get(symbol, symbol)


def family(type: str, symbol: str) -> str:
    """The family of an operator: relation, sum (or as strong), product, function, big operator, quantifier,
    accent, script, group (lists, matrices and fences), text or other."""
    if type in "MT":
        return "group" if type == "M" else "text"
    if symbol in _SCRIPTS:
        return "script"
    if symbol in _FENCES:
        return "group"
    key = (type, symbol)
    operator_family = _INFIX_FAMILIES.get(key) or _PREFIX_FAMILIES.get(key)
    if operator_family is not None:
        return operator_family
    if type == "F":
        return "accent" if symbol in ACCENT_COMMANDS else "function"
    return "other"
