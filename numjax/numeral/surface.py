"""The surface of a numeral, taken apart: "-$1,234.50", "50%", "(1,746)", "1.5e-9".

    surface = [sign] [currency] body  |  "(" [currency] body ")"  |  currency "(" body ")"
              the second with a currency or commas
    body    = [whole] ["." fraction] [("e" | "E") [sign] power] ["%"]   with a whole or a fraction

A value is made from its digits as a string, never by arithmetic: Decimal's operators round to the context's
precision, its constructor does not. A power stays a power; it is never expanded.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from numjax.errors import UsageError

MINUS = "-\u2212"  # first in a character class, where its hyphen is no range
CURRENCY = "$€£¥₹₩₽¢"

_SURFACE = re.compile(
    rf"(?P<head>[{MINUS}+]?[{CURRENCY}]?|\([{CURRENCY}]?|[{CURRENCY}]\()"
    r"(?P<whole>[0-9]{1,3}(?:,[0-9]{3})+|[0-9]*)"
    r"(?:\.(?P<fraction>[0-9]+))?"
    rf"(?P<exponent>(?:[eE][{MINUS}+]?[0-9]{{1,18}})?)"
    r"(?P<percent>%?)"
    r"(?P<tail>\)?)"
)


class Surface(NamedTuple):
    """The parts of a numeral as written, each an empty string where absent (see the module's grammar)."""

    head: str
    whole: str
    fraction: str
    exponent: str
    percent: str
    tail: str

    @property
    def value(self) -> Decimal:
        """Exact, with the places as written: "50%" is 0.50, "1,234.50" is 1234.50, "-0" keeps its sign."""
        sign = "-" if any(mark in self.head for mark in "(" + MINUS) else ""
        power = int(self.exponent[1:].replace("\u2212", "-") or 0) - 2 * len(self.percent)
        return Decimal(f"{sign}{self.whole.replace(',', '')}.{self.fraction}e{power}")


def take_apart(surface: str) -> Surface | None:
    """The parts of a numeral written in digits; None where the text is anything else."""
    match = _SURFACE.fullmatch(surface)
    if match is None or not (match["whole"] or match["fraction"]):
        return None
    parts = Surface(*match.groups(""))
    if parts.tail or "(" in parts.head:
        # Parentheses around anything but an amount mean nothing: "(2019)" is 2019, not −2019.
        amount = len(parts.head) > 1 or "," in parts.whole
        if not (parts.tail and "(" in parts.head and amount):
            return None
    return parts


def value_of(surface: str) -> Decimal:
    """The exact value of one numeral in digits, with signs, commas, currency, accounting parentheses, percent
    ("50%" is 0.50) or an exponent.

    Raises:
      UsageError: the text is anything else.
    """
    parts = take_apart(surface)
    try:
        if parts is not None:
            return parts.value
    except ArithmeticError:
        raise UsageError(f"{_quote(surface)} is out of range: an exponent has at most 17 digits") from None
    raise UsageError(f"{_quote(surface)} is not a numeral: one number, in digits or in words, and nothing around it")


def _quote(surface: str) -> str:
    return repr(surface if len(surface) <= 40 else surface[:39] + "…")


def shift(value: Decimal, places: int) -> Decimal:
    """value · 10^places, exactly, with all digits kept."""
    sign, digits, exponent = value.as_tuple()
    return Decimal((sign, digits, int(exponent) + places))


def format_plain(value: Decimal, max_digits: int = 40) -> str:
    """A decimal string with every digit of the number, and with its places ("0.50") while it has no more than
    `max_digits` digits; a longer one loses the zeros at its end and is scientific if that is not enough.
    """
    text = str(value)
    if len(text) <= max_digits and "E" not in text:
        return text
    if _count_digits(value) <= max_digits:
        return f"{value:f}"
    sign, digits, exponent = value.as_tuple()
    significant = "".join(map(str, digits)).rstrip("0")
    if not significant:
        return "-0" if sign else "0"
    short = Decimal(f"{'-' * sign}{significant}e{int(exponent) + len(digits) - len(significant)}")
    return f"{short:f}" if _count_digits(short) <= max_digits else f"{short:E}"


def format_trimmed(value: Decimal) -> str:
    """`format_plain` without zeros at the end of a fraction, and zero without a sign: 273.0 is "273"."""
    digits, e, power = format_plain(value if value else Decimal(0)).partition("E")
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + e + power


def _count_digits(value: Decimal) -> int:
    """Digits of the number without an exponent."""
    _, digits, exponent = value.as_tuple()
    return max(len(digits) + max(int(exponent), 0), 1 - int(exponent))
