"""Formulas as operator trees between text, in one sequence (MathGPT, section 3)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.expr import printer
from numjax.expr import symbols as symbol_table
from numjax.expr.tree import Tree
from numjax.protocols import FromContext
from numjax.text import document as documents
from numjax.text import subword
from numjax.text.base import EOS, RowBuilder
from numjax.text.grammar.tables import Edge
from numjax.text.trees import grammar, tokens
from numjax.text.vocab import symbols as names
from numjax.text.vocab.base import BaseVocabulary
from numjax.text.vocab.symbols import START, STOP, Symbols
from numjax.types import TREE_POSITIONS, TYPES, Document, Features, Formula, Grammar, Mark, Number, Segment


class Scheme(subword.Scheme):
    """Text as `subword` writes it; a formula is [FORMULA], its tree in preorder, [/FORMULA].

    The surface of a formula is not kept: `decode` prints the tree.

    With pointers, the n-th pointer follows the n-th number of a text. A formula writes a number of the text before
    it, or of the source, as that pointer, which stands for the whole number with its percent sign; it spells other
    numbers. Of equal numbers it points to the first. With ranks, the token type of a text's pointer is the rank of
    its number among those of the text, which digits do not show directly: the smallest has 1, equal numbers have
    equal ranks (like cells' ranks in TAPAS, Herzig et al. 2020, section 3).

    With `number_trees`, a number of the text is a formula too, a tree of its digits, if a formula can hold it as it
    is written; a percentage or 1,200 stays text. So tasks without formulas have MathGPT's numbers.

    Attributes:
      symbols: the mathematical part of the vocabulary.
    """

    marks = tuple(names.minimal_marks())
    channels = (TYPES, TREE_POSITIONS)
    forms = ("text", "formula")

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        apart: bool = False,
        arity: bool = True,
        symbols: Mapping[str, Any] | None = None,
        unfit: str = "error",
        pointers: int = 0,
        ranks: bool = False,
        number_trees: bool = False,
    ):
        """
        Args:
          arity: an operator has as many children as it takes (`divide` two), if the library knows how many.
          symbols: see `marks_of`, which has used them before.
          unfit: "text" writes a formula outside the grammar (too deep, too wide) as its surface; "error" refuses its
            document.
          pointers: how many numbers of a text can have pointers; 0: formulas spell all their numbers.
          ranks: the text's pointers have token types of their own, see above.
          number_trees: write the numbers of the text as formulas. A formula that is one number is then read as such.
        """
        del symbols
        if pointers:
            self.marks = (*type(self).marks, *(names.POINTER.format(i + 1) for i in range(pointers)))
        # A pointer must directly follow its number, so the number shares no position with text.
        super().__init__(vocab, rules, pad_multiple, apart or pointers > 0 or number_trees)
        if number_trees and pointers:
            raise UsageError("scheme.number_trees: pointers follow numbers that are text: set scheme.pointers=0")
        if ranks and not pointers:
            raise UsageError("scheme.ranks are those of pointers: set scheme.pointers, or scheme.ranks=False")
        self.points, self.ranks = pointers > 0, ranks
        self.token_types = grammar.TYPES + (pointers + 1 if ranks else 0)
        if unfit not in ("error", "text"):
            raise UsageError(f"scheme.unfit={unfit!r}: choose error or text")
        self.arity, self.number_trees = arity, number_trees
        self.unfit = unfit
        self.symbols = Symbols(self.vocab)
        own_ids = (self.symbols.start, self.symbols.stop, *self.symbols.names)
        self._own_marks = frozenset(self.vocab.mark_name(i) for i in own_ids)

    @classmethod
    def marks_of(cls, options: Mapping[str, Any], trees: Iterable[Tree] = ()) -> tuple[str, ...]:
        """The marks that a new vocabulary needs.

        Args:
          options: `dict(path="", numbers=0, least=1)`: MathGPT's vocab.json with counts to use instead of those of
            `trees`, and how many numbers get tokens of their own; see `symbols.list_marks`.
          trees: the formulas of the train split.
        """
        options = dict(options)
        path = options.pop("path", "")
        return names.list_marks(names.load_counts(path) if path else names.count_symbols(trees), **options)

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """As for every scheme; see `unfit`."""
        try:
            features = super().encode(document, offsets, source)
        except DataError:
            if self.unfit == "error":
                raise
            features = super().encode(tuple(self._fit_segment(segment) for segment in document), offsets, source)
        return (
            features._replace(channels={**features.channels, TYPES.name: self._rank_pointers(features)})
            if self.ranks
            else features
        )

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row. The rules find the numbers in the text again; an incomplete formula becomes a
        `Formula` without a tree.

        Args:
          numbers: the numbers of the text, for pointers to them.
        """
        pointed = [_pointer_key(number) for number in numbers[: len(self.symbols.pointers)]]
        segments: list[Segment] = []
        formula: list[int] | None = None
        for run in self._split_runs(self._drop_pointers(ids)):
            if formula is not None and run != STOP:
                formula += run if isinstance(run, list) else [self.vocab.mark(run)]
            elif run == START:
                formula = []
            elif formula is not None:
                segments.append(self._decode_formula(formula, pointed))
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
        return self.symbols.first, self.symbols.list_spellings()

    def _decode_formula(self, ids: Sequence[int], pointed: Sequence[str]) -> Formula | Number:
        tree = tokens.decode(ids, self.symbols, pointed)
        if self.number_trees and tree is not None and tree.type == "N" and tokens.WRITTEN.fullmatch(tree.symbol):
            with contextlib.suppress(ArithmeticError):  # a model may write an exponent of any length
                return Number(tree.symbol, Decimal(tree.symbol))
        return Formula("" if tree is None else printer.latex(tree), tree)

    def _drop_pointers(self, ids: Sequence[int]) -> list[int]:
        """The ids without the pointers outside formulas, which only count the numbers of the text."""
        out, inside = [], False
        for token in map(int, ids):
            inside = token != self.symbols.stop and (inside or token == self.symbols.start)
            if inside or token not in self.symbols.pointers:
                out.append(token)
        return out

    def _fit_segment(self, segment: Segment) -> Segment:
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
            pointers.setdefault(_pointer_key(number), token)
        return [self.symbols.start, *tokens.encode(tree, self.symbols, pointers), self.symbols.stop]

    def _write(self, run: Sequence[Segment], row: RowBuilder) -> None:
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

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        if self.number_trees and tokens.WRITTEN.fullmatch(number.surface) and not number.surface.endswith("."):
            ids = [self.symbols.start, *tokens.encode(Tree("N", number.surface), self.symbols), self.symbols.stop]
            row.add(ids, len(row.numbers) - 1)
            return
        super()._write_number(number, row)
        index = len(row.source) + len(row.numbers) - 1
        row.add(self.symbols.pointers[index : index + 1], len(row.numbers) - 1)

    def _rank_pointers(self, features: Features) -> np.ndarray:
        """The token types, with the ranks of their numbers for the pointers of the text."""
        order = sorted({number.value for number in features.numbers})
        types = features.channels[TYPES.name].copy()
        for position in np.flatnonzero(np.isin(features.ids, self.symbols.pointers) & (features.numeral_index >= 0)):
            rank = 1 + order.index(features.numbers[features.numeral_index[position]].value)
            types[position] = grammar.TYPES + min(rank, len(self.symbols.pointers))
        return types

    def _check_mark(self, mark: Mark) -> None:
        if mark.name in self._own_marks:
            raise DataError(f"{mark.name} is the scheme's own: a document cannot hold it")

    def _answer_edges(self) -> list[Edge]:
        return [Edge(grammar.ANSWERED, [self.vocab.mark(EOS)], "end")]

    def _make_grammar(self) -> Grammar:
        text, given_marks = self._text_edges()
        own_ids = {self.vocab.mark(name) for name in self._own_marks if name is not None}
        text[0] = text[0]._replace(tokens=[i for i in text[0].tokens if i not in own_ids])
        text.append(Edge("text", self.symbols.pointers, "text", given=True))
        arity = symbol_table.arity if self.arity else None
        answers_formula = self._form == "formula"
        return self._tables(
            [*text, *grammar.edges(self.symbols, self.text_ids, arity, answers_formula)],
            ("text", "end"),
            given=[i for i in given_marks if i not in own_ids],
            arity=grammar.arities(self.symbols, arity),
            placed=(*grammar.PLACED, *([grammar.ANSWER_ROOT] if answers_formula else [])),
            max_depth=grammar.DEPTH,
            max_width=grammar.WIDTH,
            recalled=self.symbols.pointers,
        )


def _pointer_key(number: Number) -> str:
    """The key of a text's number among the pointers of `tokens.encode`."""
    return documents.spell_in_formula(number) + ("%" if number.surface.endswith("%") else "")
