"""A long number as several [NUM], each with a few of its digits (FoNE; Zhou et al. 2025, arXiv 2502.09741)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

from numjax.errors import DataError, UsageError
from numjax.numeral import format as formats
from numjax.numeral.surface import shift
from numjax.protocols import FromContext
from numjax.text import document as documents
from numjax.text.base import EOS, NUM, BaseScheme, RowBuilder
from numjax.text.grammar import answers
from numjax.text.grammar.tables import Edge
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import PART, Abilities, Document, Grammar, Mark, Number, NumberRange, Segment, Text

OPEN, CLOSE = "[R]", "[/R]"
MOST_DIGITS = 2000  # on either side of the point: Python reads no whole number of more than 4,300


class Scheme(BaseScheme):
    """A number is [R] [NUM] … [NUM] [/R], the lowest slot first: with digits=5, 1234567.5 has 34567.5 and 12.

    The slot i is worth 10^(digits · i), so numbers are cut at the point; all digits behind it are in the first slot.
    A number has the slots that it needs, and its sign in each of them. It is the sum of its slots, whatever a head
    predicts there; a model may write more of them than `most`.
    """

    marks = (OPEN, CLOSE)
    fences = {OPEN: CLOSE}
    forms = answers.NUMBERS
    numbers = "slot"
    hides_digits = True
    whole_numbers = False

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        digits: int = 5,
        most: int = 20,
    ):
        """
        Args:
          digits: of a slot. most: slots of a number that is read; a longer number is refused.

        Raises:
          UsageError: an option is out of range.
        """
        if digits < 1 or most < 1 or digits * most > MOST_DIGITS:
            raise UsageError(
                f"slots: digits={digits} and most={most} must be at least 1, and their product at most {MOST_DIGITS}"
            )
        self.digits, self.most = digits, most
        super().__init__(vocab, rules, pad_multiple)

    def abilities(self) -> Abilities:
        """The values stand beside the ids. The head says which numbers it writes."""
        longest = self.digits * self.most
        return Abilities(NumberRange(places=longest, high=longest - 1), None)

    def widen(self, numbers: NumberRange) -> NumberRange:
        """Numbers whose slots belong to a range, if this holds all digits of a slot."""
        longest = self.digits * self.most
        signed, digits, places, low, high = numbers
        if (digits or self.digits) < self.digits or (high is not None and high < self.digits - 1) or (low or 0) > 0:
            return numbers
        limits = (longest, places, None if low is None else -low, None if digits is None else digits - self.digits)
        return NumberRange(signed, places=min(n for n in limits if n is not None), high=longest - 1)

    def nearest(self, value: Decimal) -> Decimal:
        """The same.

        Raises:
          DataError: it has too many digits.
        """
        longest = self.digits * self.most
        if not NumberRange(places=longest, high=longest - 1).holds(value):
            raise DataError(f"a number has more than {longest} digits before or behind its point: raise scheme.most")
        return value

    def join_numbers(self, ids: Sequence[int], values: Sequence[Decimal]) -> list[Number]:
        """The numbers of a generated text, from the values at its [NUM]s."""
        remaining, numbers = iter(values), []
        for kind, inner in self._find_numbers(list(self._split_runs(ids))):
            slots = [next(remaining, Decimal(0)) for _ in range(inner if isinstance(inner, int) else kind == NUM)]
            if isinstance(inner, int):
                total = self._add(slots)
                numbers.append(Number(formats.format(total), total))
        return numbers

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row.

        Args:
          numbers: whole numbers, or the slots that `encode` made of them.
        """
        waiting = list(numbers)[::-1]
        segments: list[Segment] = []
        for kind, inner in self._find_numbers(list(self._split_runs(ids))):
            if isinstance(inner, int):
                segments.append(self._take_number(waiting) if waiting else Mark(NUM))
            elif kind == NUM and waiting and waiting[-1].surface.startswith(PART):
                waiting.pop()  # of a number whose beginning was cut off
                segments.append(Mark(NUM))
            else:
                segments.append(Mark(kind) if inner is None else Text(self.vocab.decode(inner)))
        return documents.merge(segments)

    def _take_number(self, waiting: list[Number]) -> Number:
        """Takes the next number from a list whose last entry comes first."""
        first, slots = waiting.pop(), []
        while waiting and waiting[-1].surface.startswith(PART):
            slots.append(waiting.pop().value)
        return Number(first.surface, self._add([first.value, *slots])) if slots else first

    def _find_numbers(self, runs: Sequence[str | list[int]]) -> Iterator[tuple[str, int | list[int] | None]]:
        """Yields ([R], number of slots) of a number; (mark, None) of another mark; ("", ids) of text."""
        index = 0
        while index < len(runs):
            run, index = runs[index], index + 1
            if isinstance(run, list):
                yield "", run
                continue
            count = next((i for i, other in enumerate(runs[index:]) if other != NUM), 0)
            if run == OPEN and count and runs[index + count] == CLOSE:
                yield OPEN, count
                index += count + 1
            else:
                yield run, None

    def _add(self, slots: Sequence[Decimal]) -> Decimal:
        """Σ slot_i · 10^(digits · i), exact at any length."""
        if len(slots) == 1:
            return slots[0]
        places = max(0, *(-int(slot.as_tuple().exponent) for slot in slots))
        total = sum(int(shift(slot, places + self.digits * i)) for i, slot in enumerate(slots))
        return shift(Decimal(total), -places)  # Python writes no int of more than 4,300 digits

    def _write_number(self, number: Number, row: RowBuilder) -> None:
        row.numbers.pop()
        row.add([self.vocab.mark(OPEN)])
        for i, value in enumerate(self._cut(number.value)):
            row.numbers.append(Number(PART * (i > 0) + number.surface, value))
            row.add([self.vocab.mark(NUM)], len(row.numbers) - 1)
        row.add([self.vocab.mark(CLOSE)])

    def _cut(self, value: Decimal) -> list[Decimal]:
        """The slots of a number, the lowest first. A zero is one slot, however many places it is written with."""
        if not value:
            return [Decimal("-0" if value.is_signed() else "0")]
        sign, (whole, point, part) = "-" * value.is_signed(), f"{self.nearest(value):f}".lstrip("-").partition(".")
        first, *others = (whole[max(0, end - self.digits) : end] for end in range(len(whole), 0, -self.digits))
        return [Decimal(sign + first + point + part), *(Decimal(sign + other) for other in others)]

    def _make_grammar(self) -> Grammar:
        num_id = self.vocab.mark(NUM)
        text_edges, given_marks = self._text_edges(read=[num_id])
        return self._tables([*text_edges, *self._slot_edges("text", "text")], ("text", "end"), given=given_marks)

    def _answer_edges(self) -> list[Edge]:
        edges, first = answers.blank_edges(self.vocab.encode(" "), "answer's mark")
        edges += self._slot_edges(first, "answered")
        return [*edges, Edge("answered", [self.vocab.mark(EOS)], "end")]

    def _slot_edges(self, state: str, to: str) -> list[Edge]:
        return answers.fence_edges(state, [self.vocab.mark(name) for name in (OPEN, NUM, CLOSE)], to)
