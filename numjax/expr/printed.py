"""What every part of the printer needs: powers, leaves, the general notation, and parts at a power."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from numjax.expr.commands import BIG, FUNCTIONS, INTEGRALS, LEAVES
from numjax.expr.constructs import ALL
from numjax.expr.lexer import END, SPACED, tokens_of
from numjax.expr.operators import INFIX, META, SIGN
from numjax.expr.state import BARS, PADDING, SCRIPTS, STOPS, connecting
from numjax.expr.tree import Tree

ANNOTATED = 30  # x \\pmod n: an operand of relations
OPEN = 45  # sums, integrals, quantifiers: they take all factors that follow
APPLIED = 55  # functions: they take a factor
FACTOR = 60  # what stands in products but wants parentheses below scripts
ATOM = 70

Printed = tuple[str, int]

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?|\.[0-9]+")
_NAME = re.compile(r"[A-Za-z]{2,}")
_TEXT = re.compile(r"[^\\{}\s]+(?: [^\\{}\s]+)*")
_PRIMES = re.compile("′+")
_KEPT = re.compile(r"[^A-Za-z0-9()-]")

_COMMAND = {}
for _sign, _made in LEAVES.items():
    if _sign.startswith("\\") and _sign != r"\O/":
        _COMMAND.setdefault(_made, _sign)
_COMMAND[Tree("V", "…")] = r"\ldots"
_COMMAND[Tree("V", "⋯")] = r"\cdots"

# type -> how a node with children is printed, or None where it has no ordinary notation; `numjax.expr.printer` fills
# it in, since printing is recursive.
RULES: dict[str, Callable[[Tree, tuple[Tree, ...]], Printed | None]] = {}


def at(tree: Tree, power: int) -> str:
    """A part where at least that power is asked for."""
    text, own = printed(tree)
    return text if own >= power else f"({text})"


def printed(tree: Tree) -> Printed:
    children = tree.children
    if children is None:
        return leaf(tree)
    rule = RULES.get(tree.type)
    made = rule(tree, children) if rule is not None else None
    return general(tree) if made is None else made


def general(tree: Tree) -> Printed:
    symbol = _KEPT.sub(lambda match: f"*{ord(match[0]):x}.", tree.symbol)
    below = "".join(f"{{{printed(child)[0]}}}" for child in tree.children or ())
    return f"\\tree[{tree.type}]{{{symbol}}}{{{below}}}", ATOM


def row(trees: tuple[Tree, ...]) -> str:
    return ", ".join(at(tree, ANNOTATED) for tree in trees)


def cell(tree: Tree) -> str:
    """Of a row of several; what pads it is left empty."""
    if tree == PADDING:
        return ""
    text = at(tree, META)
    return f"{{{text}}}" if text.startswith("[") else text


@functools.lru_cache(maxsize=1 << 12)
def leaf(tree: Tree) -> Printed:
    kind, symbol = tree.type, tree.symbol
    if tree in _COMMAND:
        return _COMMAND[tree], ATOM
    if kind == "N" and _NUMBER.fullmatch(symbol):
        return symbol, ATOM
    if kind == "V":
        if _single(symbol):
            return symbol, ATOM
        if _PRIMES.fullmatch(symbol):
            return r"\prime " * (len(symbol) - 1) + r"\prime", ATOM
        if _NAME.fullmatch(symbol):
            return f"\\mathrm{{{symbol}}}", ATOM
    if kind == "T" and _TEXT.fullmatch(symbol) and symbol.isprintable():
        text = f"\\text{{{symbol}}}"
        return text, META if connecting(text) else ATOM
    if (sign := bare_sign(tree)) and sign not in SPACED and tree not in _TAKING:
        # In braces a sign, a function or ∂ stands alone.
        return f"{{{sign}}}", ATOM
    if kind == "M" and symbol == "S-0":
        return r"\{\}", ATOM
    if kind == "M" and symbol == "L-0":
        return "()", ATOM
    return general(tree)


_TAKING = frozenset([*BIG.values(), *INTEGRALS.values()])  # in braces they take what follows
_ALONE = {leaf: sign for sign, leaf in FUNCTIONS.items() if sign.startswith("\\") and leaf.symbol != "∇"}
_ALONE |= {Tree("V", "∇"): r"\nabla", Tree("O", "partialdiff"): r"\partial"}
# The sign of an operator that is an F with its operands stands alone as a V.
_KINDS = {"U": "U", "O": "O", "V": "F"}


def bare_sign(tree: Tree) -> str | None:
    """What in a script of its own, or in braces, reads as this leaf: the sign of an operator or a function."""
    if tree.children is not None:
        return None
    sign = SIGN.get((_KINDS.get(tree.type, ""), tree.symbol))
    return sign if sign and tree.symbol != ":" else _ALONE.get(tree)


@functools.lru_cache(maxsize=1 << 12)
def _single(symbol: str) -> bool:
    """Whether a character stands for the variable of that name."""
    if len(symbol) != 1 or not symbol.isprintable() or symbol.isspace() or symbol in "&#$\\~":
        return False
    if symbol in INFIX or symbol in STOPS or symbol in SCRIPTS or symbol in BARS or "0" <= symbol <= "9":
        return False
    made = ALL.get(symbol)
    if made is not None and made != Tree("V", symbol):
        return False
    return tokens_of(symbol)[:2] == [symbol, END]


def letter(tree: Tree) -> bool:
    """A variable of one letter that is no d, which an integral would take for a differential."""
    return tree.type == "V" and len(tree.symbol) == 1 and tree.symbol != "d" and tree.symbol.isalpha()
