"""LUNA's NumTok (Han et al. 2022, section 3.1), with what it loses; `default` is the corrected form.

Runs of `0123456789+-,.%` with a digit are read whole, or split at the first separator that leaves nothing but
numerals; a run that no separator splits is lost.

| text | numerals | why |
|---|---|---|
| `1.76%-2.50%` `2019-2020` | 1.76%, 2.50%; 2019, 2020 | a hyphen in a run is a range |
| `+1000% -50` `USD -100` | +1000%, −50; −100 | a sign after a blank is a sign |
| `$-1000` `-$100` `F-1` `=-5` `--5` `- 5` `−5` | 1000, 100, 1, 5, 5, 5, 5 | anywhere else it is lost |
| `(1,746)` | 1,746 | parentheses mean nothing |
| `+-10` | −10 | at the start of a line: signs are separators too |
| `2019/05/31` `10:30` `05-31-2019` `1.2.3` | their parts | |
| `1234,5678` `1,234.` | 1234, 5678; 1, 234. | commas group or separate, and a trailing point is kept |
| `2.` `.3` `0,123` | 2., .3, 123 | |
| `1.5e-9` `0x12BF` `H2O` | 1.5, 9; 0, 12; 2 | no exponents, and digits inside words count |
| `5%%` `1.5-2.5,3` | nothing | lost whole |
| `M-.85-` `x.5.5,` | 85; nothing | parts must be numerals with their marks; then the first loses its own |
"""

from __future__ import annotations

import itertools
import re
from decimal import Decimal

from numjax.numeral.surface import shift
from numjax.types import Span

_ALLOWED = frozenset("0123456789+-,.%")
_DIGIT = re.compile("[0-9]")
_REST = re.compile(r"[0-9+\-,.%]*")
_LEGAL = re.compile(
    r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|[0-9]{1,3}(?:,[0-9]{3})*(?:\.[0-9]+)?|\.[0-9]+)%?"  # plain, grouped, fraction
)
_SEPARATORS = (",", "-", ".", "+", "-+")


def find(text: str) -> list[Span]:
    """The numerals of a text; see the table above."""
    out: list[Span] = []
    search, rest, end = _DIGIT.search, _REST.match, 0
    while digit := search(text, end):
        start = digit.start()
        while start > end and text[start - 1] in _ALLOWED:
            start -= 1
        run = rest(text, digit.end())
        assert run is not None
        end = run.end()
        follows_blank = start == 0 or text[start - 1].isspace()
        out += [
            Span(a, b, text[a:b], _parse_value(text[a:b])) for a, b in _find_numerals(text, start, end, follows_blank)
        ]
    return out


def _find_numerals(text: str, start: int, end: int, follows_blank: bool) -> list[tuple[int, int]]:
    """The numerals of text[start:end], a run of allowed characters; `follows_blank`: after a blank or nothing."""
    first = _skip_mark(text, start, end, follows_blank)
    if _LEGAL.fullmatch(text, first, end):
        return [(first, end)]
    for separators in _SEPARATORS:
        parts = _split(text, start, end, separators)
        if parts and all(_LEGAL.fullmatch(text, *part) for part in parts):
            # Like the run, the first loses a mark if it touches a word; the others follow a separator, as if a blank.
            a, b = parts[0]
            return [(_skip_mark(text, a, b, follows_blank), b), *parts[1:]]
    return []


def _skip_mark(text: str, start: int, end: int, follows_blank: bool) -> int:
    """Where the numeral in text[start:end] starts: behind a mark that is not its own, if it touches a word."""
    return start + (not follows_blank and start < end and text[start] in ",-.+")


def _split(text: str, start: int, end: int, separators: str) -> list[tuple[int, int]]:
    """The parts between separators, also empty ones, but not at the ends."""
    while start < end and text[start] in separators:
        start += 1
    while start < end and text[end - 1] in separators:
        end -= 1
    bounds = [start - 1, *(i for i in range(start, end) if text[i] in separators), end]
    return [(a + 1, b) for a, b in itertools.pairwise(bounds)]


def _parse_value(literal: str) -> Decimal:
    digits = literal.replace(",", "")
    return shift(Decimal(digits[:-1]), -2) if digits[-1] == "%" else Decimal(digits)
