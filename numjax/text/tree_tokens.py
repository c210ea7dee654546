"""Operator tree → tokens in preorder, and back without loss.

| node                        | tokens                                                                |
|-----------------------------|-----------------------------------------------------------------------|
| V, C, -, one-digit N        | its token                                                             |
| N that is a text's number,  | a pointer to it, where the scheme has pointers                        |
| % of one that has its sign  |                                                                       |
| N, as numbers are written   | NUMBER, its characters, END                                           |
| V without a token           | TEXT, the pieces of its symbol, END                                   |
| E without children          | PAD (of a matrix); with children: ERROR, children, END                |
| + named after its operator  | ANON, children, END                                                   |
| other types                 | its token, children, END                                              |
| anything else               | SPELL type, its symbol as TEXT … END, children, END                   |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from numjax.errors import DataError
from numjax.expr.tree import Tree
from numjax.text import symbols as names
from numjax.text.symbols import ANON, ERROR, LEAVES, NUMBER, PADDING, SPELL, TEXT, Symbols

PERCENT = ("O", "percent")

# What the number grammar of `tree_grammar` accepts. One digit alone is a leaf.
WRITTEN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def hint(tree: Tree) -> str:
    """The symbol of a compound operator, by the operator that is its first child."""
    return f"{tree.type}!{tree.symbol}"


def encode(tree: Tree, symbols: Symbols, pointers: Mapping[str, int] | None = None) -> list[int]:
    """The tree's tokens.

    Args:
      pointers: numbers as N has them, behind them "%" where they are percentages → the tokens that point to them.

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
        if pointers and (pointer := pointers.get(_number(node))) is not None:
            out.append(pointer)
            continue
        head, closes = _head(node, symbols)
        out += head
        if closes:
            pending.append(symbols.end)
            pending += reversed(node.children or ())
    return out


def _number(node: Tree) -> str:
    """12 of N, 15% of a percentage of one; "" of anything else."""
    if node.children is None:
        return node.symbol if node.type == "N" else ""
    if PERCENT == (node.type, node.symbol) and len(node.children) == 1:
        below = node.children[0]
        return f"{below.symbol}%" if below.type == "N" and below.children is None else ""
    return ""


def _head(node: Tree, symbols: Symbols) -> tuple[list[int], bool]:
    """(tokens before the children, whether children and END follow)."""
    kind, symbol, special = node.type, node.symbol, symbols.special
    leaf = node.children is None
    if kind == "E" and symbol == "E":
        return ([special(PADDING)], False) if leaf else ([special(ERROR)], True)
    if kind == "+" and not leaf and symbol == hint(node.children[0]):  # type: ignore[index]
        return [special(ANON)], True
    token = symbols.of(kind, symbol)
    if kind not in LEAVES:
        if token is not None:
            return [token], True
    elif leaf:
        if token is not None:
            return [token], False
        if kind == "V":
            return _spelled(symbol, symbols), False
        if kind == "N" and len(symbol) > 1 and WRITTEN.fullmatch(symbol):
            digits = [symbols.of("N", character) for character in symbol]
            if None not in digits:
                return [special(NUMBER), *digits, symbols.end], False  # type: ignore[list-item]
    return [special(SPELL[kind]), *_spelled(symbol, symbols)], True


def _spelled(symbol: str, symbols: Symbols) -> list[int]:
    pieces = symbols.vocab.encode(symbol)
    if symbols.vocab.decode(pieces) != symbol:
        raise DataError(f"the symbol {symbol!r} cannot be spelled")
    return [symbols.special(TEXT), *pieces, symbols.end]


def decode(ids: Sequence[int], symbols: Symbols, numbers: Sequence[str] = ()) -> Tree | None:
    """The tree of a formula's tokens; None where they are not a whole formula.

    Args:
      numbers: what pointers point to, see `encode`.
    """
    reader = _Reader(ids, symbols, numbers)
    try:
        tree = reader.node()
    except (_Broken, IndexError):
        return None
    return tree if isinstance(tree, Tree) and reader.at == len(ids) else None


class _Broken(Exception):
    """The tokens are no formula."""


class _Reader:
    """Reads nodes off a row of tokens, on an explicit stack."""

    def __init__(self, ids: Sequence[int], symbols: Symbols, numbers: Sequence[str]):
        self.ids, self.symbols, self.at = ids, symbols, 0
        self.pointed = dict(zip(symbols.pointers, numbers, strict=False))
        special = symbols.special
        self.heads: dict[int, Callable[[list[Tree]], Tree]] = {
            special(ANON): _compound,
            special(ERROR): lambda below: Tree("E", "E", below) if below else _broken(),
        }
        for kind, name in SPELL.items():
            if name not in symbols.vocab.marks:
                continue  # the released code's vocabulary has none
            self.heads[special(name)] = lambda below, kind=kind: Tree(kind, _first(below).symbol, below[1:])

    def node(self) -> Tree:
        """The next node, with all that is below."""
        open_: list[tuple[Callable[[list[Tree]], Tree], list[Tree]]] = []
        while True:
            done = self._step(open_)
            if done is not None:
                if not open_:
                    return done
                open_[-1][1].append(done)

    def _step(self, open_) -> Tree | None:
        """Reads one token; the node that it completes, if it does."""
        token, symbols = int(self.ids[self.at]), self.symbols
        self.at += 1
        if token == symbols.end:
            if not open_:
                raise _Broken
            make, below = open_.pop()
            return make(below)
        if token in self.heads:
            open_.append((self.heads[token], []))
            return None
        if token in self.pointed:
            number = self.pointed[token]
            one = Tree("N", number.removesuffix("%"))
            return Tree(*PERCENT, [one]) if number.endswith("%") else one
        if token == symbols.special(PADDING):
            return Tree("E", "E")
        if token == symbols.special(NUMBER):
            return Tree("N", "".join(symbols.names[i][2] for i in self._until_end() if i in symbols.names))
        if token == symbols.special(TEXT):
            return Tree("V", symbols.vocab.decode(self._until_end()))
        if token not in symbols.names:
            raise _Broken
        kind, type, symbol = symbols.names[token]
        if type == "!":
            raise _Broken
        if kind != names.OP:
            return Tree(type, symbol)
        open_.append((lambda below: Tree(type, symbol, below), []))
        return None

    def _until_end(self) -> list[int]:
        found = []
        while (token := int(self.ids[self.at])) != self.symbols.end:
            found.append(token)
            self.at += 1
        self.at += 1
        return found


def _compound(below: list[Tree]) -> Tree:
    return Tree("+", hint(_first(below)), below)


def _first(below: list[Tree]) -> Tree:
    return below[0] if below else _broken()


def _broken():
    raise _Broken
