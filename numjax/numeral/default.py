"""The default rules: numerals as people write them in English text.

| text | numerals | why |
|---|---|---|
| `-5` `+5` `−5` | −5, 5, −5 | a sign that follows no word, number, point, closing bracket or sign |
| `10-20` `10–20` `5%-6%` `5€-6€` `10°-20°` | 10, 20; 5%, 6%; 5, 6; 10, 20 | between numbers a hyphen is a range |
| `1990 -1995` `(3,-4)` | 1990, −1995; 3, −4 | after a space or a comma it is a sign |
| `COVID-19` `x-5` | 19; 5 | after a word it is a hyphen |
| `--5` `+-5` `- 5` | 5 | two signs, or one apart, sign nothing |
| `1,234,567` `1234,5678` | one; two | commas count only between groups of three |
| `1,234,56` `1,2,3` `0,123` | 1234, 56; 1, 2, 3; 123 | a list, where the groups end |
| `1 000` `1_000` `1'000` | 1, 0 | no other mark groups digits |
| `1,234.` | 1234 | a full stop is not part of it |
| `.5` `007` `2.50` | 0.5, 7, 2.50 | the surface keeps its zeros |
| `50%` `50 %` | 0.50; 50 | the sign must touch the number |
| `1e5%` `50%3D` | 1e5; 50%, 3 | no percent after an exponent; `%` needs nothing behind it |
| `1.5e-9` `2E5` `1.5e−9` | scientific | when the number follows no word and the exponent ends at one |
| `0x12BF` `H2O` | 0, 12; 2 | digits inside words are found, one run at a time |
| `$-5` `-$5` `€5` | −5, −5, 5 | the span reaches over a currency sign only between a sign and its number |
| `US$-5` `-US$5` `$ -5` | −5, 5, −5 | letters are a word, and only a sign touching its number counts |
| `(1,746)` `($5)` `($.05)` | −1746, −5, −0.05 | accounting: around a grouped or a currency amount, not after a word |
| `$(9.8)` `US$(0.02)` | −9.8, −0.02 | the same, from the currency sign on |
| `$(2)$` `$(2)^3$` | 2; 2, 3 | a formula |
| `(2019)` `f(1,746)` | 2019; 1746 | anything else in parentheses is what it is |
| `2019/05/31` `05-31-2019` `10:30` | their parts | without invented signs |
| `1.2.3` `10.0.0.1` | their parts | two points make no decimal |
| `1e999999999` | one number | its exponent has up to 17 digits; more make it parts |
| `nan` `inf` | none | they are words |
| `٣` `３` `½` `²` | none | other digits than 0–9 stay text |
"""

from __future__ import annotations

import re
from decimal import Decimal

from numjax.numeral.surface import CURRENCY, MINUS, value_of
from numjax.types import Span

_GROUPED = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])"
_INTEGER = rf"(?:{_GROUPED}|[0-9]+)"
_POINT = r"\.[0-9]+(?![0-9]|\.[0-9])"
# After "5€", "10°", "5'" or a closing quote a hyphen is a range too.
_SIGN = rf"(?<![{MINUS}\w.)\]}}%+°’”])(?<![0-9][{CURRENCY}'\"′″])[{MINUS}+]"
_PATTERN = re.compile(
    rf"[{CURRENCY}]\((?:{_INTEGER}(?:{_POINT})?|{_POINT})\)(?![\w$^])"
    rf"|(?<!\w)\((?:[{CURRENCY}](?:{_INTEGER}(?:{_POINT})?|{_POINT})|{_GROUPED}(?:{_POINT})?%?)\)"
    rf"|(?:{_SIGN}[{CURRENCY}]?)?"
    rf"(?:(?<![\w.])(?:(?:{_INTEGER}(?:\.[0-9]+)?|\.[0-9]+)[eE][{MINUS}+]?[0-9]{{1,17}}(?!\w|\.[0-9]))"
    rf"|(?<![0-9]\.){_INTEGER}{_POINT}%?"
    rf"|(?<![\w.]){_POINT}%?"
    rf"|{_INTEGER}%?)"
)
_DIGIT = re.compile("[0-9]")
_BEFORE = f"(+{MINUS}.{CURRENCY}"
# The most that stands before a numeral's first digit: parenthesis or sign, currency, point.
_LONGEST_LEAD = 3


def find(text: str) -> list[Span]:
    """The numerals of a text; see the table above."""
    out = []
    # Trying the pattern only where a digit is near is ten times faster than letting it search.
    search, match, end = _DIGIT.search, _PATTERN.match, 0
    while digit := search(text, end):
        start = digit.start()
        earliest = max(end, start - _LONGEST_LEAD)
        while start > earliest and text[start - 1] in _BEFORE:
            start -= 1
        while not (numeral := match(text, start)):
            start += 1  # at the digit itself the pattern always matches
        surface, end = numeral[0], numeral.end()
        value = value_of(surface) if surface.strip("0123456789.") else Decimal(surface)
        out.append(Span(numeral.start(), end, surface, value))
    return out
