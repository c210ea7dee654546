"""Numbers as text, as a plain language model reads them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numjax.protocols import FromContext
from numjax.runtime import files
from numjax.text import document as documents
from numjax.text.base import EOS, BaseScheme, RowBuilder
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Document, Grammar, Number, Segment


class Scheme(BaseScheme):
    """Sub-words only; `numeral_index` marks every position that holds a part of a number.

    By default a stretch of text and numbers is encoded as a whole, exactly as a plain tokenizer does, so that the
    baseline is a true GPT. A position may then also hold the space before a number (" 12"): it belongs to the number,
    and the number's segment starts with it. If one position would hold parts of two numbers, the stretch is encoded
    segment by segment, so that every number has positions of its own.
    """

    forms = answers.NUMBERS

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        apart: bool = False,
        types: bool = False,
    ):
        """
        Args:
          apart: encode each number by itself, so that no number shares a position with text.
        """
        super().__init__(vocab, rules, pad_multiple, types)
        self.apart = apart

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row. The rules find the numbers in the text again; `numbers` is not used."""
        del numbers
        return self._decode_parsed(ids)

    def _make_grammar(self) -> Grammar:
        edges, given_marks = self._text_edges()
        return self._tables(edges, ("text", "end"), given=given_marks)

    def _answer_edges(self) -> list[Edge]:
        numbers = answers.number_moves()
        # The blank may share a piece with the first digits.
        moves = {answers.START: {" ": next(iter(numbers))}, **numbers}
        end = [Edge(state, [self.vocab.mark(EOS)], "end") for state in answers.complete_states()]
        return [*answers.piece_edges(moves, self.vocab, self.text_ids), *end]

    def _write(self, run: Sequence[Segment], row: RowBuilder) -> None:
        if self.apart or not any(isinstance(segment, Number) for segment in run):
            return super()._write(run, row)
        texts = [files.replace_surrogates(documents.surface_of(segment)) for segment in run]
        ids, covered = self.vocab.cover("".join(texts))
        bounds = np.cumsum([0, *map(len, texts)])
        firsts = np.searchsorted(covered[:, 1], bounds[:-1], side="right")
        lasts = np.searchsorted(covered[:, 0], bounds[1:], side="left") - 1
        index = np.full(len(ids), -1, np.int32)
        for n, (first, last) in enumerate(
            (f, l) for f, l, segment in zip(firsts, lasts, run, strict=True) if isinstance(segment, Number)
        ):
            if (index[first : last + 1] >= 0).any():
                return super()._write(run, row)
            index[first : last + 1] = n + len(row.numbers)
        row.starts.extend((len(row.ids) + firsts).tolist())
        row.ids.extend(ids)
        if row.offsets is not None:
            row.offsets.append(covered)
        row.numeral_index.extend(index.tolist())
        row.numbers.extend(segment for segment in run if isinstance(segment, Number))
        return None

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        row.add(self.vocab.encode(number.surface), len(row.numbers) - 1)
