"""What the text schemes share: marks, the walk over a document, and the grammar of running text."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import DataError
from numjax.text import document as documents
from numjax.text import grammar as grammars
from numjax.text.tables import Edge
from numjax.text.vocab import BaseVocabulary
from numjax.types import Document, Features, Grammar, Mark, Number, Segment

PAD, EOS, NUM = "[PAD]", "[EOS]", "[NUM]"


class Row(NamedTuple):
    """What `encode` writes: `Features` in the making."""

    ids: list[int]
    numeral_index: list[int]
    numbers: list[Number]
    starts: list[int]

    def add(self, ids: Sequence[int], number: int = -1) -> None:
        self.ids.extend(ids)
        self.numeral_index.extend([number] * len(ids))


class BaseScheme(abc.ABC):
    """Document ↔ positions over a vocabulary. A formula is written as its surface.

    decode(encode(d).ids, encode(d).numbers) == d for every canonical document made of marks and of what
    `parse` gives, with a mark between two parsed texts; [EOS] may only come last, [PAD] never stands in it.

    Attributes:
      marks: reserved tokens that the scheme needs beyond those of every vocabulary.
      vocab: the vocabulary given, with these marks.
      vocab_size: its size rounded up to a multiple of `pad_multiple`; padded ids are never legal. The same on every
        mesh, so that a run goes on on another: 128 divides over tensor · fsdp up to 128 devices.
    """

    marks: tuple[str, ...] = ()

    def __init__(self, vocab: BaseVocabulary, rules: str = "default", pad_multiple: int = 128):
        self.vocab = vocab if set(self.marks) <= set(vocab.marks) else vocab.with_marks(self.marks)
        self.rules = rules
        self.vocab_size = -(-self.vocab.size // pad_multiple) * pad_multiple
        self.text_ids = [i for i in range(self.vocab.base) if self.vocab.bytes_of(i)]
        self._grammar: Grammar | None = None

    def parse(self, text: str) -> Document:
        """Text and Number segments by the scheme's rules."""
        return documents.parse(text, self.rules)

    def encode(self, document: Document) -> Features:
        """One unpadded row.

        Raises:
          DataError: the scheme's grammar does not have this document.
          UsageError: the vocabulary lacks one of its marks.
        """
        row = Row([], [], [], [])
        run: list[Segment] = []
        for segment in document:
            if isinstance(segment, Mark):
                self._write(run, row)
                run = []
                row.starts.append(len(row.ids))
                self._check(segment)
                row.add([self.vocab.mark(segment.name)])
            else:
                run.append(segment)
        self._write(run, row)
        trace = grammars.run(self.grammar(), row.ids)
        if trace.error is not None:
            raise DataError(f"a document is outside the scheme's grammar: {trace.error}")
        return Features(
            ids=np.asarray(row.ids, np.int32),
            numeral_index=np.asarray(row.numeral_index, np.int32),
            numbers=tuple(row.numbers),
            starts=(*row.starts, len(row.ids)),
            grammar_state=trace.states,
            types=trace.types,
            tree_positions=trace.tree_positions,
        )

    @abc.abstractmethod
    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The canonical document of a row; [PAD] is left out."""

    def grammar(self) -> Grammar:
        """The automaton of the rows that this scheme writes."""
        if self._grammar is None:
            self._grammar = self._make_grammar()
        return self._grammar

    @abc.abstractmethod
    def _make_grammar(self) -> Grammar: ...

    @abc.abstractmethod
    def _write_number(self, number: Number, row: Row) -> None:
        """Writes a number that `row.numbers` already holds as its last."""

    def _write(self, run: Sequence[Segment], row: Row) -> None:
        """Writes neighbouring texts, numbers and formulas, each by itself."""
        for segment in run:
            row.starts.append(len(row.ids))
            if isinstance(segment, Number):
                row.numbers.append(segment)
                self._write_number(segment, row)
            else:
                row.add(self.vocab.encode(documents.surface_of(segment)))

    def _check(self, mark: Mark) -> None:
        """Refuses a mark that a document of this scheme cannot hold."""
        if mark.name in self.marks:
            raise DataError(f"{mark.name} is the scheme's own: a document cannot hold it")

    def _runs(self, ids: Sequence[int]) -> Iterator[str | list[int]]:
        """Names of marks, and lists of ids between them."""
        run: list[int] = []
        for token in map(int, ids):
            name = self.vocab.mark_name(token)
            if name == PAD:
                continue
            if name is None:
                run.append(token)
                continue
            if run:
                yield run
            run = []
            yield name
        if run:
            yield run

    def _decode_parsed(self, ids: Sequence[int]) -> Document:
        """The document of a row whose numbers are spelled: what stands between marks is parsed again."""
        segments: list[Segment] = []
        for run in self._runs(ids):
            segments += [Mark(run)] if isinstance(run, str) else self.parse(self.vocab.decode(run))
        return tuple(segments)

    def _text_edges(self, predicted: Sequence[int] = ()) -> tuple[list[Edge], list[int]]:
        """Edges of state "text", in which every text and `predicted` go on and [EOS] goes to "end", and
        the marks that are read there but never generated."""
        own = {self.vocab.mark(name) for name in (PAD, EOS, *self.marks)} | set(predicted)
        given = [i for i in range(self.vocab.base, self.vocab.size) if i not in own]
        edges = [
            Edge("text", [*self.text_ids, *predicted, *given], "text"),
            Edge("text", [self.vocab.mark(EOS)], "end"),
        ]
        return edges, given
