"""Formulas as MathGPT's released code writes them, defects included: for comparison, not for training.

It drops signs, exponents and separators of numbers, and kinds of errors. Symbols of different types share a token.
Long symbols and numbers are clipped; a formula that is too deep leaves only its opening token. The constraints depend
only on the last token: anything may follow a number, operators take any number of children, unknown symbols can be
written, and a text can end inside a spelled symbol. Its generator counts a closed node only at odd depths
(`generation_grammar`), so its tree positions in generation differ from those in training.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError
from numjax.expr.tree import Tree
from numjax.protocols import FromContext
from numjax.text import trees
from numjax.text.grammar import tables
from numjax.text.grammar.tables import Edge
from numjax.text.trees import grammar
from numjax.text.trees.grammar import (
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
from numjax.text.vocab import symbols as names
from numjax.text.vocab.base import BaseVocabulary
from numjax.text.vocab.symbols import ANON, ERROR, KIND, NUMBER, PADDING, TEXT
from numjax.types import NEXT, NONE, POP, PUSH, Grammar, Number

CAPS = names.CAPS | {"N": 2000}


class Scheme(trees.Scheme):
    """`trees` with the token sequences, types and constraints of the released code.

    Attributes:
      end_ids: tokens that end a text; the code looks only at the id.
    """

    marks = tuple(name for name in names.minimal_marks() if "SPELL" not in name and name[-1] not in "+-eE")

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        apart: bool = False,
        arity: bool = False,
        symbols: Mapping[str, Any] | None = None,
        unfit: str = "error",
    ):
        """As for `trees`; this scheme has no arities."""
        super().__init__(vocab, rules, pad_multiple, apart, arity, symbols, unfit)
        self._by_symbol: dict[tuple[str, str], int] = {}
        for i, (kind, type, symbol) in self.symbols.names.items():
            if type != "!":
                self._by_symbol.setdefault((kind, symbol), i)
        self.end_ids = [i for i in range(self.vocab.base) if not self.vocab.bytes_of(i)]

    @classmethod
    def marks_of(cls, options: Mapping[str, Any], trees: Iterable[Tree] = ()) -> tuple[str, ...]:
        """As for `trees`, but with one token per symbol whatever its type, and matrices only by their first letter.

        Raises:
          UsageError: `options` give numbers tokens of their own.
        """
        if options.get("numbers"):
            raise UsageError("scheme trees_published writes numbers as trees: leave without=nt or as_published out")
        counts = names.load_counts(options["path"]) if options.get("path") else names.count_symbols(trees)
        counts = {kind: dict(by_symbol) for kind, by_symbol in counts.items()}
        if "M" in counts:
            counts["M"] = dict.fromkeys(map(_matrix_name, counts["M"]), 1)
        keys, marks = set(), []
        for name in names.list_marks(counts, caps=CAPS):
            kind, _, symbol = (*name.split(" ", 2), "", "")[:3]
            special = name.startswith(("OP ! SPELL", *(f"NUM N {c}" for c in names.SIGNS)))
            if special or (" ! " not in name and (kind, symbol) in keys):
                continue
            keys.add((kind, symbol))
            marks.append(name)
        return tuple(marks)

    def _formula_tokens(self, tree: Tree, numbers: Sequence[Number] = ()) -> list[int]:
        del numbers  # the released code has no pointers
        nodes = self._encode_nodes(tree)
        # The released code opens the formula before it finds that it is too deep.
        return [self.symbols.start] if nodes is None else [self.symbols.start, *nodes, self.symbols.stop]

    def _encode_nodes(self, tree: Tree) -> list[int] | None:
        out: list[int] = []
        pending: list[tuple[Tree | int, int]] = [(tree, 0)]
        while pending:
            node, level = pending.pop()
            if isinstance(node, int):
                out.append(node)
                continue
            head, inside, below = self._encode_head(node)
            if level + (inside or below is not None) > DEPTH:
                return None
            out += head
            if below is not None:
                pending.append((self.symbols.end, 0))
                pending += [(child, level + 1) for child in reversed(below)]
        return out

    def _encode_head(self, node: Tree) -> tuple[list[int], int, Sequence[Tree] | None]:
        """(tokens before the children, levels that these take below the node, children before END or None)."""
        kind, special, below = KIND[node.type], self.symbols.special_id, node.children or ()
        if node.type == "E":
            return ([special(ERROR)], 1, below[1:]) if below else ([special(PADDING)], 0, None)
        if node.type == "+":
            return [special(ANON)], 1, below
        if kind == names.NUM and len(node.symbol) > 1:
            digits = [self._by_symbol[kind, c] for c in node.symbol if (kind, c) in self._by_symbol]
            return [special(NUMBER), *digits[:WIDTH], self.symbols.end], 1, None
        token = self._by_symbol.get((kind, _matrix_name(node.symbol) if node.type == "M" else node.symbol))
        if token is not None:
            return [token], int(kind == names.OP), below if kind == names.OP else None
        spelling = [special(TEXT), *self.vocab.encode(node.symbol)[:WIDTH], self.symbols.end]
        return ([special(ANON), *spelling], 2, below) if kind == names.OP else (spelling, 1, None)

    def generation_grammar(self) -> Grammar:
        """The automaton that the released generator steps."""
        return self.grammar()._replace(counted=np.arange(DEPTH + 1) % 2 == 1)

    def _make_grammar(self) -> Grammar:
        symbols, special = self.symbols, self.symbols.special_id
        by_kind = {
            kind: symbols.ids_of_kind(kind) + symbols.ids_of_kind(kind, special=True) for kind in ("VAR", "NUM", "OP")
        }
        heads = (special(NUMBER), special(TEXT))
        ops = [i for i in by_kind["OP"] if i not in heads]
        plain, given_marks = self._text_edges()
        own_ids = {symbols.start, symbols.stop, *symbols.names}
        text = [i for i in plain[0].tokens if i not in own_ids] + self.end_ids
        begin: dict[str, Any] = dict(to="root", token_type=TYPE_START)
        edges = [
            Edge("text", text, "text"),
            plain[1],
            Edge("text", [symbols.start], **begin),
            # Two adjacent formulas, and a formula that was opened but not written, are read, not generated.
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
            given=[i for i in given_marks if i not in own_ids],
            placed=("child", "number", *grammar.PLACED),
            max_depth=DEPTH,
            max_width=WIDTH,
        )


def _matrix_name(symbol: str) -> str:
    return f"matrix-{symbol[:1]}"
