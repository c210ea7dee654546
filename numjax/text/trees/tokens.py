"""Operator tree → tokens in preorder, and back without loss.

| node                        | tokens                                                                |
|-----------------------------|-----------------------------------------------------------------------|
| V, C, -, one-digit N        | its token                                                             |
| N that is a text's number,  | a pointer to it, if the scheme has pointers                           |
| % of one that has its sign  |                                                                       |
| N, as numbers are written   | NUMBER, its characters, END                                           |
| V without a token           | TEXT, the pieces of its symbol, END                                   |
| E without a symbol          | PAD (of a matrix)                                                     |
| cerror with children        | ERROR, children, END                                                  |
| + named after its operator  | ANON, children, END                                                   |
| other types                 | its token, children, END                                              |
| anything else               | SPELL type, its symbol as TEXT … END, children, END                   |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from numjax.errors import DataError
from numjax.expr.latex.state import hint
from numjax.expr.tree import Tree
from numjax.text.vocab import symbols as names
from numjax.text.vocab.symbols import ANON, ERROR, LEAVES, NUMBER, PADDING, SPELL, TEXT, Symbols

PERCENT = ("O", "percent")
PAD_NODE = Tree("E", "")  # of a short row of a matrix, as readers write it
ERROR_NODE = ("E", "cerror")

# The numbers that the grammar of `trees.grammar` accepts. A single digit is a leaf.
WRITTEN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def encode(tree: Tree, symbols: Symbols, pointers: Mapping[str, int] | None = None) -> list[int]:
    """The tree's tokens.

    Args:
      pointers: numbers as N spells them, with "%" behind percentages → the tokens that point to them.

    Raises:
      DataError: a symbol that text cannot spell (a lone surrogate).
    """
    out: list[int] = []
    pending: list[Tree | int] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, int):
            out.append(node)
            continue
        if pointers and (pointer := pointers.get(_numeral_text(node))) is not None:
            out.append(pointer)
            continue
        head, closes = _encode_head(node, symbols)
        out += head
        if closes:
            pending.append(symbols.end)
            pending += reversed(node.children or ())
    return out


def _numeral_text(node: Tree) -> str:
    """ "12" for a number N, "15%" for its percentage; "" for any other node."""
    if node.children is None:
        return node.symbol if node.type == "N" else ""
    if PERCENT == (node.type, node.symbol) and len(node.children) == 1:
        below = node.children[0]
        return f"{below.symbol}%" if below.type == "N" and below.children is None else ""
    return ""


def _encode_head(node: Tree, symbols: Symbols) -> tuple[list[int], bool]:
    """(tokens before the children, whether children and END follow)."""
    kind, symbol, special = node.type, node.symbol, symbols.special_id
    leaf = node.children is None
    if node == PAD_NODE:
        return [special(PADDING)], False
    if not leaf and (kind, symbol) == ERROR_NODE:
        return [special(ERROR)], True
    if kind == "+" and not leaf and symbol == hint(node.children[0]):  # type: ignore[index]
        return [special(ANON)], True
    token = symbols.find_token(kind, symbol)
    if kind not in LEAVES:
        if token is not None:
            return [token], True
    elif leaf:
        if token is not None:
            return [token], False
        if kind == "V":
            return _spell(symbol, symbols), False
        if kind == "N" and len(symbol) > 1 and WRITTEN.fullmatch(symbol):
            digits = [symbols.find_token("N", character) for character in symbol]
            if None not in digits:
                return [special(NUMBER), *digits, symbols.end], False  # type: ignore[list-item]
    return [special(SPELL[kind]), *_spell(symbol, symbols)], True


def _spell(symbol: str, symbols: Symbols) -> list[int]:
    pieces = symbols.vocab.encode(symbol)
    if symbols.vocab.decode(pieces) != symbol:
        raise DataError(f"the symbol {symbol!r} cannot be spelled")
    return [symbols.special_id(TEXT), *pieces, symbols.end]


def decode(ids: Sequence[int], symbols: Symbols, numbers: Sequence[str] = ()) -> Tree | None:
    """The tree of a formula's tokens; None if they are not a complete formula.

    Args:
      numbers: the numbers that pointers point to, see `encode`.
    """
    reader = _TreeReader(ids, symbols, numbers)
    try:
        tree = reader.read_node()
    except (_Broken, IndexError):
        return None
    return tree if isinstance(tree, Tree) and reader.position == len(ids) else None


class _Broken(Exception):
    """The tokens are no formula."""


class _TreeReader:
    """Reads nodes from a row of tokens, with an explicit stack."""

    def __init__(self, ids: Sequence[int], symbols: Symbols, numbers: Sequence[str]):
        self.ids, self.symbols, self.position = ids, symbols, 0
        self.numbers_by_pointer = dict(zip(symbols.pointers, numbers, strict=False))
        special = symbols.special_id
        self.heads: dict[int, Callable[[list[Tree]], Tree]] = {
            special(ANON): _make_compound,
            special(ERROR): lambda below: Tree(*ERROR_NODE, below) if below else _fail(),
        }
        for kind, name in SPELL.items():
            if name not in symbols.vocab.marks:
                continue  # the released code's vocabulary lacks these marks
            self.heads[special(name)] = lambda below, kind=kind: Tree(kind, _first(below).symbol, below[1:])

    def read_node(self) -> Tree:
        """The next node, with its whole sub-tree."""
        open_: list[tuple[Callable[[list[Tree]], Tree], list[Tree]]] = []
        while True:
            done = self._step(open_)
            if done is not None:
                if not open_:
                    return done
                open_[-1][1].append(done)

    def _step(self, open_) -> Tree | None:
        """Reads one token; returns the node that it completes, or None."""
        token, symbols = int(self.ids[self.position]), self.symbols
        self.position += 1
        if token == symbols.end:
            if not open_:
                raise _Broken
            make, below = open_.pop()
            return make(below)
        if token in self.heads:
            open_.append((self.heads[token], []))
            return None
        if token in self.numbers_by_pointer:
            number = self.numbers_by_pointer[token]
            leaf = Tree("N", number.removesuffix("%"))
            return Tree(*PERCENT, [leaf]) if number.endswith("%") else leaf
        if token == symbols.special_id(PADDING):
            return PAD_NODE
        if token == symbols.special_id(NUMBER):
            return Tree("N", "".join(symbols.names[i][2] for i in self._take_until_end() if i in symbols.names))
        if token == symbols.special_id(TEXT):
            return Tree("V", symbols.vocab.decode(self._take_until_end()))
        if token not in symbols.names:
            raise _Broken
        kind, type, symbol = symbols.names[token]
        if type == "!":
            raise _Broken
        if kind != names.OP:
            return Tree(type, symbol)
        open_.append((lambda below: Tree(type, symbol, below), []))
        return None

    def _take_until_end(self) -> list[int]:
        tokens = []
        while (token := int(self.ids[self.position])) != self.symbols.end:
            tokens.append(token)
            self.position += 1
        self.position += 1
        return tokens


def _make_compound(below: list[Tree]) -> Tree:
    return Tree("+", hint(_first(below)), below)


def _first(below: list[Tree]) -> Tree:
    return below[0] if below else _fail()


def _fail():
    raise _Broken
