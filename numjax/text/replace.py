"""A number is one position, [NUM], with its value in a side array (NumGPT, section 3)."""

from __future__ import annotations

from collections.abc import Sequence

from numjax.errors import DataError
from numjax.text import document as documents
from numjax.text.base import EOS, NUM, BaseScheme, RowBuilder
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.types import Abilities, Document, Features, Grammar, Mark, Number, NumberRange, Segment, Text


class Scheme(BaseScheme):
    """Each number is [NUM]; `Features.numbers` keeps its digits, and `decode` puts them back."""

    forms = answers.NUMBERS
    numbers = "slot"
    hides_digits = True

    def abilities(self) -> Abilities:
        """The value stands beside the ids. The head says which numbers it writes."""
        return Abilities(NumberRange(), None, parallel_write=True)

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """One unpadded row.

        Raises:
          DataError: a bare [NUM], which stands for an unknown number, comes before a number: `decode` could not tell
            which [NUM] the number belongs to.
        """
        has_bare = False
        for segment in document:
            has_bare |= segment == Mark(NUM)
            if has_bare and isinstance(segment, Number):
                raise DataError(f"the mark {NUM} comes before the number {segment.surface!r}: use [MASK]")
        return super().encode(document, offsets, source)

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row. Each [NUM] takes the next of `numbers`; when none is left it stays a mark."""
        remaining = iter(numbers)
        segments: list[Segment] = []
        for run in self._split_runs(ids):
            if isinstance(run, list):
                segments.append(Text(self.vocab.decode(run)))
            else:
                segments.append(next(remaining, Mark(NUM)) if run == NUM else Mark(run))
        return documents.merge(segments)

    def _make_grammar(self) -> Grammar:
        edges, given_marks = self._text_edges([self.vocab.mark(NUM)])
        return self._tables(edges, ("text", "end"), given=given_marks)

    def _answer_edges(self) -> list[Edge]:
        ids = [*self.vocab.encode(" "), self.vocab.mark(NUM), self.vocab.mark(EOS)]
        return answers.path_edges(answers.START, ids, "end")

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        row.add([self.vocab.mark(NUM)], len(row.numbers) - 1)
