"""Formulas as operator trees between text, in one sequence (MathGPT, section 3)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.expr import printer
from numjax.expr import symbols as symbol_table
from numjax.expr.tree import Tree
from numjax.protocols import Told
from numjax.text import document as documents
from numjax.text import subword, tree_grammar, tree_tokens
from numjax.text import symbols as names
from numjax.text.base import EOS, Row
from numjax.text.base_vocabulary import BaseVocabulary
from numjax.text.symbols import START, STOP, Symbols
from numjax.text.tables import Edge
from numjax.types import TREE_POSITIONS, TYPES, Document, Features, Formula, Grammar, Mark, Number, Segment


class Scheme(subword.Scheme):
    """Text as `subword` writes it; a formula is [FORMULA], its tree in preorder, [/FORMULA].

    The surface of a formula is not kept: `decode` prints the tree.

    With pointers the n-th number of a text is followed by the n-th pointer, and a number of a formula that stands in
    the text before it, or in the source, is that pointer: it is carried over whole, whatever its digits, with its
    percent sign. Others are spelled. The first of equal numbers is pointed to. With ranks the token type of a text's
    pointer says how its number compares with the others of the text, which no digits do at a glance: the smallest is
    1, equal ones are the same (as cells' ranks in TAPAS, Herzig et al. 2020, section 3).

    Attributes:
      symbols: the mathematical part of the vocabulary.
    """

    marks = tuple(names.minimal())
    channels = (TYPES, TREE_POSITIONS)
    forms = ("text", "formula")

    def __init__(
        self,
        vocab: Told[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        apart: bool = False,
        arity: bool = True,
        symbols: Mapping[str, Any] | None = None,
        unfit: str = "error",
        pointers: int = 0,
        ranks: bool = False,
    ):
        """
        Args:
          arity: an operator has as many children as it takes (`divide` two), where the library knows.
          symbols: see `marks_of`, which has read it already.
          unfit: "text" writes a formula that the grammar does not have (too deep, too wide) as its surface; under
            "error" its document is refused.
          pointers: how many numbers of a text can be pointed to; 0: formulas spell all their numbers.
          ranks: the text's pointers have token types of their own, see above.
        """
        del symbols
        if pointers:
            self.marks = (*type(self).marks, *(names.POINTER.format(i + 1) for i in range(pointers)))
        # A pointer must follow its number, which then shares no position with text.
        super().__init__(vocab, rules, pad_multiple, apart or pointers > 0)
        if ranks and not pointers:
            raise UsageError("scheme.ranks are those of pointers: set scheme.pointers, or scheme.ranks=False")
        self.points, self.ranks = pointers > 0, ranks
        self.token_types = tree_grammar.TYPES + (pointers + 1 if ranks else 0)
        if unfit not in ("error", "text"):
            raise UsageError(f"scheme.unfit={unfit!r}: choose error or text")
        self.arity = arity
        self.unfit = unfit
        self.symbols = Symbols(self.vocab)
        own = (self.symbols.start, self.symbols.stop, *self.symbols.names)
        self._own = frozenset(self.vocab.mark_name(i) for i in own)

    @classmethod
    def marks_of(cls, options: Mapping[str, Any], trees: Iterable[Tree] = ()) -> tuple[str, ...]:
        """The marks that a new vocabulary needs.

        Args:
          options: `dict(path="", numbers=0, least=1)`: counts from MathGPT's vocab.json instead of from `trees`, and
            how many numbers get tokens of their own; see `symbols.marks`.
          trees: of the train split.
        """
        options = dict(options)
        path = options.pop("path", "")
        return names.marks(names.read_counts(path) if path else names.count(trees), **options)

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """As of every scheme; see `unfit`."""
        try:
            found = super().encode(document, offsets, source)
        except DataError:
            if self.unfit == "error":
                raise
            found = super().encode(tuple(self._fitting(segment) for segment in document), offsets, source)
        return found._replace(channels={**found.channels, TYPES.name: self._ranked(found)}) if self.ranks else found

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """Numbers are found anew in the text. Tokens that are no whole formula give a `Formula` without a tree.

        Args:
          numbers: of the text, for what points to them.
        """
        pointed = [_pointed(number) for number in numbers[: len(self.symbols.pointers)]]
        segments: list[Segment] = []
        formula: list[int] | None = None
        for run in self._runs(self._unpointed(ids)):
            if formula is not None and run != STOP:
                formula += run if isinstance(run, list) else [self.vocab.mark(run)]
            elif run == START:
                formula = []
            elif formula is not None:
                segments.append(self._formula(formula, pointed))
                formula = None
            elif isinstance(run, list):
                segments += self.parse(self.vocab.decode(run))
            else:
                segments.append(Mark(run))
        if formula is not None:
            segments.append(Formula("", None))
        return tuple(segments)

    def symbol_pieces(self) -> tuple[int, tuple[tuple[int, ...], ...]]:
        """(first mathematical id, for each from there on the text tokens that spell its symbol)."""
        return self.symbols.first, self.symbols.spelled()

    def _formula(self, ids: Sequence[int], pointed: Sequence[str]) -> Formula:
        tree = tree_tokens.decode(ids, self.symbols, pointed)
        return Formula("" if tree is None else printer.latex(tree), tree)

    def _unpointed(self, ids: Sequence[int]) -> list[int]:
        """The ids without the pointers of the text, where they only count its numbers."""
        out, inside = [], False
        for token in map(int, ids):
            inside = token != self.symbols.stop and (inside or token == self.symbols.start)
            if inside or token not in self.symbols.pointers:
                out.append(token)
        return out

    def _fitting(self, segment: Segment) -> Segment:
        if not isinstance(segment, Formula) or segment.tree is None:
            return segment
        try:
            error = self.automaton().run(self._formula_tokens(segment.tree)).error
        except DataError as wrong:
            error = str(wrong)
        return segment if error is None else Formula(segment.surface, None)

    def _formula_tokens(self, tree: Tree, numbers: Sequence[Number] = ()) -> list[int]:
        pointers: dict[str, int] = {}
        for token, number in zip(self.symbols.pointers, numbers, strict=False):
            pointers.setdefault(_pointed(number), token)
        return [self.symbols.start, *tree_tokens.encode(tree, self.symbols, pointers), self.symbols.stop]

    def _write(self, run: Sequence[Segment], row: Row) -> None:
        texts: list[Segment] = []
        for segment in run:
            if isinstance(segment, Formula) and segment.tree is not None:
                super()._write(texts, row)
                texts = []
                row.starts.append(len(row.ids))
                row.add(self._formula_tokens(segment.tree, (*row.source, *row.numbers)))
            else:
                texts.append(segment)
        super()._write(texts, row)

    def _write_number(self, number: Number, row: Row) -> None:
        super()._write_number(number, row)
        place = len(row.source) + len(row.numbers) - 1
        row.add(self.symbols.pointers[place : place + 1], len(row.numbers) - 1)

    def _ranked(self, found: Features) -> np.ndarray:
        """Token types, in which the pointers of the text have the rank of their number."""
        order = sorted({number.value for number in found.numbers})
        types = found.channels[TYPES.name].copy()
        for at in np.flatnonzero(np.isin(found.ids, self.symbols.pointers) & (found.numeral_index >= 0)):
            rank = 1 + order.index(found.numbers[found.numeral_index[at]].value)
            types[at] = tree_grammar.TYPES + min(rank, len(self.symbols.pointers))
        return types

    def _check(self, mark: Mark) -> None:
        if mark.name in self._own:
            raise DataError(f"{mark.name} is the scheme's own: a document cannot hold it")

    def _answer_edges(self) -> list[Edge]:
        return [Edge(tree_grammar.ANSWERED, [self.vocab.mark(EOS)], "end")]

    def _make_grammar(self) -> Grammar:
        text, given = self._text_edges()
        own = {self.vocab.mark(name) for name in self._own if name is not None}
        text[0] = text[0]._replace(tokens=[i for i in text[0].tokens if i not in own])
        text.append(Edge("text", self.symbols.pointers, "text", given=True))
        arity = symbol_table.arity if self.arity else None
        answers_formula = self._form == "formula"
        return self._tables(
            [*text, *tree_grammar.edges(self.symbols, self.text_ids, arity, answers_formula)],
            ("text", "end"),
            given=[i for i in given if i not in own],
            arity=tree_grammar.arities(self.symbols, arity),
            placed=(*tree_grammar.PLACED, *([tree_grammar.ANSWER_ROOT] if answers_formula else [])),
            max_depth=tree_grammar.DEPTH,
            max_width=tree_grammar.WIDTH,
            recalled=self.symbols.pointers,
        )


def _pointed(number: Number) -> str:
    """A number of a text as `tree_tokens` has what is pointed to."""
    return documents.in_formula(number) + ("%" if number.surface.endswith("%") else "")
