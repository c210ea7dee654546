"""Numbers written as a digit for each decimal place, which may hold a carry (the form of carry-save adders)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text import digits as spelled
from numjax.text import document as documents
from numjax.text.base import EOS, NUM, RowBuilder
from numjax.text.digits import CLOSE, OPEN
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Abilities, Document, Mark, Number, Segment, Text, WrittenPlaces

OPEN_PLACES, CLOSE_PLACES = "[R]", "[/R]"
MOST_PLACES = 10_000
ROOMS = ("longest", "sum")
SIZES = (1, 3)  # places of a position
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]*[1-9])?")


class Scheme(spelled.Scheme):
    """A number behind the mark `until` is [R] [NUM] … [NUM] [/R], one [NUM] for each decimal place, lowest first.

    It has as many places as the numbers before it allow (`room`), not as many as it needs, so neither its length nor
    its digits show in the ids: a model predicts every place from the prompt alone, all at once. At each [NUM] a head
    (`carry_save`) predicts a digit of the range `digits`. The number is Σ digit · 10^place: "8 15 2" is
    8 + 150 + 200 = 358, and carries are exact. With digits below 0 a number may be below 0.

    With `size` 3 a [NUM] is a limb of three places, each with such a digit: 358 is one [NUM], and n places are n / 3.
    Limbs are cut at the point.

    Numbers before the mark are spelled between [F] and [/F], as with layout=digits. So is a number that the places do
    not hold, or that is not written plainly: 007, 1.50, 1e3. `decode` gives the surface back in every case.
    """

    marks = (OPEN, CLOSE, OPEN_PLACES, CLOSE_PLACES)
    numbers = "places"
    digit_tokens = False

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        until: str = "[SEP]",
        room: str = "longest",
        places: int = 20,
        fraction: int = 0,
        digits: str = "0..19",
        size: int = 1,
    ):
        """
        Args:
          until: the mark before the numbers that are written in places.
          room: how many places before the point a number has. "longest": one more than the longest number before it
            in the row (or in the encoder's input); "sum": as many as the two longest together, for products. A number
            that needs more has its own.
          places: the most, of which `fraction` are behind the point; a number has all of those.
          digits: the least and the greatest digit of a place, see `heads/carry.Head`: "-9..18" also holds
            differences, and then numbers may be negative.
          size: places of a [NUM], 1 or 3; `places` and `fraction` are multiples of it.

        Raises:
          UsageError: an option is out of range.
        """
        if size not in SIZES or places % size or fraction % size:
            raise UsageError(
                f"carry_save: size must be 1 or 3 places, and places and fraction multiples of it, not size={size}, "
                f"places={places}, fraction={fraction}"
            )
        if not 0 <= fraction < places <= MOST_PLACES:
            raise UsageError(
                f"carry_save: places must be from 1 to {MOST_PLACES:,}, and fraction below it, not {places} and "
                f"{fraction}"
            )
        bounds = re.fullmatch(r"(-?[0-9]{1,5})\.\.([0-9]{1,5})", digits)
        least, most = map(int, bounds.groups()) if bounds else (1, 0)
        if least > 0 or most < 9:
            raise UsageError(
                f"carry_save: digits={digits!r} must be a range that holds 0..9, such as 0..19 or -9..18"
            )
        if not until:
            raise UsageError("carry_save: until must be the mark before what is written: given numbers are spelled")
        if room not in ROOMS:
            raise UsageError(f"carry_save: room must be one of {', '.join(ROOMS)}, not {room!r}")
        self.room = room
        self.written_places = WrittenPlaces(-fraction, places, least, most, size)
        super().__init__(vocab, rules, pad_multiple, layout="digits", until=until)

    def _list_marks(self) -> tuple[str, ...]:
        return type(self).marks

    def aggregation(self) -> dict[str, Any]:
        """{"written_places": …}."""
        return {"written_places": self.written_places}

    def abilities(self) -> Abilities:
        """The ids of a written number say only how many places it has."""
        return super().abilities()._replace(keeps_format=False)

    def holds(self, number: Number) -> bool:
        """Whether the places hold the number as it is written."""
        lowest, count, least, *_ = self.written_places
        if not _PLAIN.fullmatch(number.surface) or Decimal(number.surface) != number.value:
            return False  # "50%" has the value 0.50
        whole, _, fraction = number.surface.lstrip("-").partition(".")
        has_room = len(fraction) <= -lowest and len(whole) <= count + lowest
        return has_room and (not number.surface.startswith("-") or (least < 0 and number.value != 0))

    def join_numbers(self, ids: Sequence[int], values: Sequence[Decimal]) -> list[Number]:
        """The numbers of a generated text in order, from the digits that were predicted at its [NUM]s."""
        remaining, numbers = iter(values), []
        for kind, inner in self._find_numbers(list(self._split_runs(ids))):
            if kind == NUM:
                next(remaining, None)
            elif kind == OPEN_PLACES and inner is not None:
                numbers.append(self._add_places([next(remaining, Decimal(0)) for _ in inner]))
            elif kind == OPEN and inner is not None:
                parsed = self._parse_number(self.vocab.decode(inner), None)
                numbers += [parsed] if isinstance(parsed, Number) else []
        return numbers

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row; each number in places takes its value from the matching one of `numbers`."""
        remaining = iter(numbers)
        segments: list[Segment] = []
        for kind, inner in self._find_numbers(list(self._split_runs(ids))):
            if inner is None:
                segments.append(Mark(kind))
            elif kind == OPEN:
                segments.append(self._parse_number(self.vocab.decode(inner), next(remaining, None)))
            elif kind == OPEN_PLACES:
                segments.append(next(remaining, Mark(NUM)))
            else:
                segments.append(Text(self.vocab.decode(inner)))
        return documents.merge(segments)

    def _find_numbers(self, runs: Sequence[str | list[int]]) -> Iterator[tuple[str, list[int] | None]]:
        """Yields (mark, the ids of its number): [F] with what it spells, [R] with an id for each place; (mark, None)
        for a mark without a number; ("", ids) for a text."""
        index = 0
        while index < len(runs):
            run, index = runs[index], index + 1
            inner, end = (None, index) if isinstance(run, str) else (run, index)
            if run == OPEN:
                inner, end = self._find_inner(runs, index, CLOSE)
            elif run == OPEN_PLACES:
                count = next((i for i, other in enumerate(runs[index:]) if other != NUM), 0)
                if count and runs[index + count] == CLOSE_PLACES:
                    inner, end = [self.vocab.mark(NUM)] * count, index + count + 1
            yield run if isinstance(run, str) else "", inner
            index = index if inner is None else end

    def _add_places(self, values: Sequence[Decimal]) -> Number:
        """The number Σ value · 10^(its lowest place)."""
        lowest, base, total = self.written_places.lowest, 10**self.written_places.size, 0
        for value in reversed(values):
            total = base * total + int(value)
        text = f"{Decimal(abs(total)):f}".zfill(1 - lowest)  # Python writes no int of more than 4,300 digits
        if lowest:
            text = f"{text[:lowest]}.{text[lowest:]}".rstrip("0").rstrip(".")
        surface = f"-{text}" if total < 0 else text
        return Number(surface, Decimal(surface))

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        if (self.until and self._is_prompt(row)) or not self.holds(number):
            super()._write_number(number, row)
            return
        row.add([self.vocab.mark(OPEN_PLACES)])
        count = -(-self._count_places(number, row) // self.written_places.size)
        row.add([self.vocab.mark(NUM)] * count, len(row.numbers) - 1)
        row.add([self.vocab.mark(CLOSE_PLACES)])

    def _count_places(self, number: Number, row: RowBuilder) -> int:
        """How many places the number has in this row."""
        lengths = sorted((_count_whole(other) for other in (*row.source, *row.numbers[:-1])), reverse=True)
        room = sum(lengths[:2]) if self.room == "sum" else max(lengths, default=0) + 1
        lowest, most = self.written_places[:2]
        return min(max(room, _count_whole(number)) - lowest, most)

    def _text_edges(self, predicted: Sequence[int] = (), read: Sequence[int] = ()) -> tuple[list[Edge], list[int]]:
        """A lone [NUM] in a text is only read; those between [R] and [/R] are generated."""
        return super()._text_edges(predicted, [*read, self.vocab.mark(NUM)])

    def _fence_edges(self) -> list[Edge]:
        return [*super()._fence_edges(), *self._place_edges("text", "text")]

    def _answer_edges(self) -> list[Edge]:
        numbers = answers.number_moves()
        edges = answers.path_edges(answers.START, self._spell(" "), "answer's mark")
        edges.append(Edge("answer's mark", [self.vocab.mark(OPEN)], next(iter(numbers))))
        edges += answers.spelling_edges(numbers, self._spell)
        edges += [Edge(state, [self.vocab.mark(CLOSE)], "answered") for state in answers.complete_states()]
        edges += self._place_edges("answer's mark", "answered")
        return [*edges, Edge("answered", [self.vocab.mark(EOS)], "end")]

    def _place_edges(self, state: str, to: str) -> list[Edge]:
        return answers.fence_edges(state, [self.vocab.mark(name) for name in (OPEN_PLACES, NUM, CLOSE_PLACES)], to)


def _count_whole(number: Number) -> int:
    """How many digits its value has before the point; 1 below 1."""
    return max(1, number.value.adjusted() + 1) if number.value.is_finite() else 1
