"""Numbers as bins of equal width, after division by the mean size of those before them (Chronos; Ansari et al. 2024,
arXiv 2403.07815, section 3.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction

from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.text.base import SEP
from numjax.text.coded import Code
from numjax.text.scaled import ScaledScheme, limit_size, round_number
from numjax.text.vocab.base import BaseVocabulary

MOST_BINS = 1_000_001
DIGITS = 9  # significant digits of the number that a symbol stands for


class Scheme(ScaledScheme):
    """x is one symbol, that of the centre nearest to x / s; s is the mean of the absolute values of given numbers.

    The centres are `bins` numbers from −`limit` to `limit`, equally far apart. Half way between two, the upper
    one counts. A number beyond ±`limit` · s is cut to the outermost centre. If all given numbers are 0, or there are
    none, s is 1. A symbol stands for its centre times s; so only 0 is certain to come back. The arithmetic is exact,
    where Chronos has float32. Chronos pads what is missing; here NaN and infinities are words of the text, or refused
    as numbers.

    With the defaults these are the bins of Chronos; its ids are the indices plus 3.
    """

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        bins: int = 4093,
        limit: float = 15.0,
        until: str = SEP,
    ):
        """
        Args:
          bins: how many; an odd number, so that 0 is a centre.
          limit: the outermost centre.
          until: the numbers before this mark set the scale; "": s is always 1.

        Raises:
          UsageError: an option is out of range.
        """
        if not 3 <= bins <= MOST_BINS or bins % 2 == 0:
            raise UsageError(f"bins: bins must be an odd number from 3 to {MOST_BINS:,}, not {bins}")
        if not 0 < limit < math.inf:
            raise UsageError(f"bins: limit must be positive, not {limit}")
        self.bins, self.limit = bins, Fraction(str(limit))
        self.width = 2 * self.limit / (bins - 1)
        self.moves = {"number": {tuple(f"[b{i}]" for i in range(bins)): "whole"}}
        self.complete = ("whole",)
        super().__init__(vocab, rules, pad_multiple, until)

    def find_scale(self, sizes: Sequence[Fraction]) -> Fraction:
        """The mean."""
        return sum(sizes, Fraction(0)) / len(sizes)

    def write_value(self, value: Decimal) -> Code:
        index = math.floor((limit_size(value) / self.scale + self.limit) / self.width + Fraction(1, 2))
        return (f"[b{min(max(index, 0), self.bins - 1)}]",)

    def read_value(self, code: Sequence[str]) -> Decimal:
        return round_number((int(code[0][2:-1]) * self.width - self.limit) * self.scale, DIGITS)
