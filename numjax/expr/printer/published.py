"""The published printer of operator trees: no parentheses, so its output may read back differently.

The text on which MathGPT's headline scores are computed: symbols by a small table, lists joined by commas, operators
between their operands or before a single one, whatever the precedence: times(plus(1, 2), 3) prints 1 + 2 \\times 3.
Source: the authors' code as described in `experiments/mathgpt/README.md`.
"""

from __future__ import annotations

from numjax.expr.latex.commands import ACCENT_COMMANDS
from numjax.expr.operators import INFIX
from numjax.expr.printer import signs
from numjax.expr.tree import Tree

# With the names that only LaTeXML has for an operator.
SIGNS = signs.SIGNS | {
    op.published[1]: sign
    for sign, op in INFIX.items()
    if op.published != (op.type, op.symbol) and op.published[1].isascii()
}
_FENCES = {
    "abs": ("|", "|"),
    "norm": (r"\|", r"\|"),
    "floor": (r"\lfloor", r"\rfloor"),
    "ceiling": (r"\lceil", r"\rceil"),
    "ket": ("|", r"\rangle"),
    "bra": (r"\langle", "|"),
}
_POSTFIXES = {"factorial": "!", "double-factorial": "!!", "percent": r"\%", "degree": r"\degree"}


def latex(tree: Tree) -> str:
    """The published text of a tree."""
    kind, symbol, children = tree.type, tree.symbol, tree.children
    if children is None:
        return SIGNS.get(symbol, symbol) if kind != "N" else symbol
    parts = [latex(child) for child in children]
    if kind == "E":
        return " ".join(parts)
    if kind == "+":
        return f"{parts[0]} {{ {' '.join(parts[1:])} }}"
    if kind == "M":
        return _print_group(symbol, parts, children)
    if symbol in ("and", "form-seq"):
        return " , ".join(parts)
    if symbol in ("SUB", "SUP") and len(parts) == 2:
        return f"{parts[0]} {'_' if symbol == 'SUB' else '^'} {{ {parts[1]} }}"
    if symbol == "root" and len(parts) == 2:
        return rf"\sqrt [ {parts[1]} ] {{ {parts[0]} }}"
    if symbol in ("binomial", "continued-fraction") and len(parts) == 2:
        return rf"\{'binom' if symbol == 'binomial' else 'cfrac'} {{ {parts[0]} }} {{ {parts[1]} }}"
    if symbol in _FENCES and len(parts) == 1:
        opener, closer = _FENCES[symbol]
        return f"{opener} {parts[0]} {closer}"
    if symbol in _POSTFIXES and len(parts) == 1:
        return f"{parts[0]} {_POSTFIXES[symbol]}"
    return _print_operator(kind, symbol, parts)


def _print_operator(kind: str, symbol: str, parts: list[str]) -> str:
    if symbol.startswith("interval(") and len(parts) == 2:
        opener, closer = ("[" if symbol[9] == "C" else "("), ("]" if symbol[11] == "C" else ")")
        return f"{opener} {parts[0]} , {parts[1]} {closer}"
    if symbol == "conditional-set":
        return rf"\{{ {' | '.join(parts)} \}}"
    if symbol in ("inner-product", "quantum-operator-product"):
        return rf"\langle {' | '.join(parts)} \rangle"
    if symbol == "evaluated-at":
        return parts[0] + " |" + "".join(f" {mark} {{ {part} }}" for mark, part in zip("_^", parts[1:], strict=False))
    if symbol == "cases":
        rows = [" & ".join(parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return rf"\begin{{cases}} {(chr(92) * 2).join(f' {row} ' for row in rows)} \end{{cases}}"
    if symbol == "differential-d":
        return f"d {' '.join(parts)}"
    if kind == "F" and symbol in ACCENT_COMMANDS and len(parts) == 1:
        return f"{ACCENT_COMMANDS[symbol]} {{ {parts[0]} }}"
    sign = SIGNS.get(symbol, symbol)
    return f"{sign} {parts[0]}" if len(parts) == 1 else f" {sign} ".join(parts)


def _print_group(symbol: str, parts: list[str], children: tuple[Tree, ...]) -> str:
    if symbol.startswith("M-"):
        rows = (" & ".join(map(latex, row.children or ())) for row in children)
        return rf"\begin{{matrix}} {(' ' + chr(92) * 2 + ' ').join(rows)} \end{{matrix}}"
    if symbol == "R!":
        return " & ".join(parts)
    inner = " , ".join(parts)
    if symbol.startswith("D"):
        return f"[ {inner} ]"
    if symbol.startswith("S"):
        return rf"\{{ {inner} \}}"
    if symbol.startswith("V"):
        return f"( {inner} )"
    return inner
