"""Digit aggregation's rule: the regular expression `(\\d*\\.)?\\d+` of the paper (section 4), over the digits 0 to 9.

It knows neither signs nor groups: "-5" is a hyphen and 5, "1,234.5" is 1 and 234.5, "1.2.3" is 1.2 and .3.
"""

from __future__ import annotations

import re
from decimal import Decimal

from numjax.types import Span

# The paper's \d is any script's digit in Python; there are only ten digit vectors, so other digits stay text.
_PATTERN = re.compile(r"(?:[0-9]*\.)?[0-9]+")


def find(text: str) -> list[Span]:
    """The numerals of a text: runs of digits, each with at most one point before its last run."""
    return [Span(m.start(), m.end(), m[0], Decimal(m[0])) for m in _PATTERN.finditer(text)]
