"""The base of the layouts that write a number in symbols of its own, which no text spells."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from numjax.numeral import format as formats
from numjax.protocols import FromContext
from numjax.text import document as documents
from numjax.text.base import EOS, BaseScheme, RowBuilder
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Document, Grammar, Mark, Number, Segment, Text

Code = tuple[str, ...]  # the names of the marks that stand for a number, in order


class CodedScheme(BaseScheme):
    """Each number is a run of marks that stand for its value.

    A code keeps the value alone: "1,200" and "1200" have one code. `decode` takes the surface from `numbers` if the
    codes agree; a number that the model wrote has the shortest plain surface.

    Attributes:
      moves: the automaton over the names of marks, state → names → state; its first state begins a number.
      complete: the states in which a number may end.
    """

    forms = answers.NUMBERS
    moves: Mapping[str, Mapping[Code, str]]
    complete: tuple[str, ...]

    def __init__(self, vocab: FromContext[BaseVocabulary], rules: str = "default", pad_multiple: int = 128):
        """
        Args:
          rules: the rules that find numbers, see numjax/numeral/.
        """
        names = (name for row in self.moves.values() for group in row for name in group)
        self.marks = tuple(dict.fromkeys(names))
        super().__init__(vocab, rules, pad_multiple)
        self._steps = {s: {name: to for group, to in row.items() for name in group} for s, row in self.moves.items()}
        self._first = next(iter(self.moves))

    @abc.abstractmethod
    def write_value(self, value: Decimal) -> Code:
        """The names of the marks that stand for a value, or for the nearest one that the code has."""

    @abc.abstractmethod
    def read_value(self, code: Sequence[str]) -> Decimal:
        """The exact value of a code that the automaton accepts."""

    def nearest(self, value: Decimal) -> Decimal:
        """The value of its code."""
        return self.read_value(self.write_value(value))

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row. A code that is that of the next of `numbers` becomes this number; marks that are no
        whole code stay marks."""
        remaining = list(numbers)[::-1]
        segments: list[Segment] = []
        for run in self._split_codes(ids):
            if isinstance(run, list):
                segments.append(Text(self.vocab.decode(run)))
            elif isinstance(run, str):
                segments.append(Mark(run))
            elif remaining and self.write_value(remaining[-1].value) == run:
                segments.append(remaining.pop())
            else:
                value = self.read_value(run)
                segments.append(Number(formats.format(value), value))
        return documents.merge(segments)

    def _split_codes(self, ids: Sequence[int]) -> Iterator[str | list[int] | Code]:
        """Lists of ids of text, names of marks, and whole codes."""
        pending: list[str] = []
        for run in (*self._split_runs(ids), None):
            if isinstance(run, str) and run in self.marks:
                pending.append(run)
                continue
            yield from self._cut_codes(pending)
            pending = []
            if run is not None:
                yield run

    def _cut_codes(self, names: Sequence[str]) -> Iterator[str | Code]:
        start = 0
        while start < len(names):
            state, end = self._first, start
            for index in range(start, len(names)):
                state = self._steps.get(state, {}).get(names[index], "")
                if not state:
                    break
                if state in self.complete:
                    end = index + 1
            yield tuple(names[start:end]) if end > start else names[start]
            start = max(end, start + 1)

    def _make_grammar(self) -> Grammar:
        text_edges, given_marks = self._text_edges()
        edges = [*text_edges, *self._number_edges("text", "number's ")]
        # Where a number may end, the text may go on, and another number may begin.
        begins = [edge for edge in edges if edge.state == "text"]
        accept = ["text", "end"]
        for state in self.complete:
            follows = {self.vocab.mark(name) for name in self._steps.get(state, {})}
            edges += [
                edge._replace(state=f"number's {state}", tokens=[i for i in edge.tokens if i not in follows])
                for edge in begins
            ]
            accept.append(f"number's {state}")
        return self._tables(edges, accept, given=given_marks)

    def _answer_edges(self) -> list[Edge]:
        end = [self.vocab.mark(EOS)]
        edges, first = answers.blank_edges(self.vocab.encode(" "), "answer's blank")
        edges += self._number_edges(first, "answer's ")
        return [*edges, *(Edge(f"answer's {state}", end, "end") for state in self.complete)]

    def _number_edges(self, first: str, prefix: str) -> list[Edge]:
        """Edges of the automaton, whose first state is `first` and whose other states have a prefix."""
        return [
            Edge(first if state == self._first else prefix + state, [self.vocab.mark(n) for n in names], prefix + to)
            for state, row in self.moves.items()
            for names, to in row.items()
        ]

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        row.add([self.vocab.mark(name) for name in self.write_value(number.value)], len(row.numbers) - 1)
