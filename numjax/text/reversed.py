"""Numbers with their last digit first (Lee et al. 2023, arXiv 2307.03381; Abacus; McLeish et al. 2024)."""

from __future__ import annotations

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
WHICH = ("all", "answers")


class Scheme(digits.Scheme):
    """The characters of a number from the last to the first, between [R] and [/R]: 1,234.5 is [R] 5 . 4 3 2 , 1 [/R].

    A sum is then written in the order in which its carries come. The surface is restored exactly.
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
    ):
        """
        Args:
          which: "all" numbers, or only "answers", the numbers behind the mark `until`; those before it are spelled
            from the first character to the last, between [F] and [/F].

        Raises:
          UsageError: `which` is none of these.
        """
        if which not in WHICH:
            raise UsageError(f"reversed: which must be one of {', '.join(WHICH)}, not {which!r}")
        self.which = which
        super().__init__(vocab, rules, pad_multiple, layout="digits", until=until)

    def _list_marks(self) -> tuple[str, ...]:
        return (OPEN_REVERSED, CLOSE_REVERSED, *((OPEN, CLOSE) if self.which == "answers" else ()))

    def _read_spelling(self, fence: str, ids: Sequence[int]) -> str:
        surface = super()._read_spelling(fence, ids)
        return surface[::-1] if fence == OPEN_REVERSED else surface

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        if self.which == "answers" and self._is_prompt(row):
            super()._write_number(number, row)
            return
        row.add([self.vocab.mark(OPEN_REVERSED)])
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
        edges.append(Edge("text", [self.vocab.mark(OPEN_REVERSED)], next(iter(backward))))
        edges += [Edge(state, [self.vocab.mark(CLOSE_REVERSED)], "text") for state in ends]
        if self.which == "answers":
            # Numbers of a prompt are only read.
            edges += [edge._replace(given=edge.state == "text") for edge in super()._fence_edges()]
        return edges

    def _answer_edges(self) -> list[Edge]:
        numbers = answers.number_moves()
        moves, ends = answers.reverse(numbers, answers.complete_states(), "answer's reversed")
        blank = self._spell(" ")
        edges = answers.path_edges(answers.START, [*blank, self.vocab.mark(OPEN_REVERSED)], next(iter(moves)))
        edges += answers.spelling_edges(moves, self._spell)
        edges += [Edge(state, [self.vocab.mark(CLOSE_REVERSED)], "answered") for state in ends]
        return [*edges, Edge("answered", [self.vocab.mark(EOS)], "end")]
