"""Numbers with their last digit first (Lee et al. 2023, arXiv 2307.03381; Abacus; McLeish et al. 2024)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text import digits
from numjax.text.base import EOS, RowBuilder
from numjax.text.digits import CLOSE, COMPLETE, DIGITS_ONLY, KINDS, OPEN, SPELLING
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Number

OPEN_REVERSED, CLOSE_REVERSED = "[R]", "[/R]"
PLACE = "[10^-{}]"  # the place of the first digit behind it
WHICH = ("all", "answers")
MOST_PLACES = 100
_DECIMAL = re.compile(r"[^.]*\.([0-9]+)")


class Scheme(digits.Scheme):
    """The characters of a number from the last to the first, between [R] and [/R]: 1,234.5 is [R] 5 . 4 3 2 , 1 [/R].

    A sum is then written in the order in which its carries come. The surface is restored exactly.

    With `places` a decimal number begins with the place of its last digit: 12.35 is [R] [10^-2] 5 3 . 2 1 [/R]. So
    each digit's place is known when it is written, and positions (`abacus`) align numbers at their points. The
    grammar of running text does not count: a number that the model writes there with a wrong place becomes text. That
    of answers counts.
    """

    marks = (OPEN_REVERSED, CLOSE_REVERSED)
    fences = {OPEN_REVERSED: CLOSE_REVERSED, OPEN: CLOSE}

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        which: str = "all",
        until: str = "[SEP]",
        places: int = 0,
    ):
        """
        Args:
          which: "all" numbers, or only "answers", the numbers behind the mark `until`; those before it are spelled
            from the first character to the last, between [F] and [/F].
          places: most digits behind the point of a number that begins with its place; 0: none does, as published.

        Raises:
          UsageError: `which` is none of these, or `places` is not between 0 and 100.
        """
        if which not in WHICH:
            raise UsageError(f"reversed: which must be one of {', '.join(WHICH)}, not {which!r}")
        if not 0 <= places <= MOST_PLACES:
            raise UsageError(f"reversed: places must lie between 0 and {MOST_PLACES}, not {places}")
        self.which, self._place_marks = which, tuple(PLACE.format(n + 1) for n in range(places))
        super().__init__(vocab, rules, pad_multiple, layout="digits", until=until)

    def _list_marks(self) -> tuple[str, ...]:
        fences = (OPEN_REVERSED, CLOSE_REVERSED, *((OPEN, CLOSE) if self.which == "answers" else ()))
        return (*fences, *self._place_marks)

    def _find_inner(self, runs: Sequence[str | list[int]], index: int, close: str) -> tuple[list[int] | None, int]:
        mark = runs[index] if index < len(runs) and runs[index] in self._place_marks else ""
        inner, end = super()._find_inner(runs, index + bool(mark), close)
        if inner is not None and close == CLOSE_REVERSED and self._find_place(self.vocab.decode(inner)[::-1]) != mark:
            return None, 0
        return inner, end

    def _find_place(self, surface: str) -> str:
        """The mark for the place of its last digit; "" for whole numbers, and where no mark has this place."""
        match = _DECIMAL.fullmatch(surface)
        count = len(match[1]) if match else 0
        return self._place_marks[count - 1] if 0 < count <= len(self._place_marks) else ""

    def _read_spelling(self, fence: str, ids: Sequence[int]) -> str:
        surface = super()._read_spelling(fence, ids)
        return surface[::-1] if fence == OPEN_REVERSED else surface

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        if self.which == "answers" and self._is_prompt(row):
            super()._write_number(number, row)
            return
        row.add([self.vocab.mark(OPEN_REVERSED)])
        if place := self._find_place(number.surface):
            row.add([self.vocab.mark(place)])
        for character in reversed(number.surface):
            row.add(self._spell(character), len(row.numbers) - 1)
        row.add([self.vocab.mark(CLOSE_REVERSED)])

    def _fence_edges(self) -> list[Edge]:
        moves = {state: {KINDS[kind]: to for kind, to in row.items()} for state, row in SPELLING.items()}
        backward, ends = answers.reverse(moves, COMPLETE)
        edges = answers.spelling_edges(backward, self._spell)
        if self.rules not in DIGITS_ONLY:
            edges += self._word_edges(edges, "reversed words")
            ends = [*ends, "reversed words"]
        first = next(iter(backward))
        edges += self._opening_edges("text", first, [first] * len(self._place_marks), edges)
        edges += [Edge(state, [self.vocab.mark(CLOSE_REVERSED)], "text") for state in ends]
        if self.which == "answers":
            # Numbers of a prompt are only read.
            edges += [edge._replace(given=edge.state == "text") for edge in super()._fence_edges()]
        return edges

    def _answer_edges(self) -> list[Edge]:
        numbers = answers.number_moves()
        moves, ends = answers.reverse(numbers, answers.complete_states(), "answer's reversed")
        moves, ends, (first, *placed) = answers.count_places(moves, ends, len(self._place_marks))
        edges = answers.spelling_edges(moves, self._spell)
        edges += self._opening_edges("answer's mark", first, placed, edges)
        edges += answers.path_edges(answers.START, self._spell(" "), "answer's mark")
        edges += [Edge(state, [self.vocab.mark(CLOSE_REVERSED)], "answered") for state in ends]
        return [*edges, Edge("answered", [self.vocab.mark(EOS)], "end")]

    def _opening_edges(self, state: str, to: str, placed: Sequence[str], edges: Sequence[Edge]) -> list[Edge]:
        """[R] before what `edges` read from the state `to` on, or [R] and each place before what follows it."""
        opening = [self.vocab.mark(OPEN_REVERSED)]
        if not self._place_marks:
            return [Edge(state, opening, to)]
        opened = f"{to} opened"
        follows = [edge._replace(state=opened) for edge in edges if edge.state == to]
        follows += [
            Edge(opened, [self.vocab.mark(name)], behind)
            for name, behind in zip(self._place_marks, placed, strict=True)
        ]
        return [Edge(state, opening, opened), *follows]
