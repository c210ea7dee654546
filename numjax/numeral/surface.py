"""The surface of a numeral, taken apart: "-$1,234.50", "50%", "(1,746)", "1.5e-9".

    surface = [sign] [currency] body  |  "(" [currency] body ")"  |  currency "(" body ")"
              the second with a currency or commas
    body    = [whole] ["." fraction] [("e" | "E") [sign] power] ["%"]   with a whole or a fraction

A value is made from its digits as a string, never by arithmetic: Decimal's operators round to the context's
precision, its constructor does not. A power is carried along, never expanded.
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
    found = _SURFACE.fullmatch(surface)
    if found is None or not (found["whole"] or found["fraction"]):
        return None
    parts = Surface(*found.groups(""))
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
        raise UsageError(f"{_shown(surface)} is out of range: an exponent has at most 17 digits") from None
    raise UsageError(f"{_shown(surface)} is not a numeral: one number, in digits or in words, and nothing around it")


def _shown(surface: str) -> str:
    return repr(surface if len(surface) <= 40 else surface[:39] + "…")


def shift(value: Decimal, places: int) -> Decimal:
    """value · 10^places, exactly, with all digits kept."""
    sign, digits, exponent = value.as_tuple()
    return Decimal((sign, digits, int(exponent) + places))


def plain(value: Decimal, most: int = 40) -> str:
    """A decimal string with every digit of the number, and with its places ("0.50") while it has no more than
    `most` digits; a longer one loses the zeros at its end and is scientific if that is not enough.
    """
    text = str(value)
    if len(text) <= most and "E" not in text:
        return text
    if _length(value) <= most:
        return f"{value:f}"
    sign, digits, exponent = value.as_tuple()
    kept = "".join(map(str, digits)).rstrip("0")
    if not kept:
        return "-0" if sign else "0"
    short = Decimal(f"{'-' * sign}{kept}e{int(exponent) + len(digits) - len(kept)}")
    return f"{short:f}" if _length(short) <= most else f"{short:E}"


def trimmed(value: Decimal) -> str:
    """`plain` without zeros at the end of a fraction, and zero without a sign: 273.0 is "273"."""
    digits, e, power = plain(value if value else Decimal(0)).partition("E")
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + e + power


def _length(value: Decimal) -> int:
    """Digits of the number without an exponent."""
    _, digits, exponent = value.as_tuple()
    return max(len(digits) + max(int(exponent), 0), 1 - int(exponent))
