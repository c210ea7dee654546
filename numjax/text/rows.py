"""Rows of a table, one position per cell (TabFormer): a document is whole rows, each its cells and then [SEP]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.protocols import FromContext
from numjax.text import document as documents
from numjax.text.base import PAD, SEP, BaseScheme, RowBuilder
from numjax.text.grammar import tables
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.text.vocab.cells import MISSING, SPECIAL, UNKNOWN, Cells
from numjax.types import Abilities, Document, Features, Grammar, Mark, Number, NumberRange, Text


class Scheme(BaseScheme):
    """One segment per cell: Text, or Number if the column has numbers; `Features.numbers` keeps those.

    In the grammar each column is a state with the column's own tokens, so that a loss under its mask chooses only
    among these; [SEP] is chosen among the seven shared tokens, as in TabFormer. A value that the vocabulary lacks is
    [UNK], which may be read but is never generated; `decode` gives it as a mark.

    Attributes:
      columns: positions of a row, [SEP] among them.
    """

    reads = "rows"
    numbers = "cell"

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        pad_multiple: int = 128,
        numbers: Sequence[str] = (),
        signs: bool = True,
    ):
        """
        Args:
          numbers: names of the columns that hold numbers.
          signs: keep the minus of numbers; LUNA's code loses that of `$-99.00`. Tokens are always those of the signed
            number.

        Raises:
          UsageError: the vocabulary has no columns, or lacks one of these.
        """
        if not isinstance(vocab, Cells):
            raise UsageError("scheme rows reads cells: set scheme.vocab.name=cells")
        super().__init__(vocab, pad_multiple=pad_multiple)
        self.cells = vocab
        names = [column.name for column in vocab.columns]
        if missing := [name for name in numbers if name not in names]:
            raise UsageError(f"scheme.numbers: no column {missing[0]!r}; the vocabulary has {', '.join(names)}")
        self.columns = len(names) + 1
        self._has_number = [*(name in numbers for name in names), False]
        self._signs = signs

    def abilities(self) -> Abilities:
        """A number is one of its column's bins, and its value stands beside the ids; none is written."""
        return Abilities(NumberRange(signed=self._signs), None, exact=False)

    def positions_per_number(self, digits: int) -> int:
        """One: a cell."""
        del digits
        return 1

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """One unpadded row of a batch: the table's rows, one after the other.

        Raises:
          DataError: a row has too few or too many cells, or a cell is no number where the column has numbers.
        """
        if not document or len(document) % self.columns:
            raise DataError(f"{len(document)} segments are no whole rows of {self.columns - 1} cells and {SEP}")
        ids, index, numbers, sizes = [], [], [], [0]
        for position, segment in enumerate(document):
            column = position % self.columns
            if (column == self.columns - 1) != (segment == Mark(SEP)):
                raise DataError(f"{SEP} ends each row of {self.columns - 1} cells, and stands nowhere else")
            index.append(-1)
            sizes.append(len(segment.name if isinstance(segment, Mark) else documents.surface_of(segment)))
            if segment == Mark(SEP):
                ids.append(self.vocab.mark(SEP))
                continue
            wants_number, description = self._has_number[column], self.cells.columns[column]
            if isinstance(segment, Number) and wants_number:
                # Quantities are binned by value, labels are looked up by surface.
                ids.append(
                    self.cells.token(column, segment.surface if description.kind == "label" else str(segment.value))
                )
                index[-1] = len(numbers)
                numbers.append(segment if self._signs else Number(segment.surface.lstrip("-"), abs(segment.value)))
            elif isinstance(segment, Text) and (segment.text == MISSING or not wants_number):
                ids.append(self.cells.token(column, segment.text))
            else:
                excerpt = documents.surface_of(segment)[:40]
                raise DataError(f"{description.name} wants a {'number' if wants_number else 'text'}, not {excerpt!r}")
        count, ends = len(ids), np.cumsum(sizes).astype(np.int32)
        return Features(
            ids=np.asarray(ids, np.int32),
            numeral_index=np.asarray(index, np.int32),
            numbers=tuple(numbers),
            starts=tuple(range(count + 1)),
            # The automaton cycles through the columns.
            grammar_state=(np.arange(count + 1) % self.columns).astype(np.int32),
            offsets=np.stack([ends[:-1], ends[1:]], axis=1) if offsets else None,
        )

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The cells of whole rows; a number is the next of `numbers`, or its token's text if none is left."""
        remaining = iter(numbers)
        segments: list[Any] = []
        for position, token in enumerate(map(int, ids)):
            column, name = position % self.columns, self.vocab.mark_name(token)
            if name == PAD:
                continue
            if name not in (None, UNKNOWN):
                segments.append(Mark(str(name)))
                continue
            text = self.vocab.decode([token]) if name is None else None
            # An unknown cell of a number column counts as a number.
            number = next(remaining, None) if self._has_number[column] and text != MISSING else None
            segments.append(number or (Mark(UNKNOWN) if text is None else Text(text)))
        return tuple(segments)

    def _make_grammar(self) -> Grammar:
        special = [self.vocab.mark(name) for name in SPECIAL]
        edges = []
        for i, (first, size) in enumerate(self.cells.spans):
            state, next_state = str(i), str(i + 1)
            edges += [
                Edge(state, range(first, first + size), next_state),
                Edge(state, special, next_state, given=True),
            ]
        last = str(len(self.cells.spans))
        edges.append(Edge(last, special, "0"))
        return tables.build(self.vocab_size, edges, "0", ("0",))

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        raise UsageError("scheme rows writes whole rows")
