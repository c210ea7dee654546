"""Digits behind index hints, one letter for each decimal place (Zhou et al. 2023, arXiv 2310.16028; the
baseline of Cho et al. 2024, arXiv 2405.20671)."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text import reversed as reversed_numbers
from numjax.text.base import RowBuilder
from numjax.text.digits import CLOSE, OPEN
from numjax.text.grammar.tables import Edge
from numjax.text.reversed import CLOSE_REVERSED, OPEN_REVERSED
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Number

_GROUPED = "[0-9](?:[^0-9.eE/]?[0-9])*"  # digits, perhaps with a character between groups
# The parts of a surface whose digits have places of their own: a number with its point, or an exponent.
_PART = re.compile(rf"(?P<whole>{_GROUPED})?(?:\.(?P<fraction>{_GROUPED}))?")


class Scheme(reversed_numbers.Scheme):
    """53 + 21 is [R] b 3 a 5 [/R] + [R] b 1 a 2 [/R]: digits of the same decimal place stand behind the same letter.

    The digit at place p (0 for units, −1 for tenths) has letter (r − p) mod `letters`, so letters follow each other
    from the first digit to the last. r is the same for all numbers of a row. A scheme draws nothing, so r is a hash
    of the first number of the row (of the encoder's input, if there is one), which a prompt and its answer share:
    over many rows every letter stands at every place.

    Numbers are written from their last digit on; with which=answers, as published, only those of answers. Published
    code then reverses their hints as well as their digits, so that equal letters no longer mean equal places;
    `antialigned` does the same. Published operands have zeros before them, up to the same length; here their places
    need none.

    The letters are marks [h0], [h1], …. Their positions belong to no number, and `decode` leaves them out: a model
    that writes wrong letters before right digits has written the right number.
    """

    digit_tokens = False  # a letter stands between any two

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        which: str = "all",
        until: str = "[SEP]",
        letters: int = 102,
        antialigned: bool = False,
    ):
        """
        Args:
          which, until: the numbers that are written from their last digit on, see `reversed.Scheme`.
          letters: how many there are; places further apart share one.
          antialigned: give a reversed number the letters of its forward spelling, as published.

        Raises:
          UsageError: an option is out of range, or a digit is no token of the vocabulary.
        """
        if not 2 <= letters <= 10_000:
            raise UsageError(f"hints: letters must be from 2 to 10,000, not {letters}")
        self.letters, self.antialigned = letters, antialigned
        super().__init__(vocab, rules, pad_multiple, which=which, until=until)
        spellings = {digit: self._spell(digit) for digit in "0123456789"}
        if any(len(ids) != 1 for ids in spellings.values()):
            raise UsageError(
                "hints: each digit must be one token: choose a vocabulary of sentencepiece or byte pairs"
            )
        self._digit_ids = {ids[0] for ids in spellings.values()}
        self._hints = [self.vocab.mark(name) for name in self._list_letters()]
        self._is_hint = frozenset(self._hints)

    def _list_letters(self) -> tuple[str, ...]:
        return tuple(f"[h{i}]" for i in range(self.letters))

    def _list_marks(self) -> tuple[str, ...]:
        return (*super()._list_marks(), *self._list_letters())

    def aggregation(self) -> dict[str, Any]:
        """Empty: the digits of a number do not follow each other."""
        return {}

    def list_hints(self, surface: str, start: int) -> list[int | None]:
        """The index of the letter before each character of a number; None before what is no digit."""
        places = find_places(surface)
        return [None if place is None else (start - place) % self.letters for place in places]

    def _split_runs(self, ids: Sequence[int]) -> Iterator[str | list[int]]:
        return super()._split_runs([i for i in map(int, ids) if i not in self._is_hint])

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        index = len(row.numbers) - 1
        first = (*row.source, *row.numbers)[0]
        hints = self.list_hints(number.surface, zlib.crc32(first.surface.encode()) % self.letters)
        pairs = list(zip(number.surface, hints, strict=True))
        is_reversed = self.which == "all" or not self._is_prompt(row)
        if is_reversed:
            pairs.reverse()
            if self.antialigned:
                forward = iter([hint for hint in hints if hint is not None])
                pairs = [(character, None if hint is None else next(forward)) for character, hint in pairs]
        row.add([self.vocab.mark(OPEN_REVERSED if is_reversed else OPEN)])
        for character, hint in pairs:
            if hint is not None:
                row.add([self._hints[hint]])
            row.add(self._spell(character), index)
        row.add([self.vocab.mark(CLOSE_REVERSED if is_reversed else CLOSE)])

    def _fence_edges(self) -> list[Edge]:
        return self._hint_edges(super()._fence_edges())

    def _answer_edges(self) -> list[Edge]:
        return self._hint_edges(super()._answer_edges())

    def _hint_edges(self, edges: Sequence[Edge]) -> list[Edge]:
        """The same edges, with any letter before each digit."""
        hinted: list[Edge] = []
        states: dict[str, None] = {}
        for edge in edges:
            digits = [token for token in edge.tokens if token in self._digit_ids]
            if others := [token for token in edge.tokens if token not in self._digit_ids]:
                hinted.append(edge._replace(tokens=others))
            if digits:
                states[edge.state] = None
                hinted.append(edge._replace(state=f"{edge.state}, hinted", tokens=digits))
        return [*hinted, *(Edge(state, self._hints, f"{state}, hinted") for state in states)]


def find_places(surface: str) -> list[int | None]:
    """The decimal place of each character of a number, None for what is no digit: 1, 0 and −1 for the digits of 12.5.

    Places count from the point that is written. An exponent is a number of its own.
    """
    places: list[int | None] = [None] * len(surface)
    for match in _PART.finditer(surface):
        whole, fraction = ([i for i in range(*match.span(k)) if surface[i] in "0123456789"] for k in (1, 2))
        for place, i in enumerate(reversed(whole)):
            places[i] = place
        for place, i in enumerate(fraction, 1):
            places[i] = -place
    return places
