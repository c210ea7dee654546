"""Numbers as digits without a point, after division by the size of those before them (LLMTime; Gruver et al. 2023,
arXiv 2310.07820, section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction

from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text.base import SEP
from numjax.text.coded import Code
from numjax.text.scaled import ScaledScheme, limit_size, round_number
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Abilities

MINUS, END = "[-]", "[,]"
NONZERO, DIGITS = tuple("123456789"), tuple("0123456789")


class Scheme(ScaledScheme):
    """x is the whole number nearest to x / s · 10^precision, digit by digit, and an end: 1.23 is 1 2 3 [,].

    s is the quantile of the absolute values of given numbers, 1 without them or if it is 0; so most given numbers are
    at most 1, and all have as many digits behind the point, which need not be written. A number of more than
    `digits` digits is the largest that has as many. Without a scale, numbers of `precision` decimals come back
    exactly. NaN and infinities are words of the text, or refused as numbers.

    LLMTime takes digits off a float one by one, which cuts off what remains and can miss the last one: 1.23 becomes
    1 2 2 and 0.29 becomes 2 8. It then adds half a unit of the last digit, so that 2 8 is 0.285. Here the arithmetic
    is exact, and numbers are rounded, ties to even; `as_published` does as LLMTime does. LLMTime's scaler can also
    shift a series, which this layout does not do.
    """

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        precision: int = 3,
        quantile: float = 0.95,
        digits: int = 12,
        as_published: bool = False,
        until: str = SEP,
    ):
        """
        Args:
          precision: digits behind the point that is left out.
          quantile: the share of given numbers that s is not smaller than; 1: the largest.
          digits: most digits of a code.
          as_published: see above.
          until: the numbers before this mark set the scale; "": s is always 1.

        Raises:
          UsageError: an option is out of range.
        """
        if not 0 <= precision <= digits or not 1 <= digits <= 100:
            raise UsageError("rescaled: digits must be from 1 to 100, and precision from 0 to digits")
        if not 0 < quantile <= 1:
            raise UsageError(f"rescaled: quantile must be above 0 and at most 1, not {quantile}")
        self.precision, self.quantile, self.digits = precision, Fraction(str(quantile)), digits
        self.as_published = as_published
        self.moves, self.complete = self._make_moves(), ("whole",)
        super().__init__(vocab, rules, pad_multiple, until)

    def _make_moves(self) -> Mapping[str, Mapping[Code, str]]:
        ends: dict[Code, str] = {(END,): "whole"}
        moves: dict[str, Mapping[Code, str]] = {
            "number": {(MINUS,): "signed", NONZERO: "digit 1", ("0",): f"digit {self.digits}"},
            "signed": {NONZERO: "digit 1"} | ({("0",): f"digit {self.digits}"} if self.as_published else {}),
        }
        for count in range(1, self.digits + 1):
            moves[f"digit {count}"] = ends | ({DIGITS: f"digit {count + 1}"} if count < self.digits else {})
        return moves

    def abilities(self) -> Abilities:
        """As published, not even 0 comes back."""
        return super().abilities()._replace(exact=not self.as_published)

    def find_scale(self, sizes: Sequence[Fraction]) -> Fraction:
        """The quantile, between two numbers as far as it is between their ranks."""
        ordered = sorted(sizes)
        rank = self.quantile * (len(ordered) - 1)
        low = ordered[math.floor(rank)]
        return low + (rank - math.floor(rank)) * (ordered[math.ceil(rank)] - low)

    def write_value(self, value: Decimal) -> Code:
        quotient = limit_size(value) / self.scale
        size = abs(quotient) * 10**self.precision
        largest = 10**self.digits - 1
        if size >= largest:
            number = largest
        else:
            number = self._cut_float(float(abs(quotient))) if self.as_published else round(size)
        is_negative = quotient < 0 and (number > 0 or self.as_published)
        return (*((MINUS,) if is_negative else ()), *str(number), END)

    def _cut_float(self, size: float) -> int:
        """The digits that are taken off a float, the highest first."""
        number = 0
        for power in range(self.digits - self.precision - 1, -self.precision - 1, -1):
            unit = 10.0**power
            digit = min(int(size / unit), 9)
            number, size = 10 * number + digit, size - digit * unit
        return number

    def read_value(self, code: Sequence[str]) -> Decimal:
        is_negative = code[0] == MINUS
        number = Fraction(int("".join(code[is_negative:-1])))
        if self.as_published:
            number += Fraction(1, 2)
        return round_number((-number if is_negative else number) / 10**self.precision * self.scale, self.digits + 1)
