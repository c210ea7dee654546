"""Numbers as text: what a plain language model reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numjax.protocols import Told
from numjax.runtime import files
from numjax.text import answers
from numjax.text import document as documents
from numjax.text.base import EOS, BaseScheme, Row
from numjax.text.base_vocabulary import BaseVocabulary
from numjax.text.tables import Edge
from numjax.types import Document, Grammar, Number, Segment


class Scheme(BaseScheme):
    """Sub-words all along; `numeral_index` marks every position that holds a part of a number.

    By default a stretch of text and numbers is encoded as a whole, exactly as a plain tokenizer does, so
    that the baseline is a true GPT: a position may then hold the space before a number too (" 12"), it
    belongs to the number, and the number's segment starts with it. A stretch with one position for parts
    of two numbers is encoded piece by piece, so that every number has positions of its own.
    """

    forms = answers.NUMBERS

    def __init__(
        self,
        vocab: Told[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        apart: bool = False,
        types: bool = False,
    ):
        """
        Args:
          apart: encode each number by itself, so that none shares a position with text.
        """
        super().__init__(vocab, rules, pad_multiple, types)
        self.apart = apart

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """Numbers are found anew in the text; those given are not needed."""
        del numbers
        return self._decode_parsed(ids)

    def _make_grammar(self) -> Grammar:
        edges, given = self._text_edges()
        accept: tuple[str, ...] = ("text", "end")
        if self.types:
            edges, accept = self._typed(edges, accept)
        return self._tables(edges, accept, given=given)

    def _answer_edges(self) -> list[Edge]:
        numbers = answers.number()
        # The blank may be a piece with the first digits.
        moves = {answers.START: {" ": next(iter(numbers))}, **numbers}
        end = [Edge(state, [self.vocab.mark(EOS)], "end") for state in answers.complete()]
        return [*answers.in_pieces(moves, self.vocab, self.text_ids), *end]

    def _write(self, run: Sequence[Segment], row: Row) -> None:
        if self.apart or not any(isinstance(segment, Number) for segment in run):
            return super()._write(run, row)
        texts = [files.without_surrogates(documents.surface_of(segment)) for segment in run]
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

    def _write_number(self, number: Number, row: Row) -> None:
        row.add(self.vocab.encode(number.surface), len(row.numbers) - 1)
