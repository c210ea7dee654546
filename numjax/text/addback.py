"""A number keeps its pieces, and [NUM] with its value stands behind them (LUNA's AddBack, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numjax.errors import DataError
from numjax.runtime import files
from numjax.text import document as documents
from numjax.text.base import EOS, NUM, BaseScheme, RowBuilder
from numjax.types import Document, Features, Grammar, Mark, Number, Segment, Text


class Scheme(BaseScheme):
    """As in `costs 1,200[NUM] grams`; `numeral_index` marks only [NUM].

    The text between two [NUM] is encoded as a whole, as a plain tokenizer does. So a piece may hold the end of a text
    and the beginning of a number (" 1"): it belongs to the number. Offsets, if requested, say which positions are one
    number: its pieces and its [NUM] have the same.
    """

    numbers = "behind"

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """One unpadded row.

        Raises:
          DataError: the document holds a bare [NUM]; in this scheme [NUM] follows its number.
        """
        if Mark(NUM) in document:
            raise DataError(f"the mark {NUM} stands behind a number's own pieces: give the number, or use [MASK]")
        return super().encode(document, offsets, source)

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row. A [NUM] takes the next of `numbers` if the text before it ends in that number, else
        the number that the text does end in; without one it stays a mark."""
        remaining = list(numbers)[::-1]
        segments: list[Segment] = []
        text = ""
        for run in self._split_runs(ids):
            if isinstance(run, list):
                text = self.vocab.decode(run)
            elif run != NUM:
                segments += [Text(text), Mark(run)]
                text = ""
            else:
                start = self._find_start(text, remaining[-1].surface) if remaining else None
                segments += self._split_number(text) if start is None else [Text(text[:start]), remaining.pop()]
                text = ""
        return documents.merge([*segments, Text(text)])

    def _find_start(self, text: str, surface: str) -> int | None:
        """Where this surface begins, if the text ends in it (as far as the vocabulary keeps it); else None."""
        if self.vocab.exact:
            return len(text) - len(surface) if text.endswith(surface) else None
        letters = "".join(self.vocab.decode(self.vocab.encode(surface)).split())
        start = len(text)
        for c in reversed(letters):
            while start and text[start - 1].isspace():
                start -= 1
            if not start or text[start - 1] != c:
                return None
            start -= 1
        return start

    def _split_number(self, text: str) -> Sequence[Segment]:
        """A text split into the part before its last number and that number; without one, the text and a [NUM]."""
        *preceding, last = self.parse(text) or (Text(""),)
        if isinstance(last, Number):
            return [Text(documents.surface(preceding)), last]
        return [Text(text), Mark(NUM)]

    def _make_grammar(self) -> Grammar:
        (text, end), given_marks = self._text_edges()
        marks = set(given_marks) | {self.vocab.mark(NUM)}
        pieces = [i for i in text.tokens if i not in marks]
        given_marks = sorted(set(given_marks) - {self.vocab.mark(NUM)})
        edges = []
        # [NUM] may stand only behind a piece.
        for state in ("text", "piece"):
            edges += [
                text._replace(state=state, tokens=pieces, to="piece"),
                text._replace(state=state, tokens=given_marks, to="text"),
                end._replace(state=state, tokens=[self.vocab.mark(EOS)]),
            ]
        edges.append(text._replace(state="piece", tokens=[self.vocab.mark(NUM)], to="text"))
        return self._tables(edges, ("text", "piece", "end"), given=given_marks)

    def _write(self, run: Sequence[Segment], row: RowBuilder) -> None:
        stretch: list[Segment] = []
        offset = 0
        for segment in run:
            stretch.append(segment)
            if isinstance(segment, Number):
                offset = self._write_stretch(stretch, row, offset)
                stretch = []
        if stretch:
            self._write_stretch(stretch, row, offset)

    def _write_stretch(self, stretch: Sequence[Segment], row: RowBuilder, offset: int) -> int:
        """Writes texts and the number behind them, if any; returns the number of the run's characters so far."""
        texts = [files.replace_surrogates(documents.surface_of(segment)) for segment in stretch]
        bounds = np.cumsum([0, *map(len, texts)])
        ids, covered = self.vocab.cover("".join(texts))
        last = stretch[-1]
        if isinstance(last, Number):
            start = bounds[-2]
            if not self.vocab.exact and ((covered[:, 0] < start) & (covered[:, 1] > start)).any():
                # An unknown word would hide its number, so the number is encoded by itself.
                preceding, following = self.vocab.cover("".join(texts[:-1])), self.vocab.cover(texts[-1])
                ids, covered = preceding[0] + following[0], np.concatenate([preceding[1], following[1] + start])
        firsts = np.searchsorted(covered[:, 1], bounds[:-1], side="right")
        row.starts.extend((len(row.ids) + firsts).tolist())
        row.add(ids)
        if isinstance(last, Number):
            covered = np.append(covered, [[0, 0]], axis=0).astype(np.int32)
            covered[firsts[-1] :] = bounds[-2:]
            row.numbers.append(last)
            self._write_number(last, row)
        if row.offsets is not None:
            row.offsets.append(covered + offset)
        return offset + int(bounds[-1])

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        row.add([self.vocab.mark(NUM)], len(row.numbers) - 1)
