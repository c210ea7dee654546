"""Numbers in groups of up to three digits, each a symbol (Singh and Strouse 2024, arXiv 2402.14903)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text.base import EOS, BaseScheme, RowBuilder
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Document, Grammar, Mark, Number, Segment

DIRECTIONS = ("right", "left")
# Runs of digits, and whether a point stands before one.
_RUN = re.compile(r"(?P<point>(?<=\.))?(?P<digits>[0-9]+)|[^0-9]+")


class Scheme(BaseScheme):
    """1234567 is 1 234 567: the digits of a number, with leading zeros, are written in symbols of up to three.

    Other characters of a number, and digits in text, are the vocabulary's. So every surface is restored exactly.

    The digits behind a point are grouped from the point on, in either direction.
    """

    forms = answers.NUMBERS

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        size: int = 3,
        start: str = "right",
    ):
        """
        Args:
          size: most digits of a group, 1 to 4.
          start: the end at which whole numbers are grouped: "right", so that digits of the same place stand at the
            same place of a group, or "left", as GPT-3.5 and GPT-4 have it.
        """
        if not 1 <= size <= 4:
            raise UsageError(f"chunks: size must be from 1 to 4, not {size}")
        if start not in DIRECTIONS:
            raise UsageError(f"chunks: start must be right or left, not {start!r}")
        self.size, self.start = size, start
        self._groups = {n: tuple(f"{i:0{n}}" for i in range(10**n)) for n in range(1, size + 1)}
        self.marks = tuple(name for group in self._groups.values() for name in group)
        super().__init__(vocab, rules, pad_multiple)
        self._is_mark = frozenset(self.marks)

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row. The rules find the numbers in the text again; `numbers` is not used."""
        del numbers
        segments: list[Segment] = []
        text = ""
        for run in (*self._split_runs(ids), None):
            if isinstance(run, list):
                text += self.vocab.decode(run)
            elif run in self._is_mark:
                text += str(run)
            else:
                segments += self.parse(text)
                text = ""
                segments += [Mark(run)] if run is not None else []
        return tuple(segments)

    def split_digits(self, digits: str, is_fraction: bool = False) -> list[str]:
        """A run of digits in groups."""
        head = 0 if is_fraction or self.start == "left" else len(digits) % self.size
        return ([digits[:head]] if head else []) + [
            digits[i : i + self.size] for i in range(head, len(digits), self.size)
        ]

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        index = len(row.numbers) - 1
        for match in _RUN.finditer(number.surface):
            if match["digits"]:
                groups = self.split_digits(match["digits"], match["point"] is not None)
                row.add([self.vocab.mark(name) for name in groups], index)
            else:
                row.add(self.vocab.encode(match[0]), index)

    def _make_grammar(self) -> Grammar:
        edges, given_marks = self._text_edges()
        *short, full = (self._marks_of(group) for group in self._groups.values())
        shorter = [i for group in short for i in group]
        # A group of fewer digits may begin a run (of a whole number), or end it (of a fraction).
        states = {
            "text": {"full": full, "short first": shorter},
            "full": {"full": full, "short last": shorter},
            "short first": {"full": full},
            "short last": {},
        }
        begins = list(edges)
        for state, row in states.items():
            if state != "text":
                edges += [edge._replace(state=state) for edge in begins]
            edges += [Edge(state, tokens, to) for to, tokens in row.items() if tokens]
        return self._tables(edges, (*states, "end"), given=given_marks)

    def _answer_edges(self) -> list[Edge]:
        """A blank, and a plain number without leading zeros, in its one grouping."""
        blank, minus, point = (self.vocab.encode(text) for text in (" ", "-", "."))
        *short, full = (self._marks_of(group) for group in self._groups.values())
        led = [[i for i, name in zip(ids, group, strict=True) if name[0] != "0"] for ids, group in self._pairs()]
        shorter, led_shorter = [i for group in short for i in group], [i for group in led[:-1] for i in group]
        zero = [self.vocab.mark("0")]
        edges = answers.path_edges(answers.START, blank, "answer's number")
        edges += answers.path_edges("answer's number", minus, "answer's signed")
        behind_first = "answer's whole" if self.start == "right" else "answer's last"
        for state in ("answer's number", "answer's signed"):
            edges += [
                Edge(state, [i for i in led_shorter if i not in zero], behind_first),
                Edge(state, led[-1] if self.size > 1 else [i for i in led[-1] if i not in zero], "answer's whole"),
                Edge(state, zero, "answer's last"),
            ]
        edges.append(Edge("answer's whole", full, "answer's whole"))
        if self.start == "left" and shorter:
            edges.append(Edge("answer's whole", shorter, "answer's last"))
        for state in ("answer's whole", "answer's last"):
            edges += answers.path_edges(state, point, "answer's point")
        for state in ("answer's point", "answer's fraction"):
            edges += [Edge(state, full, "answer's fraction"), Edge(state, shorter, "answer's end")]
        ends = ("whole", "last", "fraction", "end")
        edges += [Edge(f"answer's {state}", [self.vocab.mark(EOS)], "end") for state in ends]
        return [edge for edge in edges if edge.tokens]

    def _pairs(self) -> list[tuple[list[int], tuple[str, ...]]]:
        return [(self._marks_of(group), group) for group in self._groups.values()]

    def _marks_of(self, names: Sequence[str]) -> list[int]:
        return [self.vocab.mark(name) for name in names]
