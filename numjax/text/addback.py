"""A number keeps its pieces, and [NUM] with its value stands behind them (LUNA's AddBack, section 3.1)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from numjax.errors import DataError
from numjax.runtime import files
from numjax.text import document as documents
from numjax.text import tables
from numjax.text.base import EOS, NUM, BaseScheme, Row
from numjax.types import Document, Features, Grammar, Mark, Number, Segment, Text


class Scheme(BaseScheme):
    """As in `costs 1,200[NUM] grams`; `numeral_index` marks [NUM] alone.

    What stands between two [NUM] is encoded as a whole, as a plain tokenizer does, so that a piece may hold the end
    of a text and the beginning of a number (" 1"): it belongs to the number. Where offsets are asked for, they say
    which positions are one number: its pieces and its [NUM] have the same.
    """

    numbers = "behind"

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """One unpadded row.

        Raises:
          DataError: a bare [NUM], which here stands behind the number that it is.
        """
        if Mark(NUM) in document:
            raise DataError(f"the mark {NUM} stands behind a number's own pieces: give the number, or use [MASK]")
        return super().encode(document, offsets, source)

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """Each [NUM] takes the next of `numbers` if that is what stands before it, else the number that does; where
        none does, it stays a mark."""
        left = list(numbers)[::-1]
        segments: list[Segment] = []
        text = ""
        for run in self._runs(ids):
            if isinstance(run, list):
                text = self.vocab.decode(run)
            elif run != NUM:
                segments += [Text(text), Mark(run)]
                text = ""
            else:
                at = self._start(text, left[-1].surface) if left else None
                segments += self._last(text) if at is None else [Text(text[:at]), left.pop()]
                text = ""
        return documents.merge([*segments, Text(text)])

    def _start(self, text: str, surface: str) -> int | None:
        """Where the number of this surface begins that a text ends in, as far as the vocabulary keeps it, or None."""
        if self.vocab.exact:
            return len(text) - len(surface) if text.endswith(surface) else None
        kept = "".join(self.vocab.decode(self.vocab.encode(surface)).split())
        at = len(text)
        for c in reversed(kept):
            while at and text[at - 1].isspace():
                at -= 1
            if not at or text[at - 1] != c:
                return None
            at -= 1
        return at

    def _last(self, text: str) -> Sequence[Segment]:
        """A text and the number that it ends in, else the bare mark behind it."""
        *before, last = self.parse(text) or (Text(""),)
        if isinstance(last, Number):
            return [Text(documents.surface(before)), last]
        return [Text(text), Mark(NUM)]

    def _make_grammar(self) -> Grammar:
        (text, end), given = self._text_edges()
        marks = set(given) | {self.vocab.mark(NUM)}
        pieces = [i for i in text.tokens if i not in marks]
        given = sorted(set(given) - {self.vocab.mark(NUM)})
        edges = []
        # Behind a piece, and there alone, [NUM] may stand.
        for state in ("text", "piece"):
            edges += [
                text._replace(state=state, tokens=pieces, to="piece"),
                text._replace(state=state, tokens=given, to="text"),
                end._replace(state=state, tokens=[self.vocab.mark(EOS)]),
            ]
        edges.append(text._replace(state="piece", tokens=[self.vocab.mark(NUM)], to="text"))
        accept = ("text", "piece", "end")
        if self.types:
            edges, accept = self._typed(edges, accept)
        return tables.build(self.vocab_size, edges, "text", accept, given=given)

    def _write(self, run: Sequence[Segment], row: Row) -> None:
        stretch: list[Segment] = []
        place = 0
        for segment in run:
            stretch.append(segment)
            if isinstance(segment, Number):
                place = self._write_stretch(stretch, row, place)
                stretch = []
        if stretch:
            self._write_stretch(stretch, row, place)

    def _write_stretch(self, stretch: Sequence[Segment], row: Row, place: int) -> int:
        """Writes texts, and the number behind them where there is one; returns the run's characters so far."""
        texts = [files.without_surrogates(documents.surface_of(segment)) for segment in stretch]
        bounds = np.cumsum([0, *map(len, texts)])
        ids, covered = self.vocab.cover("".join(texts))
        last = stretch[-1]
        if isinstance(last, Number):
            start = bounds[-2]
            if not self.vocab.exact and ((covered[:, 0] < start) & (covered[:, 1] > start)).any():
                # A word that is not known hides its number: the number is encoded by itself.
                before, behind = self.vocab.cover("".join(texts[:-1])), self.vocab.cover(texts[-1])
                ids, covered = before[0] + behind[0], np.concatenate([before[1], behind[1] + start])
        firsts = np.searchsorted(covered[:, 1], bounds[:-1], side="right")
        row.starts.extend((len(row.ids) + firsts).tolist())
        row.add(ids)
        if isinstance(last, Number):
            covered = np.append(covered, [[0, 0]], axis=0).astype(np.int32)
            covered[firsts[-1] :] = bounds[-2:]
            row.numbers.append(last)
            self._write_number(last, row)
        if row.offsets is not None:
            row.offsets.append(covered + place)
        return place + int(bounds[-1])

    def _write_number(self, number: Number, row: Row) -> None:
        row.add([self.vocab.mark(NUM)], len(row.numbers) - 1)
