"""The grammar of formulas: the edges of its automaton.

A node's tokens, its children and END; numbers and spelled symbols have rules of their own. Read but never generated:
unknown, empty and unprintable symbols, and pieces of text that are no printable characters by themselves. With
arities, what is generated is canonical (`numjax.expr.canonical`): a list has the members that its symbol counts, a
matrix its rows and they their entries, and symbols that say how many children they take are not spelled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from numjax.expr.canonical import NUMBER as CANONICAL_NUMBER
from numjax.text import answers
from numjax.text import symbols as names
from numjax.text.symbols import ANON, ERROR, LEAVES, NUMBER, PADDING, SPELL, TEXT, Symbols
from numjax.text.tables import Edge
from numjax.types import NEXT, NONE, POP, PUSH

# Token types (MathGPT, section 3.1), in the order of the original's embedding table.
TYPES = 8
TYPE_TEXT, TYPE_START, TYPE_STOP, TYPE_VAR, TYPE_NUM, TYPE_OP, TYPE_END, TYPE_PIECE = range(TYPES)

# Kind of a symbol (`text.symbols`) → its type.
TYPE_OF = {names.VAR: TYPE_VAR, names.NUM: TYPE_NUM, names.OP: TYPE_OP, "END": TYPE_END}

# 32 levels, the root's first; 63 children and END have the 64 indices of six bits.
DEPTH, WIDTH = 31, 63

# State → character → state. "n0" comes after NUMBER; those in _CLOSABLE are whole numbers of two characters or more.
_NUMBERS = {
    "n0": {"sign": "n sign", "digit": "n one", "point": "n point"},
    "n sign": {"digit": "n whole", "point": "n point"},
    "n one": {"digit": "n whole", "point": "n part", "exponent": "n e"},
    "n whole": {"digit": "n whole", "point": "n part", "exponent": "n e"},
    "n point": {"digit": "n part"},
    "n part": {"digit": "n part", "exponent": "n e"},
    "n e": {"sign": "n e sign", "digit": "n power"},
    "n e sign": {"digit": "n power"},
    "n power": {"digit": "n power"},
}
_CLOSABLE = ("n whole", "n part", "n power")
_CHARACTERS = {"digit": "0123456789", "point": ".", "sign": "+-", "exponent": "eE"}

# Lists, sets and vectors of at most _MOST_ASKED and matrices of at most _MOST_ROWS by _MOST_ROWS are generated: 97%
# of the groups of MathGPT's corpus. Each size of a matrix is a class of tokens, and classes are what a mask costs.
_MOST_ROWS = 4
_ROW = ("M", "R!")
_COUNTED = re.compile(r"[LSV]-(0|[1-9][0-9]*)")
_MATRIX = re.compile(r"M-([1-9][0-9]*)x([1-9][0-9]*)")

# The states of an answer that is a formula: before its root, and behind it.
ANSWER_ROOT, ANSWERED = "answer root", "answered"

PLACED = (
    *("root", "child", "none or two", "one more", "spell", "piece", "pieces", *_NUMBERS),
    *(f"{what} {count}" for what in ("rows", "cells") for count in range(_MOST_ROWS + 1)),
)

# (type, symbol) → least and most children of a node that has any (`numjax.expr.symbols.arity`).
Arity = Callable[[str, str], tuple[int, int]]
# More children than these are not asked for: every one more is a further table of closing costs.
_MOST_ASKED = 8


def edges(symbols: Symbols, text_ids: Sequence[int], arity: Arity | None = None, answer: bool = False) -> list[Edge]:
    """From START in state "text" to the end of the formula, back in "text"; with `answer` also from START in
    `answers.START` to `ANSWERED`.

    An operator of two operands or more may also stand bare, as the + of r_+: it opens in "none or two".
    """
    out = [Edge("text", [symbols.start], "root", token_type=TYPE_START)]
    out += [Edge("done", [symbols.stop], "text", token_type=TYPE_STOP)]
    nodes = [("root", "done", NONE), ("child", "child", NEXT)]
    if answer:
        out += [Edge(answers.START, [symbols.start], ANSWER_ROOT, token_type=TYPE_START)]
        out += [Edge("answer done", [symbols.stop], ANSWERED, token_type=TYPE_STOP)]
        nodes.append((ANSWER_ROOT, "answer done", NONE))
    widths = [] if arity is None else _widths(symbols)
    if arity is not None:
        nodes += [("none or two", "one more", NEXT), ("one more", "child", NEXT)]
        nodes += [(f"cells {n}", f"cells {n - 1}", NEXT) for n in range(1, max(widths, default=0) + 1)]
    for state, back, leaf in nodes:
        out += _node(symbols, state, back, leaf, arity)
    for n in widths:
        out.append(Edge(f"rows {n}", [symbols.of(*_ROW)], f"cells {n}", PUSH, f"rows {n}", TYPE_OP))  # type: ignore[list-item]
    closable = [f"rows {n}" for n in widths] + ["cells 0"] * bool(widths) + ["none or two"] * (arity is not None)
    out += [Edge(state, [symbols.end], op=POP, token_type=TYPE_END) for state in ("child", *closable)]
    head = [symbols.special(TEXT)]
    out += [Edge("spell", head, "piece", PUSH, "child", TYPE_OP)]
    shown = [i for i in text_ids if _shown(symbols.vocab.bytes_of(i))]
    hidden = sorted(set(text_ids) - set(shown))
    for state in ("piece", "pieces"):
        out.append(Edge(state, shown, "pieces", NEXT, token_type=TYPE_PIECE))
        out.append(Edge(state, hidden, "pieces", NEXT, token_type=TYPE_PIECE, given=True))
        out.append(Edge(state, [symbols.end], op=POP, token_type=TYPE_END, given=state == "piece"))
    for state, moves in _NUMBERS.items():
        for kind, to in moves.items():
            ids = [i for c in _CHARACTERS[kind] if (i := symbols.of("N", c)) is not None]
            if state == "n0" and kind == "sign":
                # A plus before a number is read and not canonical.
                plus = [i for i in ids if symbols.names[i][2] == "+"]
                ids = [i for i in ids if i not in plus]
                out.append(Edge(state, plus, to, NEXT, token_type=TYPE_NUM, given=True))
            out.append(Edge(state, ids, to, NEXT, token_type=TYPE_NUM))
        if state in _CLOSABLE:
            out.append(Edge(state, [symbols.end], op=POP, token_type=TYPE_END))
    return out


def _node(symbols: Symbols, state: str, back: str, leaf: int, arity: Arity | None) -> list[Edge]:
    """What may stand for a node in a state: a leaf, an operator, a number or a spelled symbol."""
    out = []
    special = symbols.special
    for kind, token_type in ((names.VAR, TYPE_VAR), (names.NUM, TYPE_NUM)):
        shown = {i for i in symbols.of_kind(kind) if names.printable(symbols.names[i][2])}
        if kind == names.NUM:
            # A number of its own token, or one digit; a point or a sign alone is none.
            shown = {i for i in shown if CANONICAL_NUMBER.fullmatch(symbols.names[i][2])}
        hidden = {i for i in symbols.of_kind(kind) if i not in shown}
        if kind == names.VAR:
            shown.add(special(PADDING))
        out.append(Edge(state, sorted(shown), back, leaf, token_type=token_type))
        out.append(Edge(state, sorted(hidden), back, leaf, token_type=token_type, given=True))
    out.append(Edge(state, symbols.pointers, back, leaf, token_type=TYPE_NUM))
    matrices = {} if arity is None else _matrices(symbols)
    shown = {i for i in symbols.of_kind(names.OP) if _writable(*symbols.names[i][1:])}
    if arity is not None:
        shown = {i for i in shown if i in matrices or not _large(*symbols.names[i][1:])}
    hidden = set(symbols.of_kind(names.OP)) - shown
    for n in sorted(set(matrices.values())):
        ids = [i for i, width in matrices.items() if width == n]
        out.append(Edge(state, ids, f"rows {n}", PUSH, back, TYPE_OP))
    shown -= matrices.keys()
    shown |= {special(ANON), special(ERROR)}
    pairs = {i for i in shown | hidden if i in symbols.names and _least(symbols, i, arity) == 2}
    for ids, given in ((shown, False), (hidden, True)):
        out.append(Edge(state, sorted(ids - pairs), "child", PUSH, back, TYPE_OP, given))
        out.append(Edge(state, sorted(ids & pairs), "none or two", PUSH, back, TYPE_OP, given))
    # E, V and N have forms of their own, and errors are not for writing; what a spelled operator or group asks of its
    # children, the tables cannot know.
    spells, closed = {kind: special(name) for kind, name in SPELL.items()}, "EVN" if arity is None else "EVNUOM"
    out.append(Edge(state, [i for k, i in spells.items() if k not in closed], "spell", PUSH, back, TYPE_OP))
    out.append(Edge(state, [spells[k] for k in closed], "spell", PUSH, back, TYPE_OP, given=True))
    out.append(Edge(state, [special(NUMBER)], "n0", PUSH, back, TYPE_OP))
    out.append(Edge(state, [special(TEXT)], "piece", PUSH, back, TYPE_OP))
    return out


def arities(symbols: Symbols, of: Arity | None) -> dict[int, tuple[int, int]]:
    """Token → least and most children; those that are not named have any number."""
    special = symbols.special
    out = {special(ANON): (1, WIDTH), special(ERROR): (1, WIDTH)}
    for kind, name in SPELL.items():
        # The symbol's own sub-tree is one of them.
        out[special(name)] = (1, 1 if kind in LEAVES else WIDTH)
    if of is not None:
        for name in (ANON, ERROR):
            out[special(name)] = (1, min(of("E", "E")[1], WIDTH))
        for kind, name in SPELL.items():
            # A compound operator has its operator as well.
            out[special(name)] = (2 if kind == "+" else 1, min(1 + of(kind, "")[1], WIDTH))
        for i in symbols.of_kind(names.OP):
            least = _least(symbols, i, of)
            # The states see to one and two.
            out[i] = (min(least, _MOST_ASKED) if least > 2 else 0, min(of(*symbols.names[i][1:])[1], WIDTH))
            if (count := _announced(*symbols.names[i][1:])) is not None:
                # What is too large is only read: one class for all.
                out[i] = (count, count) if count <= _MOST_ASKED else (_MOST_ASKED, WIDTH)
    return out


def _least(symbols: Symbols, token: int, arity: Arity | None) -> int:
    _, type, symbol = symbols.names[token]
    if arity is None or type == "!" or _announced(type, symbol) is not None:
        return 0
    return arity(type, symbol)[0]


def _announced(type: str, symbol: str) -> int | None:
    """Children that the symbol of a group counts: members, or rows of a matrix."""
    found = type == "M" and (_COUNTED.fullmatch(symbol) or _MATRIX.fullmatch(symbol))
    return int(found[1]) if found else None


def _large(type: str, symbol: str) -> bool:
    """Whether a group is larger than what is generated."""
    count = _announced(type, symbol)
    return count is not None and (count > _MOST_ASKED or bool(_MATRIX.fullmatch(symbol)))


def _matrices(symbols: Symbols) -> dict[int, int]:
    """Matrices that are generated → their columns."""
    out = {}
    for i in symbols.of_kind(names.OP):
        _, type, symbol = symbols.names[i]
        if type == "M" and (found := _MATRIX.fullmatch(symbol)) and symbols.of(*_ROW) is not None:
            if int(found[1]) <= _MOST_ROWS and int(found[2]) <= _MOST_ROWS:
                out[i] = int(found[2])
    return out


def _widths(symbols: Symbols) -> list[int]:
    return sorted(set(_matrices(symbols).values()))


def _writable(type: str, symbol: str) -> bool:
    return names.printable(symbol) or (type, symbol) == ("W", "")


def _shown(piece: bytes) -> bool:
    try:
        return names.printable(piece.decode())
    except UnicodeDecodeError:
        return False
