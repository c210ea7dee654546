"""Notations of single operators: scripts, fractions, roots, brackets, cases."""

from __future__ import annotations

from numjax.expr.environments import aligned
from numjax.expr.operators import CONDITIONAL, INFIX, META, OR, PRODUCT, SUM
from numjax.expr.printed import ANNOTATED, APPLIED, ATOM, FACTOR, Printed, at, bare_sign, cell, letter, printed, row
from numjax.expr.rules import DEFAULT
from numjax.expr.scripts import ORDER, counts
from numjax.expr.state import PADDING
from numjax.expr.tree import Tree

_TWO = Tree("N", "2")
_INTERVALS = {
    "interval(O-O)": ("(", ")"),
    "interval(C-C)": ("[", "]"),
    "interval(O-C)": ("(", "]"),
    "interval(C-O)": ("[", ")"),
}
BASES = frozenset(["SUP", "SUB"])


def script(tree: Tree) -> str:
    """In the braces of a power or index, where a sign may stand alone."""
    sign = bare_sign(tree)
    return sign if sign and tree.symbol != "compose" else printed(tree)[0]


def _power(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    base, raised = children
    mark = "^" if tree.symbol == "SUP" else "_"
    inner = script(raised)
    if mark == "^" and raised.symbol == ORDER and raised.children and len(raised.children) == 1:
        of = raised.children[0]
        if counts(base, of, DEFAULT.calls):
            inner = f"({printed(of)[0]})"
    below = base.children
    if (
        below and base.type == "O" and base.symbol in BASES and base.symbol != tree.symbol and len(below) == 2
        and not (below[0].type == "O" and below[0].symbol in BASES)
    ):  # fmt: skip
        # x_i^2: one index and one power share their base.
        text = printed(base)[0]
    else:
        text = at(base, ATOM)
    return f"{text}{mark}{{{inner}}}", FACTOR


def _braced(command: str, count: int):
    def made(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
        if len(children) != count:
            return None
        return command + "".join(f"{{{printed(child)[0]}}}" for child in children), FACTOR

    return made


def _repeating(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2 or any(child.type != "N" or child.children is not None for child in children):
        return None
    begin, period = (child.symbol for child in children)
    if not begin.replace(".", "", 1).isdigit() or not begin[-1:].isdigit() or not period.isdigit():
        return None
    return rf"{begin}{'' if '.' in begin else '.'}\overline{{{period}}}", ATOM


def _root(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    of, degree = children
    index = "" if degree == _TWO else f"[{{{printed(degree)[0]}}}]"
    return rf"\sqrt{index}{{{printed(of)[0]}}}", FACTOR


def _postfix(mark: str):
    def made(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
        return (at(children[0], ATOM) + mark, FACTOR) if len(children) == 1 else None

    return made


def _interval(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    opener, closer = _INTERVALS[tree.symbol]
    return f"{opener}{row(children)}{closer}", ATOM


def _norm(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\left\| {at(children[0], OR)} \right\|", ATOM) if len(children) == 1 else None


def _ket(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\left| {at(children[0], OR)} \right\rangle", ATOM) if len(children) == 1 else None


def _bracket(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != (2 if tree.symbol == "inner-product" else 3):
        return None
    inner = r" \middle| ".join(at(child, OR) for child in children)
    return rf"\left\langle {inner} \right\rangle", ATOM


def _conditional_set(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    return rf"\{{{at(children[0], OR)} \mid {at(children[1], OR)}\}}", ATOM


def _conditional(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    return rf"{at(children[0], OR)} \mid {at(children[1], CONDITIONAL)}", CONDITIONAL


def _annotated(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    of, note = children
    below = note.children
    if note.type != "F" or note.symbol not in ("pmod", "pod", "mod") or below is None or len(below) != 1:
        return None
    if note.symbol == "mod":
        return rf"{at(of, ANNOTATED)} \mod {at(below[0], PRODUCT)}", ANNOTATED
    return f"{at(of, ANNOTATED)} \\{note.symbol}{{{printed(below[0])[0]}}}", ANNOTATED


def _evaluated(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) not in (2, 3):
        return None
    bounds = "".join(f"{mark}{{{script(child)}}}" for mark, child in zip("_^", children[1:], strict=False))
    return rf"\left. {at(children[0], OR)} \right|{bounds}", FACTOR


def _cases(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) % 2:
        return None
    pairs = list(zip(children[::2], children[1::2], strict=True))
    if (PADDING, PADDING) in pairs or aligned(pairs):
        return None  # it would be no row, or one formula
    rows = (cell(left) if right == PADDING else f"{cell(left)} & {cell(right)}" for left, right in pairs)
    return "\\begin{cases} " + r" \\ ".join(rows) + " \\end{cases}", ATOM


def _sequence(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) < 2:
        return None
    return "{" + r" \quad ".join(at(child, META) for child in children) + "}", ATOM


def _limit_from(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    of, beside = children
    sign = bare_sign(beside)
    power = INFIX[sign].power if sign in INFIX else 0
    return (f"{{{at(of, power)} {sign}}}", ATOM) if power >= SUM else None


def _differential(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 1:
        return None
    of = children[0]
    if of.children is None and letter(of) and of.symbol.isascii():
        return rf"\mathrm{{d}} {of.symbol}", APPLIED
    return rf"\mathrm{{d}}{{{printed(of)[0]}}}", APPLIED


def _partial(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\partial {at(children[0], FACTOR)}", APPLIED) if len(children) == 1 else None


FORMS = {
    "SUP": _power,
    "SUB": _power,
    "divide": _braced(r"\frac", 2),
    "binomial": _braced(r"\binom", 2),
    "root": _root,
    "repeating-decimal": _repeating,
    "factorial": _postfix("!"),
    "double-factorial": _postfix("!!"),
    "percent": _postfix(r"\%"),
    "degree": _postfix(r"^{\circ}"),
    **dict.fromkeys(_INTERVALS, _interval),
    "norm": _norm,
    "ket": _ket,
    "inner-product": _bracket,
    "quantum-operator-product": _bracket,
    "conditional-set": _conditional_set,
    "conditional": _conditional,
    "annotated": _annotated,
    "evaluated-at": _evaluated,
    "cases": _cases,
    "form-seq": _sequence,
    "limit-from": _limit_from,
    "differential-d": _differential,
    "partialdiff": _partial,
}
