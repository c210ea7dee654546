"""The default rules and English number words ("twenty-five", "two hundred and five"), read by text2num."""

from __future__ import annotations

import re
from decimal import Decimal

import text_to_num

from numjax.numeral import default
from numjax.types import Span

_TOKEN = re.compile(r"[A-Za-z]+(?:[-'][A-Za-z]+)*|\s+|.", re.DOTALL)


class _Word:
    """A token as text2num wants it."""

    __slots__ = ("_text",)

    def __init__(self, text: str):
        self._text = text

    def text(self) -> str:
        return self._text

    def nt_separated(self, previous: object) -> bool:
        return False

    def not_a_number_part(self) -> bool:
        # Digits are the default rules' business, alone.
        return not (self._text.isspace() or self._text[0].isalpha() or self._text in ".,")


def find(text: str) -> list[Span]:
    """Numerals in digits and cardinal numbers in words, in order; ordinals ("second") stay text."""
    found = list(_TOKEN.finditer(text))
    tokens = [_Word(m[0]) for m in found]
    written = default.find(text)
    taken = [(span.start, span.end) for span in written]
    for occurrence in text_to_num.find_numbers(tokens, "en", 0.0):
        start, end = found[occurrence.start].start(), found[occurrence.end - 1].end()
        surface = text[start:end]
        if occurrence.is_ordinal or not surface[0].isalpha() or any(s < end and start < e for s, e in taken):
            continue
        # The library spells the value with digits: a float would not be exact.
        written.append(Span(start, end, surface, Decimal(occurrence.text)))
    return sorted(written)
