"""Decimal → text, in the style of a surface or plain; `parse_value` reads every result back exactly."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from numjax.numeral.exact import parse_value, plain, shift

_FORM = re.compile(
    r"(?P<open>\()?(?P<sign>[+\-\u2212])?(?P<currency>[$€£¥₹₩₽¢])?(?P<inner>-)?"
    r"(?P<whole>[0-9][0-9,]*)?(?:\.(?P<fraction>[0-9]+))?"
    r"(?:(?P<e>[eE])(?P<esign>[+\-\u2212])?(?P<exponent>[0-9]+))?(?P<percent>%)?(?P<close>\))?"
)


class Style(NamedTuple):
    """How a number is written.

    Attributes:
      minus: the sign of negative numbers, "-" or "−". plus: positive ones carry "+".
      accounting: negative ones stand in parentheses. currency: the sign before the digits, or "".
      grouped: commas between thousands. whole: least digits before the point (0: ".5"). fraction: least
        digits after it. percent: hundredths, with "%".
      exponent: "e" or "E" for scientific notation, else "". esign: a positive exponent's sign. ewidth: least
        digits of the exponent.
    """

    minus: str = "-"
    plus: bool = False
    accounting: bool = False
    currency: str = ""
    grouped: bool = False
    whole: int = 1
    fraction: int = 0
    percent: bool = False
    exponent: str = ""
    esign: str = ""
    ewidth: int = 1


PLAIN = Style()


def style_of(surface: str) -> Style:
    """The style of a numeral: `format(parse_value(surface), style_of(surface)) == surface`.

    Raises:
      ValueError: not a numeral.
    """
    found = _FORM.fullmatch(surface)
    if found is None or not (found["whole"] or found["fraction"]):
        raise ValueError(f"{surface[:40]!r} is not a numeral")
    whole = found["whole"] or ""
    return Style(
        minus="\u2212" if found["sign"] == "\u2212" else "-",
        plus=found["sign"] == "+",
        accounting=bool(found["open"]),
        currency=found["currency"] or "",
        grouped="," in whole,
        whole=len(whole.replace(",", "")),
        fraction=len(found["fraction"] or ""),
        percent=bool(found["percent"]),
        exponent=found["e"] or "",
        esign=found["esign"] or "",
        ewidth=len(found["exponent"] or "1"),
    )


def format(value: Decimal, style: Style = PLAIN) -> str:
    """A finite number in a style, with every digit it has: more than the style's where it needs them.

    PLAIN writes no exponent up to 40 digits and is scientific beyond. What a style cannot say (accounting
    parentheses without commas or currency mean nothing) is written with a sign.

    Raises:
      ValueError: not a finite number.
    """
    if not value.is_finite():
        raise ValueError(f"{value} is not a finite number")
    if style == PLAIN:
        return plain(value)
    negative = value.is_signed()
    size = abs_exact(value)
    if style.exponent:
        return _sign(negative, style) + style.currency + _scientific(size, style)
    if style.percent:
        size = shift(size, 2)
    if (size.adjusted() if size else 0) > 40 + style.whole or int(size.as_tuple().exponent) < -(60 + style.fraction):
        return plain(value)
    whole, fraction = _split(size)
    fraction = fraction.rstrip("0").ljust(style.fraction, "0")
    whole = whole.lstrip("0").rjust(style.whole, "0")
    if not whole and not fraction:
        whole = "0"
    body = _grouped(whole) if style.grouped and len(whole) > 3 else whole
    body += f".{fraction}" if fraction else ""
    body += "%" if style.percent else ""
    if style.accounting and negative and (style.currency or "," in body):
        return f"({style.currency}{body})"
    return _sign(negative, style) + style.currency + body


def abs_exact(value: Decimal) -> Decimal:
    """|value| with all its digits; the built-in abs rounds."""
    return value.copy_abs()


def _sign(negative: bool, style: Style) -> str:
    return style.minus if negative else "+" if style.plus else ""


def _split(size: Decimal) -> tuple[str, str]:
    whole, _, fraction = f"{size:f}".partition(".")
    return whole, fraction


def _scientific(size: Decimal, style: Style) -> str:
    """Digits with the style's places before the point, the exponent whatever that makes of it."""
    _, digits, places = size.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        # A zero may carry any exponent: the surface's own is what remains of it.
        head, tail, exponent = "0" * style.whole, "0" * style.fraction, int(places) + style.fraction
    else:
        exponent = int(places) + style.fraction
        text = text.rjust(style.whole + style.fraction, "0")
        cut = len(text) - style.fraction
        head, tail = text[:cut], text[cut:]
        extra = len(head.lstrip("0")) - max(style.whole, 1)
        if len(head) > style.whole and extra > 0:
            head, tail, exponent = head[:-extra], head[-extra:] + tail, exponent + extra
            tail = tail.rstrip("0").ljust(style.fraction, "0")
    sign = "-" if exponent < 0 else style.esign.replace("\u2212", "").replace("-", "")
    if exponent < 0 and style.esign == "\u2212":
        sign = "\u2212"
    if exponent == 0 and style.esign in ("-", "\u2212"):
        sign = style.esign
    point = f".{tail}" if tail else ""
    return f"{head}{point}{style.exponent}{sign}{abs(exponent):0{style.ewidth}d}"


def _grouped(whole: str) -> str:
    first = len(whole) % 3 or 3
    return ",".join([whole[:first], *(whole[i : i + 3] for i in range(first, len(whole), 3))])


__all__ = ["PLAIN", "Style", "format", "parse_value", "style_of"]
