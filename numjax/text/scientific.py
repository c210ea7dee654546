"""A number as a sign, a few significant digits and an exponent, each a symbol (Charton 2022, arXiv 2112.01898,
section 3; Golkar et al. 2023, arXiv 2310.02989; RegressLM's P10 and IEEE tokenizers, Akhauri et al. 2025)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple

from numjax.errors import UsageError
from numjax.numeral.surface import shift
from numjax.protocols import FromContext
from numjax.text.coded import Code, CodedScheme
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Abilities, NumberRange

FORMS = ("digits", "mantissa", "signed", "number")
ROUNDINGS = ("half_even", "half_up", "down")
PLUS, MINUS = "[+]", "[-]"
NUMERALS = "0123456789abcdefghijklmnopqrstuvwxyz"
MOST_SYMBOLS = 1_000_000
MOST_DIGITS = 4000  # decimal ones: Python reads no whole number of more than 4,300


class Scientific(NamedTuple):
    """±mantissa · base^exponent; the mantissa is an integer of exactly `digits` digits, or 0."""

    negative: bool
    mantissa: int
    exponent: int


class Scheme(CodedScheme):
    """±m · b^E with an integer m of a few digits.

    A number of more digits becomes the nearest that there is, one that is too large the largest, one that is too
    small the smallest or 0, whichever is nearer. 0 has exponent 0 (or the nearest to 0 in range), and −0 its sign.
    With `subnormals` the mantissas of the least exponent may be smaller, so that small numbers lose their digits one
    by one, as in binary floating point.

    | published as | options |
    |---|---|
    | P10, P1000, B1999 (Charton) | `form` = digits, mantissa, signed |
    | FP15 (Charton) | form=number, least=−9, most=6, subnormals=True |
    | RegressLM's P10 | digits=4, least=−10, most=10 |
    | RegressLM's IEEE, which cuts digits off | digits=4, exponent=before, rounding=down |
    """

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        form: str = "digits",
        digits: int = 3,
        base: int = 10,
        least: int = -12,
        most: int = 12,
        exponent: str = "behind",
        rounding: str = "half_even",
        subnormals: bool = False,
    ):
        """
        Args:
          form: "digits": the sign, each digit and the exponent are symbols. "mantissa": the sign, all digits as
            one, the exponent. "signed": sign and digits as one, the exponent. "number": one symbol for all.
          digits: of the mantissa. base: of digits and exponent; a multiple of 2 or 5 and of no other prime.
          least, most: the range of the exponent E of the integer mantissa.
          exponent: "behind": one symbol behind the digits. "before": the exponent of the first digit, its sign and
            digits as symbols between sign and digits, as IEEE numbers have it; only with form=digits.
          rounding: "half_even", "half_up" or "down" (cut off).
          subnormals: mantissas of fewer digits at the least exponent; only with form=number.

        Raises:
          UsageError: an option is out of range.
        """
        for name, value, choices in (
            ("form", form, FORMS),
            ("exponent", exponent, ("behind", "before")),
            ("rounding", rounding, ROUNDINGS),
        ):
            if value not in choices:
                raise UsageError(f"scientific: {name} must be one of {', '.join(choices)}, not {value!r}")
        if exponent == "before" and form != "digits":
            raise UsageError("scientific: exponent=before spells it in digits: set form=digits")
        if base != 10 and form != "digits":
            raise UsageError("scientific: symbols of several digits are decimal: set base=10 or form=digits")
        if subnormals and form != "number":
            raise UsageError("scientific: subnormals would change how many symbols a number has: set form=number")
        if subnormals and least > 0:
            raise UsageError(f"scientific: subnormals hold all whole numbers only with least=0 or below, not {least}")
        if digits < 1 or least > most:
            raise UsageError("scientific: digits must be at least 1, and least not above most")
        if not 2 <= base <= len(NUMERALS) or not _has_finite_decimals(base):
            raise UsageError(f"scientific: base must be 2, 4, 5, 8, 10, 16, 20, 25 or 32, not {base}")
        if digits * math.log10(base) > MOST_DIGITS:
            raise UsageError(f"scientific: {digits} digits are more than {MOST_DIGITS:,} decimal ones: take fewer")
        self.form, self.digits, self.base, self.rounding = form, digits, base, rounding
        self.least, self.most, self.has_exponent_first = least, most, exponent == "before"
        self.subnormals = subnormals
        # The exponent of the first digit, and how many digits it needs.
        self._first_exponents = range(least + digits - 1, most + digits)
        largest = max(abs(self._first_exponents[0]), abs(self._first_exponents[-1]))
        self._exponent_digits = len(_spell(largest, base))
        n_exponents = most - least + 1
        n_variants = {"digits": 0, "mantissa": 1, "signed": 2, "number": 2 * n_exponents}[form]
        if base**digits * n_variants + n_exponents > MOST_SYMBOLS:
            raise UsageError(
                f"scientific: more than {MOST_SYMBOLS:,} symbols: take fewer digits or exponents, or form=digits"
            )
        self.moves, self.complete = self._make_moves()
        super().__init__(vocab, rules, pad_multiple)

    def abilities(self) -> Abilities:
        """With a base other than 10 it claims whole numbers alone: only some fractions come back."""
        if self.base == 10:
            low, high = self._first_exponents[0], self._first_exponents[-1]
            low = self.least if self.subnormals else low
            places = -self.least if self.subnormals else None
            numbers = NumberRange(digits=self.digits, places=places, low=low, high=high)
        else:
            has_wholes = self.least <= 1 - self.digits and self.most >= 0
            n_digits = len(str(self.base**self.digits)) - 1 if has_wholes else 0
            numbers = NumberRange(digits=n_digits, places=0, high=n_digits - 1)
        return Abilities(numbers, numbers)

    def write_value(self, value: Decimal) -> Code:
        number = self.round_value(value)
        sign, mantissa = MINUS if number.negative else PLUS, _spell(number.mantissa, self.base).zfill(self.digits)
        exponent = f"[e{number.exponent}]"
        if self.form == "digits" and self.has_exponent_first:
            first = number.exponent + self.digits - 1 if number.mantissa else 0
            return (sign, *self._spell_power(first), *mantissa)
        if self.form == "digits":
            return (sign, *mantissa, exponent)
        if self.form == "mantissa":
            return (sign, mantissa, exponent)
        if self.form == "signed":
            return (f"[{sign[1]}{mantissa}]", exponent)
        return (f"[{sign[1]}{mantissa}e{number.exponent}]",)

    def read_value(self, code: Sequence[str]) -> Decimal:
        text = "".join(name.strip("[]") for name in code)
        sign, rest = text[0], text[1:]
        if self.has_exponent_first:
            mantissa = rest[-self.digits :]
            power = int(rest[2 : -self.digits], self.base)
            exponent = (-power if rest[1] == "-" else power) - self.digits + 1
        else:
            # With a base above 14, "e" is a digit too.
            mantissa, exponent = rest[: self.digits], int(rest[self.digits + 1 :])
        return _to_decimal(Scientific(sign == "-", int(mantissa, self.base), exponent), self.base)

    def round_value(self, value: Decimal) -> Scientific:
        """The nearest of the numbers that the code has."""
        negative = value.is_signed()
        zero = Scientific(negative, 0, min(max(0, self.least), self.most))
        # A power of ten far out of range is not expanded.
        decades = (max(abs(self.least), abs(self.most)) + self.digits + 1) * math.log10(self.base)
        if not value or value.adjusted() < -decades - 1:
            return zero
        if value.adjusted() > decades + 1:
            return Scientific(negative, self.base**self.digits - 1, self.most)
        size = abs(Fraction(value))
        exponent = _find_exponent(size, self.base) - self.digits + 1
        mantissa = self._round(size / Fraction(self.base) ** exponent)
        if mantissa == self.base**self.digits:  # rounded up into a new digit
            mantissa, exponent = mantissa // self.base, exponent + 1
        if exponent > self.most:
            return Scientific(negative, self.base**self.digits - 1, self.most)
        if exponent < self.least and self.subnormals:
            mantissa = self._round(size / Fraction(self.base) ** self.least)
            return Scientific(negative, mantissa, self.least) if mantissa else zero
        if exponent < self.least:
            smallest = self.base ** (self.digits - 1)
            share = size / (smallest * Fraction(self.base) ** self.least)
            rounds_up = {"half_even": share > Fraction(1, 2), "half_up": share >= Fraction(1, 2)}.get(self.rounding)
            return Scientific(negative, smallest, self.least) if rounds_up else zero
        return Scientific(negative, mantissa, exponent)

    def _round(self, size: Fraction) -> int:
        if self.rounding == "half_even":
            return round(size)
        return int(size + Fraction(1, 2)) if self.rounding == "half_up" else int(size)

    def _make_moves(self) -> tuple[Mapping[str, Mapping[Code, str]], tuple[str, ...]]:
        numerals, lead = tuple(NUMERALS[: self.base]), tuple(NUMERALS[1 : self.base])
        signs = {(PLUS, MINUS): "signed"}
        powers = tuple(f"[e{e}]" for e in range(self.least, self.most + 1))
        zero_power = (f"[e{min(max(0, self.least), self.most)}]",)
        if self.form == "digits":
            ends = (f"digit {self.digits}", f"zero {self.digits}") if self.has_exponent_first else ("whole",)
            return self._make_digit_moves(numerals, lead, signs, powers, zero_power), ends
        spelled = [_spell(m, self.base) for m in range(self.base ** (self.digits - 1), self.base**self.digits)]
        zeros = "0" * self.digits
        if self.form == "mantissa":
            moves = {"number": signs, "signed": {tuple(spelled): "digits", (zeros,): "zero"}}
        elif self.form == "signed":
            signed = tuple(f"[{sign}{m}]" for sign in "+-" for m in spelled)
            moves = {"number": {signed: "digits", (f"[+{zeros}]", f"[-{zeros}]"): "zero"}}
        else:
            names = [f"[{sign}{m}e{e[2:-1]}]" for sign in "+-" for m in spelled for e in powers]
            names += [f"[{sign}{zeros}e{zero_power[0][2:-1]}]" for sign in "+-"]
            smaller = range(1, self.base ** (self.digits - 1)) if self.subnormals else ()
            names += [f"[{sign}{m:0{self.digits}}e{self.least}]" for sign in "+-" for m in smaller]
            return {"number": {tuple(names): "whole"}}, ("whole",)
        return moves | {"digits": {powers: "whole"}, "zero": {zero_power: "whole"}}, ("whole",)

    def _make_digit_moves(
        self, numerals: Code, lead: Code, signs: Mapping[Code, str], powers: Code, zero_power: Code
    ) -> Mapping[str, Mapping[Code, str]]:
        """From "number" to the last digit, or over an exponent to "whole"; the digits of 0 have states of their own,
        since its exponent is fixed."""
        moves: dict[str, dict[Code, str]] = {"number": dict(signs)}
        entry = zero_entry = "signed"
        if self.has_exponent_first:
            moves |= self._make_power_moves()
            entry, zero_entry = "power", "power 0"
            if 0 in self._first_exponents:
                moves[zero_entry] = {lead: "digit 1"}
        moves.setdefault(entry, {})[lead] = "digit 1"
        moves.setdefault(zero_entry, {})[("0",)] = "zero 1"
        for kind, group in (("digit", numerals), ("zero", ("0",))):
            for i in range(1, self.digits):
                moves[f"{kind} {i}"] = {group: f"{kind} {i + 1}"}
        if not self.has_exponent_first:
            moves[f"digit {self.digits}"] = {powers: "whole"}
            moves[f"zero {self.digits}"] = {zero_power: "whole"}
        return moves

    def _make_power_moves(self) -> dict[str, dict[Code, str]]:
        """From "signed" over the exponent's sign and digits to "power", or to "power 0" for exponent 0."""
        moves: dict[str, dict[Code, str]] = {}
        for exponent in sorted({0, *self._first_exponents}):
            path = self._spell_power(exponent)
            state = "signed"
            for i, name in enumerate(path, 1):
                to = f"power {' '.join(path[:i])}"
                if i == len(path):
                    to = "power" if exponent else "power 0"
                moves.setdefault(state, {})[(name,)] = to
                state = to
        return moves

    def _spell_power(self, exponent: int) -> Code:
        digits = _spell(abs(exponent), self.base).zfill(self._exponent_digits)
        return ("[e-]" if exponent < 0 else "[e+]", *digits)


def _has_finite_decimals(base: int) -> bool:
    for prime in (2, 5):
        while base % prime == 0:
            base //= prime
    return base == 1


def _spell(number: int, base: int) -> str:
    """A whole number in digits of a base."""
    text = ""
    while number or not text:
        number, digit = divmod(number, base)
        text = NUMERALS[digit] + text
    return text


def _find_exponent(size: Fraction, base: int) -> int:
    """The largest e with base^e ≤ size."""
    bits = size.numerator.bit_length() - size.denominator.bit_length()
    exponent = round(bits / math.log2(base))  # a guess
    while Fraction(base) ** exponent > size:
        exponent -= 1
    while Fraction(base) ** (exponent + 1) <= size:
        exponent += 1
    return exponent


def _to_decimal(number: Scientific, base: int) -> Decimal:
    """The exact value; base^E is a finite decimal."""
    size = number.mantissa * Fraction(base) ** number.exponent
    places = 0
    while size.denominator != 1:
        size, places = size * 10, places + 1
    value = shift(Decimal(size.numerator), -places)  # Python writes no int of more than 4,300 digits
    return value.copy_negate() if number.negative else value
