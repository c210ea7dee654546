"""The default rules, and table cells as accountants write them. A cell's rules hold only for a whole text.

| the whole text | numerals | why |
|---|---|---|
| `(134)` `(0.6)` `( 35 )` | −134, −0.6, −35 | parentheses around a number alone are a minus |
| `$ (0.66)` `( $5 )` | −0.66, −5 | blanks beside a currency sign |
| `(6)%` `(6%)` `(1.5 %)` | −6%, −6%, −1.5% | and the percentage is the number's, inside or outside |
| `12 %` `-12 %` | 12%, −12% | a blank parts them in a column of its own |
| `(2019)` `(1907)` | 2019, 1907 | a year; amounts from a thousand on are grouped |
| `loss of (134)` `f(5)` `50 % of` | 134, 5, 50 | anything else is read as by default |
"""

from __future__ import annotations

import re

from numjax.numeral import default
from numjax.numeral.surface import CURRENCY, MINUS, take_apart
from numjax.types import Span

_SIGN = rf"(?:[A-Z]{{0,3}}[{CURRENCY}])?"  # $, US$
_CELL = re.compile(
    rf"\s*(?:{_SIGN}\s*(?P<open>\()\s*{_SIGN}\s*(?P<inside>[0-9.,]+)\s*(?P<percent>%?)\s*\)\s*(?P<outside>%?)|"
    rf"(?P<sign>[{MINUS}+]?)(?P<plain>[0-9.,]+)\s+%)\s*"
)
_YEAR = re.compile(r"(?:19|20)[0-9]{2}")
_LONGEST = 64  # no cell with one amount is longer; running text is not looked at twice


def find(text: str) -> list[Span]:
    """The numerals of a text; see the table above."""
    if text and len(text) <= _LONGEST and text.rstrip()[-1:] in (")", "%") and (match := _CELL.fullmatch(text)):
        body = match["inside"] or match["plain"]
        percent = bool(match["plain"] or match["percent"] or match["outside"])
        parts = take_apart(body)
        is_year = not percent and _YEAR.fullmatch(body)
        if parts is not None and not is_year and not (match["percent"] and match["outside"]):
            value = parts._replace(head="-" if match["open"] else match["sign"], percent="%" * percent).value
            start, end = len(text) - len(text.lstrip()), len(text.rstrip())
            return [Span(start, end, text[start:end], value)]
    return default.find(text)
