"""Decimal → text: `format(parse_value(s), style_of(s)) == s`, and `parse_value(format(v, style)) == v`.

A style never rounds: it says how signs, groups, zeros, exponents and percent are written, and a number that
has more digits than the style's numeral keeps them. A style leaves out what it cannot express for a number: in the
style of "(1,746)", −5 is "-5", because "(5)" would be read as 5.
"""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from numjax.errors import UsageError
from numjax.numeral.surface import MINUS, format_plain, take_apart, value_of


class Style(NamedTuple):
    """How a number is written.

    Attributes:
      minus: the sign of negative numbers, "-" or "−". plus: positive ones carry "+".
      accounting: negative amounts stand in parentheses. currency: the sign before the digits, or "".
      outside: it stands before the parentheses: "$(5)".
      grouped: commas between thousands. whole: least digits before the point (0: ".5"). fraction: least
        digits after it. percent: hundredths, with "%".
      exponent: as written ("e-09"), or "". point: power of ten of the mantissa's first significant digit.
      digits: longest number without an exponent; PLAIN is scientific beyond 40 digits.
      words: English words, for the number that they spell; others are PLAIN.
    """

    minus: str = "-"
    plus: bool = False
    accounting: bool = False
    currency: str = ""
    outside: bool = False
    grouped: bool = False
    whole: int = 1
    fraction: int = 0
    percent: bool = False
    exponent: str = ""
    point: int = 0
    digits: int = 40
    words: str = ""


PLAIN = Style()


def parse_value(surface: str) -> Decimal:
    """The exact value of one numeral on its own, in digits (see `surface.value_of`) or in English words; not of a
    cell of a table, as `accounting` reads it.

    Raises:
      UsageError: the text is anything else, or more than one numeral.
    """
    if surface[-1:].isalpha():
        # Imported here, so that reading digits does not load the library of number words.
        from numjax.numeral import words

        spans = words.find(surface)
        if len(spans) == 1 and spans[0].text == surface:
            return spans[0].value
    return value_of(surface)


def style_of(surface: str) -> Style:
    """The style of one numeral.

    Raises:
      UsageError: not a numeral.
    """
    parts = take_apart(surface)
    if parts is None:
        parse_value(surface)
        return Style(words=surface)
    whole, fraction = parts.whole.replace(",", ""), parts.fraction
    significant = (whole + fraction).lstrip("0")
    return Style(
        minus="\u2212" if parts.head[:1] == "\u2212" else "-",
        plus=parts.head[:1] == "+",
        accounting="(" in parts.head,
        currency=parts.head.strip("(+" + MINUS),
        outside=parts.head[1:] == "(",
        grouped="," in parts.whole,
        whole=len(whole) if whole[:1] == "0" else min(len(whole), 1),
        fraction=len(fraction),
        percent=bool(parts.percent),
        exponent=parts.exponent,
        point=len(significant) - 1 - len(fraction),
        digits=max(PLAIN.digits, len(whole) + len(fraction)),
    )


def format(value: Decimal, style: Style = PLAIN) -> str:
    """A finite number in a style, with every digit it has.

    Raises:
      UsageError: not a finite number.
    """
    if not value.is_finite():
        raise UsageError(f"{value} cannot be written: it is not a finite number")
    if style.words:
        word_value = parse_value(style.words)
        style = style if word_value == value and word_value.is_signed() == value.is_signed() else PLAIN
    if style.words:
        return style.words
    if style == PLAIN:
        return format_plain(value)
    negative, digit_values, power = value.as_tuple()
    digits = "".join(map(str, digit_values)).lstrip("0")
    power = int(power) + 2 * style.percent
    if style.exponent:
        body = _format_scientific(digits, power, style)
    else:
        # The places that the value has beyond the style's are kept only where they are not zeros.
        while digits and digits[-1] == "0" and power < -style.fraction:
            digits, power = digits[:-1], power + 1
        if max(len(digits) + power, 0) + max(-power, 0) > style.digits and digits:
            return format_plain(value)
        body = _format_positional(digits, power, style)
    body += "%" * style.percent
    if negative and style.accounting and (style.currency or "," in body):
        return f"{style.currency}({body})" if style.outside else f"({style.currency}{body})"
    return (style.minus if negative else "+" * style.plus) + style.currency + body


def _format_positional(digits: str, power: int, style: Style) -> str:
    """digits · 10^power (zero: no digits) without an exponent, with the style's zeros and commas."""
    if not digits:
        power = 0
    if power >= 0:
        whole, fraction = digits + "0" * power, ""
    else:
        whole, fraction = digits[:power], digits[power:].rjust(-power, "0")
    whole = whole.rjust(style.whole, "0")
    fraction = fraction.ljust(style.fraction, "0")
    if not whole and not fraction:
        whole = "0"
    if style.grouped:
        first = len(whole) % 3 or 3
        whole = ",".join([whole[:first], *(whole[i : i + 3] for i in range(first, len(whole), 3))])
    return f"{whole}.{fraction}" if fraction else whole


def _format_scientific(digits: str, power: int, style: Style) -> str:
    """Mantissa and exponent, the point as far from the first significant digit as the style says."""
    letter, literal = style.exponent[0], style.exponent[1:]
    width = literal.lstrip("+" + MINUS)
    style_exponent = int(literal.replace("\u2212", "-"))
    # A zero may carry any exponent: the style's own is kept.
    exponent = len(digits) - 1 + power - style.point if digits else style_exponent
    mantissa = _format_positional(digits, power - exponent, style)
    if exponent == style_exponent:
        return mantissa + style.exponent
    minus = "\u2212" if literal[0] == "\u2212" else "-"
    sign = minus if exponent < 0 else "+" if literal[0] == "+" else ""
    return mantissa + letter + sign + str(abs(exponent)).rjust(len(width) if width[0] == "0" else 1, "0")
