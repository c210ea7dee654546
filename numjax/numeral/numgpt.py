"""NumGPT's rules: plain numbers, numbers with commas, and percentages (Jin et al. 2021, Numeral Parser)."""

from __future__ import annotations

import re

from numjax.numeral.surface import value_of
from numjax.types import Span

# The sign counts at the start of a word only, not in a range ("5%-6%"); digits that follow a letter, a point
# or a digit are text.
_PATTERN = re.compile(
    r"(?<![\w.])(?:(?<![+\-%)\]}])[+-])?"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    r"(?:[eE][+-]?[0-9]{1,17})?(?![\w]|\.[0-9])%?"
)


def find(text: str) -> list[Span]:
    """The numerals of a text: "2300", "2,300", "23%" (0.23); a whole word each, with an optional sign."""
    return [Span(m.start(), m.end(), m[0], value_of(m[0])) for m in _PATTERN.finditer(text)]
