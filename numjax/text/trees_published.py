"""Formulas as MathGPT's released code writes them, defects included: to compare with it, not to train with.

Signs, exponents and separators of numbers are dropped, and errors' kinds; symbols of different types share a token;
what is too long is clipped and what is too deep leaves an opened formula behind. The constraints follow the last
token alone: a number may go on with anything, operators take any number of children, unknown symbols can be written,
and a text can end inside a spelled symbol. Its generator counts a closed node only at odd depths
(`generation_grammar`), so that it reads other tree positions than it was trained with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.expr.tree import Tree
from numjax.protocols import Told
from numjax.text import symbols as names
from numjax.text import tables, tree_grammar, trees
from numjax.text.base_vocabulary import BaseVocabulary
from numjax.text.symbols import ANON, ERROR, KIND, NUMBER, PADDING, TEXT
from numjax.text.tables import Edge
from numjax.text.tree_grammar import (
    DEPTH,
    TYPE_END,
    TYPE_NUM,
    TYPE_OP,
    TYPE_PIECE,
    TYPE_START,
    TYPE_STOP,
    TYPE_VAR,
    WIDTH,
)
from numjax.types import NEXT, NONE, POP, PUSH, Grammar, Number

CAPS = names.CAPS | {"N": 2000}


class Scheme(trees.Scheme):
    """`trees` with the token sequences, types and constraints of the released code.

    Attributes:
      end_ids: tokens that end a text; the code looks at the id alone.
    """

    marks = tuple(name for name in names.minimal() if "SPELL" not in name and name[-1] not in "+-eE")

    def __init__(
        self,
        vocab: Told[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        apart: bool = False,
        arity: bool = False,
        symbols: Mapping[str, Any] | None = None,
        unfit: str = "error",
    ):
        """As of `trees`; there are no arities here."""
        super().__init__(vocab, rules, pad_multiple, apart, arity, symbols, unfit)
        self._by_symbol: dict[tuple[str, str], int] = {}
        for i, (kind, type, symbol) in self.symbols.names.items():
            if type != "!":
                self._by_symbol.setdefault((kind, symbol), i)
        self.end_ids = [i for i in range(self.vocab.base) if not self.vocab.bytes_of(i)]

    @classmethod
    def marks_of(cls, options: Mapping[str, Any], trees: Iterable[Tree] = ()) -> tuple[str, ...]:
        """As of `trees`, with a token a symbol whatever its type, and matrices by the first letter of theirs.

        Raises:
          UsageError: numbers are to be tokens of their own.
        """
        if options.get("numbers"):
            raise UsageError("scheme trees_published writes numbers as trees: leave without=nt or as_published out")
        counts = names.read_counts(options["path"]) if options.get("path") else names.count(trees)
        counts = {kind: dict(of) for kind, of in counts.items()}
        if "M" in counts:
            counts["M"] = dict.fromkeys(map(_matrix, counts["M"]), 1)
        seen, kept = set(), []
        for name in names.marks(counts, caps=CAPS):
            kind, _, symbol = (*name.split(" ", 2), "", "")[:3]
            special = name.startswith(("OP ! SPELL", *(f"NUM N {c}" for c in names.SIGNS)))
            if special or (" ! " not in name and (kind, symbol) in seen):
                continue
            seen.add((kind, symbol))
            kept.append(name)
        return tuple(kept)

    def _formula_tokens(self, tree: Tree, numbers: Sequence[Number] = ()) -> list[int]:
        del numbers  # the released code points to none
        found = self._nodes(tree)
        # The released code has opened the formula by the time it finds it too deep.
        return [self.symbols.start] if found is None else [self.symbols.start, *found, self.symbols.stop]

    def _nodes(self, tree: Tree) -> list[int] | None:
        out: list[int] = []
        pending: list[tuple[Tree | int, int]] = [(tree, 0)]
        while pending:
            node, level = pending.pop()
            if isinstance(node, int):
                out.append(node)
                continue
            head, inside, below = self._open(node)
            if level + (inside or below is not None) > DEPTH:
                return None
            out += head
            if below is not None:
                pending.append((self.symbols.end, 0))
                pending += [(child, level + 1) for child in reversed(below)]
        return out

    def _open(self, node: Tree) -> tuple[list[int], int, Sequence[Tree] | None]:
        """(tokens before the children, levels that they take below the node, children before END or None)."""
        kind, special, below = KIND[node.type], self.symbols.special, node.children or ()
        if node.type == "E":
            return ([special(ERROR)], 1, below[1:]) if below else ([special(PADDING)], 0, None)
        if node.type == "+":
            return [special(ANON)], 1, below
        if kind == names.NUM and len(node.symbol) > 1:
            digits = [self._by_symbol[kind, c] for c in node.symbol if (kind, c) in self._by_symbol]
            return [special(NUMBER), *digits[:WIDTH], self.symbols.end], 1, None
        token = self._by_symbol.get((kind, _matrix(node.symbol) if node.type == "M" else node.symbol))
        if token is not None:
            return [token], int(kind == names.OP), below if kind == names.OP else None
        spelled = [special(TEXT), *self.vocab.encode(node.symbol)[:WIDTH], self.symbols.end]
        return ([special(ANON), *spelled], 2, below) if kind == names.OP else (spelled, 1, None)

    def generation_grammar(self) -> Grammar:
        """The automaton that the released generator steps."""
        return self.grammar()._replace(counted=np.arange(DEPTH + 1) % 2 == 1)

    def _make_grammar(self) -> Grammar:
        symbols, special = self.symbols, self.symbols.special
        by_kind = {kind: symbols.of_kind(kind) + symbols.of_kind(kind, special=True) for kind in ("VAR", "NUM", "OP")}
        heads = (special(NUMBER), special(TEXT))
        ops = [i for i in by_kind["OP"] if i not in heads]
        plain, given = self._text_edges()
        own = {symbols.start, symbols.stop, *symbols.names}
        text = [i for i in plain[0].tokens if i not in own] + self.end_ids
        begin: dict[str, Any] = dict(to="root", token_type=TYPE_START)
        edges = [
            Edge("text", text, "text"),
            plain[1],
            Edge("text", [symbols.start], **begin),
            # Two formulas side by side and a formula that was never written are read, not generated.
            Edge("after", text, "text"),
            Edge("after", [symbols.start], given=True, **begin),
            plain[1]._replace(state="after"),
            Edge("root", text, "text", given=True),
            Edge("root", [symbols.start], given=True, **begin),
            Edge("done", [symbols.stop], "after", token_type=TYPE_STOP),
            Edge("child", [symbols.end], op=POP, token_type=TYPE_END),
            Edge("number", by_kind["NUM"], "child", NEXT, token_type=TYPE_NUM),
            Edge("number", [symbols.end], op=POP, token_type=TYPE_END, given=True),
        ]
        for state, back, leaf in (("root", "done", NONE), ("child", "child", NEXT)):
            edges += [
                Edge(state, by_kind["VAR"], back, leaf, token_type=TYPE_VAR),
                Edge(state, by_kind["NUM"], back, leaf, token_type=TYPE_NUM),
                Edge(state, ops, "child", PUSH, back, TYPE_OP),
                Edge(state, [special(NUMBER)], "number", PUSH, back, TYPE_OP),
                Edge(state, [special(TEXT)], "piece", PUSH, back, TYPE_OP),
            ]
        for state in ("piece", "pieces"):
            edges.append(Edge(state, [*self.text_ids, *self.end_ids], "pieces", NEXT, token_type=TYPE_PIECE))
        edges.append(Edge("pieces", [symbols.end], op=POP, token_type=TYPE_END))
        edges.append(Edge("piece", [symbols.end], op=POP, token_type=TYPE_END, given=True))
        return tables.build(
            self.vocab_size,
            edges,
            "text",
            ("text", "after", "end", "root"),
            given=[i for i in given if i not in own],
            placed=("child", "number", *tree_grammar.PLACED),
            max_depth=DEPTH,
            max_width=WIDTH,
        )


def _matrix(symbol: str) -> str:
    return f"matrix-{symbol[:1]}"
