"""Notations of single operators: scripts, fractions, roots, brackets, cases."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from numjax.expr.latex.commands import BIG, FUNCTIONS, INTEGRALS, LEAVES
from numjax.expr.latex.constructs import ALL
from numjax.expr.latex.environments import is_aligned
from numjax.expr.latex.lexer import END, SPACED, tokenize
from numjax.expr.latex.operands import ORDER, is_order
from numjax.expr.latex.state import BARS, PADDING, SCRIPTS, STOPS, is_connective
from numjax.expr.operators import CONDITIONAL, INFIX, META, OR, PRODUCT, SIGN, SUM
from numjax.expr.rules import DEFAULT
from numjax.expr.tree import Tree

ANNOTATED = 30  # x \\pmod n: an operand of relations
OPEN = 45  # sums, integrals, quantifiers: they take all factors that follow
APPLIED = 55  # functions: they take a factor
FACTOR = 60  # what stands in products but wants parentheses below scripts
ATOM = 70

Printed = tuple[str, int]

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]+")
_TEXT = re.compile(r"[^\\{}\s]+(?: [^\\{}\s]+)*")
_PRIMES = re.compile("′+")
_ESCAPED = re.compile(r"[^A-Za-z0-9()-]")

_COMMAND = {}
for _sign, _leaf in LEAVES.items():
    if _sign.startswith("\\") and _sign != r"\O/":
        _COMMAND.setdefault(_leaf, _sign)
_COMMAND[Tree("V", "…")] = r"\ldots"
_COMMAND[Tree("V", "⋯")] = r"\cdots"

# type -> how a node with children is printed, or None where it has no ordinary notation; `numjax.expr.printer` fills
# it in, since printing is recursive.
RULES: dict[str, Callable[[Tree, tuple[Tree, ...]], Printed | None]] = {}

# What `print_tree` remembers. No lru_cache: its call counts as a level of recursion, and deep trees need all of them.
_PRINTED: dict[Tree, Printed] = {}
_MOST_PRINTED = 1 << 14


def print_at(tree: Tree, power: int) -> str:
    """A part's text, in parentheses if its power is lower."""
    text, own_power = print_tree(tree)
    return text if own_power >= power else f"({text})"


def print_tree(tree: Tree) -> Printed:
    """A part's text and power. What stands around a part asks for both more than once, so they are remembered:
    otherwise the time would double with each level of depth."""
    children = tree.children
    if children is None:
        return print_leaf(tree)
    printed = _PRINTED.get(tree)
    if printed is None:
        rule = RULES.get(tree.type)
        result = rule(tree, children) if rule is not None else None
        printed = print_general(tree) if result is None else result
        if len(_PRINTED) >= _MOST_PRINTED:
            _PRINTED.clear()
        _PRINTED[tree] = printed
    return printed


def print_general(tree: Tree) -> Printed:
    symbol = _ESCAPED.sub(lambda match: f"*{ord(match[0]):x}.", tree.symbol)
    children = "".join(f"{{{print_tree(child)[0]}}}" for child in tree.children or ())
    return f"\\tree[{tree.type}]{{{symbol}}}{{{children}}}", ATOM


def print_row(trees: tuple[Tree, ...]) -> str:
    return ", ".join(print_at(tree, ANNOTATED) for tree in trees)


def print_cell(tree: Tree) -> str:
    """A cell of a row; padding is empty."""
    if tree == PADDING:
        return ""
    text = print_at(tree, META)
    return f"{{{text}}}" if text.startswith("[") else text


@functools.lru_cache(maxsize=1 << 12)
def print_leaf(tree: Tree) -> Printed:
    kind, symbol = tree.type, tree.symbol
    if tree in _COMMAND:
        return _COMMAND[tree], ATOM
    if kind == "N" and _NUMBER.fullmatch(symbol):
        return symbol, ATOM
    if kind == "V":
        if _is_single(symbol):
            return symbol, ATOM
        if _PRIMES.fullmatch(symbol):
            return r"\prime " * (len(symbol) - 1) + r"\prime", ATOM
        if _NAME.fullmatch(symbol):
            return f"\\mathrm{{{symbol}}}", ATOM
    if kind == "T" and _TEXT.fullmatch(symbol) and symbol.isprintable():
        text = f"\\text{{{symbol}}}"
        return text, META if is_connective(text) else ATOM
    if (sign := find_sign(tree)) and sign not in SPACED and tree not in _BIG_SIGNS:
        # In braces a sign, a function or ∂ stands alone.
        return f"{{{sign}}}", ATOM
    if kind == "M" and symbol == "S-0":
        return r"\{\}", ATOM
    if kind == "M" and symbol == "L-0":
        return "()", ATOM
    return print_general(tree)


_BIG_SIGNS = frozenset([*BIG.values(), *INTEGRALS.values()])  # in braces they take what follows
_FUNCTION_SIGNS = {head: sign for sign, head in FUNCTIONS.items() if sign.startswith("\\") and head.symbol != "∇"}
_FUNCTION_SIGNS |= {Tree("V", "∇"): r"\nabla", Tree("O", "partialdiff"): r"\partial"}
# The sign of an operator that is an F with its operands stands alone as a V.
_KINDS = {"U": "U", "O": "O", "V": "F"}


def find_sign(tree: Tree) -> str | None:
    """The sign that alone in a script or in braces reads as this leaf, an operator or a function; or None."""
    if tree.children is not None:
        return None
    sign = SIGN.get((_KINDS.get(tree.type, ""), tree.symbol))
    return sign if sign and tree.symbol != ":" else _FUNCTION_SIGNS.get(tree)


@functools.lru_cache(maxsize=1 << 12)
def _is_single(symbol: str) -> bool:
    """Whether a character stands for the variable of that name."""
    if len(symbol) != 1 or not symbol.isprintable() or symbol.isspace() or symbol in "&#$\\~":
        return False
    if symbol in INFIX or symbol in STOPS or symbol in SCRIPTS or symbol in BARS or "0" <= symbol <= "9":
        return False
    entry = ALL.get(symbol)
    if entry is not None and entry != Tree("V", symbol):
        return False
    return tokenize(symbol)[:2] == [symbol, END]


def is_letter(tree: Tree) -> bool:
    """A variable of one letter that is no d, which an integral would take for a differential."""
    return tree.type == "V" and len(tree.symbol) == 1 and tree.symbol != "d" and tree.symbol.isalpha()


_TWO = Tree("N", "2")
_INTERVALS = {
    "interval(O-O)": ("(", ")"),
    "interval(C-C)": ("[", "]"),
    "interval(O-C)": ("(", "]"),
    "interval(C-O)": ("[", ")"),
}
BASES = frozenset(["SUP", "SUB"])


def print_script(tree: Tree) -> str:
    """The text of a power or an index, where a sign may stand alone."""
    sign = find_sign(tree)
    return sign if sign and tree.symbol != "compose" else print_tree(tree)[0]


def _print_power(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    base, exponent = children
    mark = "^" if tree.symbol == "SUP" else "_"
    script_text = print_script(exponent)
    if mark == "^" and exponent.symbol == ORDER and exponent.children and len(exponent.children) == 1:
        content = exponent.children[0]
        if is_order(base, content, DEFAULT.calls):
            script_text = f"({print_tree(content)[0]})"
    parts = base.children
    if (
        parts and base.type == "O" and base.symbol in BASES and base.symbol != tree.symbol and len(parts) == 2
        and not (parts[0].type == "O" and parts[0].symbol in BASES)
    ):  # fmt: skip
        # x_i^2: one index and one power share their base.
        text = print_tree(base)[0]
    else:
        text = print_at(base, ATOM)
    return f"{text}{mark}{{{script_text}}}", FACTOR


def _make_braced(command: str, count: int):
    def print_braced(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
        if len(children) != count:
            return None
        return command + "".join(f"{{{print_tree(child)[0]}}}" for child in children), FACTOR

    return print_braced


def _print_repeating(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2 or any(child.type != "N" or child.children is not None for child in children):
        return None
    start, period = (child.symbol for child in children)
    if not start.replace(".", "", 1).isdigit() or not start[-1:].isdigit() or not period.isdigit():
        return None
    return rf"{start}{'' if '.' in start else '.'}\overline{{{period}}}", ATOM


def _print_root(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    radicand, degree = children
    index = "" if degree == _TWO else f"[{{{print_tree(degree)[0]}}}]"
    return rf"\sqrt{index}{{{print_tree(radicand)[0]}}}", FACTOR


def _make_postfix(mark: str):
    def print_postfix(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
        return (print_at(children[0], ATOM) + mark, FACTOR) if len(children) == 1 else None

    return print_postfix


def _print_interval(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    opener, closer = _INTERVALS[tree.symbol]
    return f"{opener}{print_row(children)}{closer}", ATOM


def _print_norm(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\left\| {print_at(children[0], OR)} \right\|", ATOM) if len(children) == 1 else None


def _print_ket(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\left| {print_at(children[0], OR)} \right\rangle", ATOM) if len(children) == 1 else None


def _print_bracket(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != (2 if tree.symbol == "inner-product" else 3):
        return None
    inner = r" \middle| ".join(print_at(child, OR) for child in children)
    return rf"\left\langle {inner} \right\rangle", ATOM


def _print_conditional_set(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    return rf"\{{{print_at(children[0], OR)} \mid {print_at(children[1], OR)}\}}", ATOM


def _print_conditional(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    return rf"{print_at(children[0], OR)} \mid {print_at(children[1], CONDITIONAL)}", CONDITIONAL


def _print_annotated(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    operand, note = children
    modulus = note.children
    if note.type != "F" or note.symbol not in ("pmod", "pod", "mod") or modulus is None or len(modulus) != 1:
        return None
    if note.symbol == "mod":
        return rf"{print_at(operand, ANNOTATED)} \mod {print_at(modulus[0], PRODUCT)}", ANNOTATED
    return f"{print_at(operand, ANNOTATED)} \\{note.symbol}{{{print_tree(modulus[0])[0]}}}", ANNOTATED


def _print_evaluated(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) not in (2, 3):
        return None
    bounds = "".join(f"{mark}{{{print_script(child)}}}" for mark, child in zip("_^", children[1:], strict=False))
    return rf"\left. {print_at(children[0], OR)} \right|{bounds}", FACTOR


def _print_cases(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) % 2:
        return None
    pairs = list(zip(children[::2], children[1::2], strict=True))
    if (PADDING, PADDING) in pairs or is_aligned(pairs):
        return None  # it would read back as no row, or as one formula
    rows = (
        print_cell(value) if condition == PADDING else f"{print_cell(value)} & {print_cell(condition)}"
        for value, condition in pairs
    )
    return "\\begin{cases} " + r" \\ ".join(rows) + " \\end{cases}", ATOM


def _print_sequence(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) < 2:
        return None
    return "{" + r" \quad ".join(print_at(child, META) for child in children) + "}", ATOM


def _print_limit_from(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 2:
        return None
    operand, direction = children
    sign = find_sign(direction)
    power = INFIX[sign].power if sign in INFIX else 0
    return (f"{{{print_at(operand, power)} {sign}}}", ATOM) if power >= SUM else None


def _print_differential(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    if len(children) != 1:
        return None
    variable = children[0]
    if variable in _BIG_SIGNS:
        return None
    if variable.children is None and is_letter(variable) and variable.symbol.isascii():
        return rf"\mathrm{{d}} {variable.symbol}", APPLIED
    return rf"\mathrm{{d}}{{{print_tree(variable)[0]}}}", APPLIED


def _print_partial(tree: Tree, children: tuple[Tree, ...]) -> Printed | None:
    return (rf"\partial {print_at(children[0], FACTOR)}", APPLIED) if len(children) == 1 else None


FORMS = {
    "SUP": _print_power,
    "SUB": _print_power,
    "divide": _make_braced(r"\frac", 2),
    "binomial": _make_braced(r"\binom", 2),
    "root": _print_root,
    "repeating-decimal": _print_repeating,
    "factorial": _make_postfix("!"),
    "double-factorial": _make_postfix("!!"),
    "percent": _make_postfix(r"\%"),
    "degree": _make_postfix(r"^{\circ}"),
    **dict.fromkeys(_INTERVALS, _print_interval),
    "norm": _print_norm,
    "ket": _print_ket,
    "inner-product": _print_bracket,
    "quantum-operator-product": _print_bracket,
    "conditional-set": _print_conditional_set,
    "conditional": _print_conditional,
    "annotated": _print_annotated,
    "evaluated-at": _print_evaluated,
    "cases": _print_cases,
    "form-seq": _print_sequence,
    "limit-from": _print_limit_from,
    "differential-d": _print_differential,
    "partialdiff": _print_partial,
}
