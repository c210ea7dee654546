"""The base of the layouts of time series, whose codes stand for numbers divided by the scale of those before them."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Self

from numjax.protocols import FromContext
from numjax.text.base import SEP
from numjax.text.coded import CodedScheme
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Abilities, Document, Features, Mark, Number, NumberRange

MOST_DIGITS = 400  # that are read of a number
MOST_POWER = 300  # numbers from 10^300 on count as 10^300, and those below 10^−300 as 0


class ScaledScheme(CodedScheme):
    """The numbers before the mark `until` are given. They set the scale of all numbers of the text. Who
    reads an answer must know them: `decode` takes them from its `numbers`, or from `after`.

    Without the mark, or without numbers before it, the scale is 1. Otherwise the first numbers of a running text
    would know how large the last ones are. All numbers of a source are given.

    Attributes:
      scale: the positive divisor of numbers.
    """

    scale = Fraction(1)

    def __init__(
        self, vocab: FromContext[BaseVocabulary], rules: str = "default", pad_multiple: int = 128, until: str = SEP
    ):
        """
        Args:
          until: the numbers before this mark set the scale; "": it is always 1.
        """
        self.until = until
        self._is_after = not until  # the scale is known: it is not that of the document
        super().__init__(vocab, rules, pad_multiple)

    @abc.abstractmethod
    def find_scale(self, sizes: Sequence[Fraction]) -> Fraction:
        """The divisor for given numbers of these absolute values, at least one. Not positive: none, so it is 1."""

    def abilities(self) -> Abilities:
        """Whatever the scale, only 0 is certain to come back: which others do depends on the numbers before them."""
        return Abilities(NumberRange(digits=0), NumberRange(digits=0))

    def after(self, numbers: Sequence[Number], ids: Sequence[int] | None = None) -> Self:
        """The same scheme for texts that stand behind these numbers; of a row, those before the mark are given."""
        if not self.until:
            return self
        self.automaton()  # both use it
        other = copy.copy(self)
        numbers = numbers if ids is None else numbers[: self._count_given(ids)]
        sizes = [abs(limit_size(number.value)) for number in numbers]
        scale = self.find_scale(sizes) if sizes else Fraction(1)
        other.scale, other._is_after = scale if scale > 0 else Fraction(1), True
        return other

    def encode(self, document: Document, offsets: bool = False, source: Features | None = None) -> Features:
        if self._is_after:
            return super().encode(document, offsets, source)
        given = self._list_given(document) if source is None else source.numbers
        return self.after(given).encode(document, offsets, source)

    def decode(self, ids: Sequence[int], numbers: Sequence[Number] = ()) -> Document:
        """The document of a row, in which as many of `numbers` are given as stand before the mark."""
        if self._is_after:
            return super().decode(ids, numbers)
        return self.after(numbers, ids).decode(ids, numbers)

    def positions_per_number(self, digits: int) -> int:
        """Of a number that is the only one given."""
        number = Number("1" * digits, Decimal("1" * digits))
        return len(self.after([number]).encode((number,)).ids)

    def _list_given(self, document: Document) -> list[Number]:
        if Mark(self.until) not in document:
            return []
        segments = document[: document.index(Mark(self.until))]
        return [s for s in segments if isinstance(s, Number) and s.value.is_finite()]

    def _count_given(self, ids: Iterable[int]) -> int:
        ids = [int(token) for token in ids]
        if (mark := self.vocab.mark(self.until)) not in ids:
            return 0
        return sum(isinstance(run, tuple) for run in self._split_codes(ids[: ids.index(mark)]))


def limit_size(value: Decimal) -> Fraction:
    """The exact value, within ±10^300: no power of ten is expanded that a text of a few characters can write.

    Of a value with more than `MOST_DIGITS` digits these are kept, and a 1 says that others follow, so that it rounds
    as before.
    """
    sign, digits, exponent = value.as_tuple()
    if len(digits) > MOST_DIGITS:
        kept = *digits[:MOST_DIGITS], int(any(digits[MOST_DIGITS:]))
        value = Decimal((sign, kept, int(exponent) + len(digits) - len(kept)))
    if not value or value.adjusted() < -MOST_POWER:
        return Fraction(0)
    if value.adjusted() >= MOST_POWER:
        return Fraction(10**MOST_POWER) * (-1 if value < 0 else 1)
    return Fraction(value)


def round_number(value: Fraction, digits: int) -> Decimal:
    """The nearest decimal of so many significant digits, without zeros at its end."""
    if not value:
        return Decimal(0)
    # The first guess of the quotient's exponent is right, or one too small.
    exponent = len(str(abs(value.numerator))) - len(str(value.denominator)) - digits
    if abs(value) >= Fraction(10) ** (exponent + digits):
        exponent += 1
    number = str(round(value / Fraction(10) ** exponent))
    stripped = number.rstrip("0")
    return Decimal(f"{stripped}e{exponent + len(number) - len(stripped)}")
