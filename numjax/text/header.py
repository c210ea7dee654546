"""Numbers behind the count of their digits (NumeroLogic; Schwartz et al. 2024, arXiv 2404.00459)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from numjax.protocols import FromContext
from numjax.text import digits
from numjax.text.base import EOS, RowBuilder
from numjax.text.digits import CLOSE, OPEN
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Number

COUNTED = "[:]"
# A count of whole digits, and one of those behind the point if there are any; no count has a leading zero.
HEADER: answers.Moves = {
    "counts": {"123456789": "count", "0": "zero count"},
    "count": {"0123456789": "count", ".": "counts point"},
    "zero count": {".": "counts point"},
    "counts point": {"123456789": "places"},
    "places": {"0123456789": "places"},
}
COUNTED_STATES = ("count", "zero count", "places")  # a number in words has no digits
_MANTISSA = re.compile(r"[^0-9.]*([0-9][0-9,]*)?(?:\.([0-9]+))?")


class Scheme(digits.Scheme):
    """42 is [F] 2 [:] 4 2 [/F], and 0.5 is [F] 1 . 1 [:] 0 . 5 [/F]: how long a number is, before its first digit.

    The counts are of the digits before the point and behind it, without those of an exponent. A number that the model
    writes with a wrong count becomes text: it is malformed, as the grammar does not count.
    """

    marks = (OPEN, COUNTED, CLOSE)
    digit_tokens = False  # the digits of a count stand between them

    def __init__(self, vocab: FromContext[BaseVocabulary], rules: str = "default", pad_multiple: int = 128):
        super().__init__(vocab, rules, pad_multiple, layout="digits", until="")

    def _list_marks(self) -> tuple[str, ...]:
        return self.marks

    def aggregation(self) -> dict[str, Any]:
        """Empty: the digits of a count are no digits of the number."""
        return {}

    def _find_inner(self, runs: Sequence[str | list[int]], index: int, close: str) -> tuple[list[int] | None, int]:
        match list(runs[index : index + 4]):
            case [list() as header, mark, list() as inner, end] if mark == COUNTED and end == close:
                if self.vocab.decode(header) == count_digits(self.vocab.decode(inner)):
                    return inner, index + 4
        return None, 0

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        index = len(row.numbers) - 1
        row.add([self.vocab.mark(OPEN)])
        for character in count_digits(number.surface):
            row.add(self._spell(character), index)
        row.add([self.vocab.mark(COUNTED)])
        for character in number.surface:
            row.add(self._spell(character), index)
        row.add([self.vocab.mark(CLOSE)])

    def _fence_edges(self) -> list[Edge]:
        edges = super()._fence_edges()
        (begin,) = (edge for edge in edges if edge.state == "text")
        edges[edges.index(begin)] = begin._replace(to="counts")
        return [*edges, *self._header_edges("", begin.to)]

    def _answer_edges(self) -> list[Edge]:
        first, *_ = numbers = answers.number_moves()
        edges = answers.path_edges(answers.START, [*self._spell(" "), self.vocab.mark(OPEN)], "answer's counts")
        edges += self._header_edges("answer's ", first)
        edges += answers.spelling_edges(numbers, self._spell)
        edges += [Edge(state, [self.vocab.mark(CLOSE)], "answered") for state in answers.complete_states()]
        return [*edges, Edge("answered", [self.vocab.mark(EOS)], "end")]

    def _header_edges(self, prefix: str, to: str) -> list[Edge]:
        moves = {prefix + s: {kind: prefix + t for kind, t in row.items()} for s, row in HEADER.items()}
        edges = answers.spelling_edges(moves, self._spell)
        return edges + [Edge(prefix + state, [self.vocab.mark(COUNTED)], to) for state in COUNTED_STATES]


def count_digits(surface: str) -> str:
    """The header of a number: "2" of 42, "1.1" of 0.5, "0.2" of .25."""
    match = _MANTISSA.match(surface)
    whole, fraction = match.groups("") if match else ("", "")
    count = len(whole.replace(",", ""))
    return f"{count}.{len(fraction)}" if fraction else str(count)
