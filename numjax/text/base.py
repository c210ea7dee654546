"""The base of the text schemes: marks, the walk over a document, and the grammar of running text."""

from __future__ import annotations

import abc
import copy
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.protocols import FromContext
from numjax.text import document as documents
from numjax.text.grammar import answers, tables
from numjax.text.grammar import automaton as grammars
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import (
    TYPES,
    Abilities,
    Channel,
    Document,
    Features,
    Grammar,
    Mark,
    Number,
    NumberRange,
    Segment,
)

PAD, SEP, EOS, NUM = "[PAD]", "[SEP]", "[EOS]", "[NUM]"


# Form of an answer → an example of a scheme that can enforce it.
WRITES = {"number": "digits with layout=digits", "formula": "trees"}


class RowBuilder(NamedTuple):
    """The row that `encode` builds, from which it makes `Features`."""

    ids: list[int]
    numeral_index: list[int]
    numbers: list[Number]
    starts: list[int]
    memory: dict[str, str]  # what a scheme keeps of the row so far
    marks: set[int]  # the document's marks so far
    surfaces: set[str]  # of the numbers before the one that is written, the source's among them
    offsets: list[np.ndarray] | None = None  # of the ids added since the last mark, from there; None: not requested
    source: tuple[Number, ...] = ()  # the numbers of the encoder's input
    is_target: bool = False  # an encoder reads the source, so that all of this row is to be written

    def add(self, ids: Sequence[int], number: int = -1) -> None:
        self.ids.extend(ids)
        self.numeral_index.extend([number] * len(ids))


class BaseScheme(protocols.Scheme, abc.ABC):
    """Document ↔ positions over a vocabulary. A formula is written as its surface.

    decode(encode(d).ids, encode(d).numbers) == d for every canonical document of marks and parsed texts, with a mark
    between two parsed texts; [EOS] may only come last, [PAD] never stands in it. Over a vocabulary that is not exact,
    decode gives a document that is encoded the same, unless numbers are encoded separately.

    Attributes:
      marks: reserved tokens that the scheme needs beyond those of every vocabulary.
      points: tokens may point to numbers of the text before them, or of the source; `decode` then needs these.
      forms: the forms of `answers.FORMS` that the scheme can enforce.
      vocab: the given vocabulary, with these marks.
      vocab_size: its size rounded up to a multiple of `pad_multiple`; padded ids are never legal. It is the same on
        every mesh, so that a run can resume on another: 128 divides over tensor · fsdp up to 128 devices.
    """

    marks: tuple[str, ...] = ()
    points = False
    forms: tuple[str, ...] = ("text",)

    def __init__(
        self, vocab: FromContext[BaseVocabulary], rules: str = "default", pad_multiple: int = 128, types: bool = False
    ):
        """
        Args:
          rules: the rules that find numbers, see numjax/numeral/.
          types: give token types, if the scheme has them: 0 up to the first [SEP], 1 behind it, as in BERT.
        """
        self.vocab = vocab if set(self.marks) <= set(vocab.marks) else vocab.with_marks(self.marks)
        self.rules, self.types = rules, types
        self._own_marks = frozenset(self.marks)  # thousands in some schemes
        self.channels = self.channels_of({"types": types})
        self.vocab_size = -(-self.vocab.size // pad_multiple) * pad_multiple
        self.text_ids = [i for i in range(self.vocab.base) if self.vocab.bytes_of(i)]
        self._grammar: Grammar | None = None
        self._automaton: grammars.Automaton | None = None
        self._form = "text"

    @classmethod
    def channels_of(cls, options: Mapping[str, Any]) -> tuple[Channel, ...]:
        return (TYPES,) if options.get("types") else cls.channels

    def answering(self, form: str) -> Self:
        """The same scheme, with a grammar that enforces the form of an answer behind a prompt: "text" (anything that
        the scheme writes), "number" or "formula", see `text/grammar/answers.py`.

        Raises:
          UsageError: there is no such form, or the scheme cannot enforce it.
        """
        if form not in answers.FORMS:
            raise UsageError(f"task.answer={form!r}: choose {' or '.join(answers.FORMS)}")
        if form not in self.forms:
            raise UsageError(
                f"scheme {self.part_name()} cannot hold an answer to one {form}: set "
                f"task.answer=text, or choose another scheme, such as {WRITES[form]}"
            )
        other = copy.copy(self)
        other._form, other._grammar, other._automaton = form, None, None
        return other

    def abilities(self) -> Abilities:
        """Every number is spelled as it is. A vocabulary that is not exact may lose what stands between its words."""
        is_exact = self.vocab.exact
        return Abilities(NumberRange(), NumberRange(), exact=is_exact, keeps_format=is_exact)

    def parse(self, text: str) -> Document:
        """Text and Number segments by the scheme's rules."""
        return documents.parse(text, self.rules)

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        """One unpadded row.

        Args:
          offsets: also compute the characters that each position covers.
          source: the encoder's input for this document.

        Raises:
          DataError: the document is outside the scheme's grammar, or a number is not finite.
          UsageError: the vocabulary lacks one of its marks; or a segment's characters are unknown.
        """
        numbers = () if source is None else source.numbers
        surfaces = {number.surface for number in numbers}
        row = RowBuilder([], [], [], [], {}, set(), surfaces, [] if offsets else None, numbers, source is not None)
        run: list[Segment] = []
        covered: list[np.ndarray] = []
        offset = 0
        for segment in (*document, None):
            if segment is not None and not isinstance(segment, Mark):
                if isinstance(segment, Number) and not segment.value.is_finite():
                    raise DataError(f"{segment.surface!r} is not a finite number: give it as text")
                run.append(segment)
                continue
            self._write(run, row)
            if row.offsets is not None:
                covered += [part + offset for part in row.offsets]
                row.offsets.clear()
            offset += sum(len(documents.surface_of(other)) for other in run) if offsets else 0
            run = []
            if segment is not None:
                row.starts.append(len(row.ids))
                self._check_mark(segment)
                row.marks.add(token := self.vocab.mark(segment.name))
                row.add([token])
                covered.append(np.asarray([[offset, offset + len(segment.name)]], np.int32))
                offset += len(segment.name)
        trace = self.automaton().run(row.ids)
        if trace.error is not None:
            raise DataError(f"a document is outside the scheme's grammar: {trace.error}")
        return Features(
            ids=np.asarray(row.ids, np.int32),
            numeral_index=np.asarray(row.numeral_index, np.int32),
            numbers=tuple(row.numbers),
            starts=(*row.starts, len(row.ids)),
            grammar_state=trace.states,
            channels=trace.channels,
            offsets=self._join_offsets(covered, len(row.ids)) if offsets else None,
        )

    def _join_offsets(self, covered: Sequence[np.ndarray], count: int) -> np.ndarray:
        joined = np.concatenate([np.zeros((0, 2), np.int32), *covered])
        if len(joined) != count:
            raise UsageError("this scheme does not know which characters its positions cover: use scheme subword")
        return joined.astype(np.int32)

    @abc.abstractmethod
    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The canonical document of a row; [PAD] is left out."""

    def grammar(self) -> Grammar:
        """The automaton of the rows that this scheme writes."""
        if self._grammar is None:
            self._grammar = self._make_grammar()
        return self._grammar

    def automaton(self) -> grammars.Automaton:
        """The host's automaton of that grammar, built once."""
        if self._automaton is None:
            self._automaton = grammars.Automaton(self.grammar())
        return self._automaton

    @abc.abstractmethod
    def _make_grammar(self) -> Grammar: ...

    def _tables(self, edges: Sequence[Edge], accept: Sequence[str], **options: Any) -> Grammar:
        """The tables of running text, with token types if the scheme has them, and of answers if they have a form."""
        if self.types:
            edges, accept = self._add_types(edges, accept)
        if self._form == "text":
            return tables.build(self.vocab_size, edges, "text", accept, **options)
        edges = [*edges, *self._answer_edges()]
        return tables.build(self.vocab_size, edges, "text", accept, answer=answers.START, **options)

    def _answer_edges(self) -> list[Edge]:
        """Edges from `answers.START` to "end": the answer and [EOS]."""
        raise NotImplementedError

    @abc.abstractmethod
    def _write_number(self, number: Number, row: RowBuilder) -> None:
        """Writes a number that `row.numbers` already holds as its last."""

    def _write(self, run: Sequence[Segment], row: RowBuilder) -> None:
        """Writes neighbouring texts, numbers and formulas, each by itself."""
        offset = 0
        for segment in run:
            row.starts.append(start := len(row.ids))
            surface = documents.surface_of(segment)
            covered = None
            if isinstance(segment, Number):
                row.numbers.append(segment)
                self._write_number(segment, row)
                row.surfaces.add(segment.surface)
            elif row.offsets is None:
                row.add(self.vocab.encode(surface))
            else:
                ids, covered = self.vocab.cover(surface)
                row.add(ids)
            if row.offsets is not None:
                # Each position of a number covers all its characters.
                if covered is None:
                    covered = np.full((len(row.ids) - start, 2), (0, len(surface)), np.int32)
                row.offsets.append(covered + offset)
                offset += len(surface)

    def _check_mark(self, mark: Mark) -> None:
        """Refuses a mark that a document of this scheme cannot hold."""
        if mark.name in self._own_marks:
            raise DataError(f"{mark.name} is the scheme's own: a document cannot hold it")

    def _split_runs(self, ids: Sequence[int], texts: Container[int] = ()) -> Iterator[str | list[int]]:
        """Names of marks, and lists of ids between them; the marks `texts` stay in the lists."""
        run: list[int] = []
        for token in map(int, ids):
            name = None if token in texts else self.vocab.mark_name(token)
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
        """The document of a row whose numbers are spelled: the text between marks is parsed again."""
        segments: list[Segment] = []
        for run in self._split_runs(ids):
            segments += [Mark(run)] if isinstance(run, str) else self.parse(self.vocab.decode(run))
        return tuple(segments)

    def _add_types(self, edges: Sequence[Edge], accept: Sequence[str]) -> tuple[list[Edge], tuple[str, ...]]:
        """(edges, accepting states) of the same automaton with token types: 0 up to the first [SEP], 1 behind it."""
        separator = self.vocab.mark(SEP)
        source_states = {edge.state for edge in edges}

        def second(state: str) -> str:
            return f"{state} of the second" if state in source_states else state

        first_edges = []
        for edge in edges:
            first_edges.append(edge._replace(tokens=[i for i in edge.tokens if i != separator]))
            if separator in edge.tokens:
                first_edges.append(edge._replace(tokens=[separator], to=second(edge.to)))
        second_edges = [e._replace(state=second(e.state), to=second(e.to), token_type=1) for e in edges]
        return [*first_edges, *second_edges], tuple(dict.fromkeys((*accept, *map(second, accept))))

    def _text_edges(self, predicted: Sequence[int] = (), read: Sequence[int] = ()) -> tuple[list[Edge], list[int]]:
        """(edges of state "text", marks that may be read there but are never generated).

        Text, `predicted` and `read` stay in "text", [EOS] goes to "end".

        Args:
          predicted: marks that are generated in texts. read: marks that texts alone do not generate.
        """
        excluded = {self.vocab.mark(name) for name in (PAD, EOS, *self.marks)} | {*predicted, *read}
        given = sorted({self.vocab.mark(name) for name in self.vocab.marks} - excluded)
        edges = [
            Edge("text", [*self.text_ids, *predicted, *given], "text"),
            Edge("text", [self.vocab.mark(EOS)], "end"),
        ]
        edges += [Edge("text", read, "text", given=True)] if read else []
        return edges, given
