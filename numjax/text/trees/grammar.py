"""The grammar of formulas: the edges of its automaton.

A node is its tokens, its children and END; numbers and spelled symbols have rules of their own. Unknown, empty and
unprintable symbols are read but never generated, and so are pieces of text that are not printable by themselves. With
arities, generated formulas are canonical (`numjax.expr.canonical`): a list has as many members as its symbol says, a
matrix its rows and each row its entries, and symbols that say how many children they take are not spelled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from numjax.expr.canonical import NUMBER as CANONICAL_NUMBER
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab import symbols as names
from numjax.text.vocab.symbols import ANON, ERROR, LEAVES, NUMBER, PADDING, SPELL, TEXT, Symbols
from numjax.types import NEXT, NONE, POP, PUSH

# Token types (MathGPT, section 3.1), in the order of the original's embedding table.
TYPES = 8
TYPE_TEXT, TYPE_START, TYPE_STOP, TYPE_VAR, TYPE_NUM, TYPE_OP, TYPE_END, TYPE_PIECE = range(TYPES)

# Kind of a symbol (`text/vocab/symbols.py`) → its token type.
TYPE_OF = {names.VAR: TYPE_VAR, names.NUM: TYPE_NUM, names.OP: TYPE_OP, "END": TYPE_END}

# 32 levels, the root's first; 63 children and END use the 64 indices of six bits.
DEPTH, WIDTH = 31, 63

# State → kind of character → state. "n0" comes after NUMBER; in the states of _CLOSABLE a number of two characters or
# more may end.
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
# of the groups of MathGPT's corpus. Each size of a matrix is a class of tokens, and a mask costs by its classes.
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
# The most children that the grammar requires of a node: each further one needs a further table of closing costs.
_MOST_ASKED = 8


def edges(symbols: Symbols, text_ids: Sequence[int], arity: Arity | None = None, answer: bool = False) -> list[Edge]:
    """The edges of a formula, from START in state "text" back to "text"; with `answer` also from START in
    `answers.START` to `ANSWERED`.

    An operator of two operands or more may also have none, like the + of r_+: it opens in "none or two".
    """
    out = [Edge("text", [symbols.start], "root", token_type=TYPE_START)]
    out += [Edge("done", [symbols.stop], "text", token_type=TYPE_STOP)]
    nodes = [("root", "done", NONE), ("child", "child", NEXT)]
    if answer:
        out += [Edge(answers.START, [symbols.start], ANSWER_ROOT, token_type=TYPE_START)]
        out += [Edge("answer done", [symbols.stop], ANSWERED, token_type=TYPE_STOP)]
        nodes.append((ANSWER_ROOT, "answer done", NONE))
    widths = [] if arity is None else _matrix_widths(symbols)
    if arity is not None:
        nodes += [("none or two", "one more", NEXT), ("one more", "child", NEXT)]
        nodes += [(f"cells {n}", f"cells {n - 1}", NEXT) for n in range(1, max(widths, default=0) + 1)]
    for state, back, leaf in nodes:
        out += _node_edges(symbols, state, back, leaf, arity)
    for n in widths:
        out.append(Edge(f"rows {n}", [symbols.find_token(*_ROW)], f"cells {n}", PUSH, f"rows {n}", TYPE_OP))  # type: ignore[list-item]
    closable = [f"rows {n}" for n in widths] + ["cells 0"] * bool(widths) + ["none or two"] * (arity is not None)
    out += [Edge(state, [symbols.end], op=POP, token_type=TYPE_END) for state in ("child", *closable)]
    head = [symbols.special_id(TEXT)]
    out += [Edge("spell", head, "piece", PUSH, "child", TYPE_OP)]
    generated = [i for i in text_ids if _is_printable_piece(symbols.vocab.bytes_of(i))]
    input_only = sorted(set(text_ids) - set(generated))
    for state in ("piece", "pieces"):
        out.append(Edge(state, generated, "pieces", NEXT, token_type=TYPE_PIECE))
        out.append(Edge(state, input_only, "pieces", NEXT, token_type=TYPE_PIECE, given=True))
        out.append(Edge(state, [symbols.end], op=POP, token_type=TYPE_END, given=state == "piece"))
    for state, moves in _NUMBERS.items():
        for kind, to in moves.items():
            ids = [i for c in _CHARACTERS[kind] if (i := symbols.find_token("N", c)) is not None]
            if state == "n0" and kind == "sign":
                # A plus before a number is not canonical: it is only read.
                plus = [i for i in ids if symbols.names[i][2] == "+"]
                ids = [i for i in ids if i not in plus]
                out.append(Edge(state, plus, to, NEXT, token_type=TYPE_NUM, given=True))
            out.append(Edge(state, ids, to, NEXT, token_type=TYPE_NUM))
        if state in _CLOSABLE:
            out.append(Edge(state, [symbols.end], op=POP, token_type=TYPE_END))
    return out


def _node_edges(symbols: Symbols, state: str, back: str, leaf: int, arity: Arity | None) -> list[Edge]:
    """The edges of a node in a state: a leaf, an operator, a number or a spelled symbol."""
    out = []
    special = symbols.special_id
    for kind, token_type in ((names.VAR, TYPE_VAR), (names.NUM, TYPE_NUM)):
        generated = {i for i in symbols.ids_of_kind(kind) if names.is_printable(symbols.names[i][2])}
        if kind == names.NUM:
            # A number that has a token, or one digit; a point or a sign by itself is no number.
            generated = {i for i in generated if CANONICAL_NUMBER.fullmatch(symbols.names[i][2])}
        input_only = {i for i in symbols.ids_of_kind(kind) if i not in generated}
        if kind == names.VAR:
            generated.add(special(PADDING))
        out.append(Edge(state, sorted(generated), back, leaf, token_type=token_type))
        out.append(Edge(state, sorted(input_only), back, leaf, token_type=token_type, given=True))
    out.append(Edge(state, symbols.pointers, back, leaf, token_type=TYPE_NUM))
    matrices = {} if arity is None else _matrix_columns(symbols)
    generated = {i for i in symbols.ids_of_kind(names.OP) if _is_writable(*symbols.names[i][1:])}
    if arity is not None:
        generated = {i for i in generated if i in matrices or not _is_large(*symbols.names[i][1:])}
    input_only = set(symbols.ids_of_kind(names.OP)) - generated
    for n in sorted(set(matrices.values())):
        ids = [i for i, width in matrices.items() if width == n]
        out.append(Edge(state, ids, f"rows {n}", PUSH, back, TYPE_OP))
    generated -= matrices.keys()
    generated |= {special(ANON), special(ERROR)}
    pairs = {i for i in generated | input_only if i in symbols.names and _least_children(symbols, i, arity) == 2}
    for ids, is_given in ((generated, False), (input_only, True)):
        out.append(Edge(state, sorted(ids - pairs), "child", PUSH, back, TYPE_OP, is_given))
        out.append(Edge(state, sorted(ids & pairs), "none or two", PUSH, back, TYPE_OP, is_given))
    # E, V and N have other forms, and errors are never written; the tables cannot know how many children a spelled
    # operator or group requires.
    spells, closed = {kind: special(name) for kind, name in SPELL.items()}, "EVN" if arity is None else "EVNUOM"
    out.append(Edge(state, [i for k, i in spells.items() if k not in closed], "spell", PUSH, back, TYPE_OP))
    out.append(Edge(state, [spells[k] for k in closed], "spell", PUSH, back, TYPE_OP, given=True))
    out.append(Edge(state, [special(NUMBER)], "n0", PUSH, back, TYPE_OP))
    out.append(Edge(state, [special(TEXT)], "piece", PUSH, back, TYPE_OP))
    return out


def arities(symbols: Symbols, arity: Arity | None) -> dict[int, tuple[int, int]]:
    """Token → least and most children; other tokens may have any number."""
    special = symbols.special_id
    out = {special(ANON): (1, WIDTH), special(ERROR): (1, WIDTH)}
    for kind, name in SPELL.items():
        # The symbol's own sub-tree is one of them.
        out[special(name)] = (1, 1 if kind in LEAVES else WIDTH)
    if arity is not None:
        for name in (ANON, ERROR):
            out[special(name)] = (1, min(arity("E", "E")[1], WIDTH))
        for kind, name in SPELL.items():
            # A compound operator also has its operator as a child.
            out[special(name)] = (2 if kind == "+" else 1, min(1 + arity(kind, "")[1], WIDTH))
        for i in symbols.ids_of_kind(names.OP):
            least = _least_children(symbols, i, arity)
            # The states enforce one and two children.
            out[i] = (min(least, _MOST_ASKED) if least > 2 else 0, min(arity(*symbols.names[i][1:])[1], WIDTH))
            if (count := _count_announced(*symbols.names[i][1:])) is not None:
                # Groups that are too large are only read: one class for all.
                out[i] = (count, count) if count <= _MOST_ASKED else (_MOST_ASKED, WIDTH)
    return out


def _least_children(symbols: Symbols, token: int, arity: Arity | None) -> int:
    _, type, symbol = symbols.names[token]
    if arity is None or type == "!" or _count_announced(type, symbol) is not None:
        return 0
    return arity(type, symbol)[0]


def _count_announced(type: str, symbol: str) -> int | None:
    """The number of children that the symbol of a group names: members, or rows of a matrix; else None."""
    match = type == "M" and (_COUNTED.fullmatch(symbol) or _MATRIX.fullmatch(symbol))
    return int(match[1]) if match else None


def _is_large(type: str, symbol: str) -> bool:
    """Whether a group is too large to be generated."""
    count = _count_announced(type, symbol)
    return count is not None and (count > _MOST_ASKED or bool(_MATRIX.fullmatch(symbol)))


def _matrix_columns(symbols: Symbols) -> dict[int, int]:
    """Matrices that are generated → their columns."""
    out = {}
    for i in symbols.ids_of_kind(names.OP):
        _, type, symbol = symbols.names[i]
        if type == "M" and (match := _MATRIX.fullmatch(symbol)) and symbols.find_token(*_ROW) is not None:
            if int(match[1]) <= _MOST_ROWS and int(match[2]) <= _MOST_ROWS:
                out[i] = int(match[2])
    return out


def _matrix_widths(symbols: Symbols) -> list[int]:
    return sorted(set(_matrix_columns(symbols).values()))


def _is_writable(type: str, symbol: str) -> bool:
    return names.is_printable(symbol) or (type, symbol) == ("W", "")


def _is_printable_piece(piece: bytes) -> bool:
    try:
        return names.is_printable(piece.decode())
    except UnicodeDecodeError:
        return False
