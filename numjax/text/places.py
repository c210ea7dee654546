"""Each digit with its decimal place as one symbol (Regression Transformer; Born and Manica 2023, section "Numerical
encodings")."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from decimal import Decimal

from numjax.errors import DataError, UsageError
from numjax.protocols import FromContext
from numjax.text.base import RowBuilder
from numjax.text.coded import Code, CodedScheme
from numjax.text.vocab.base import BaseVocabulary
from numjax.types import Abilities, Number, NumberRange, Segment

PLUS, MINUS, POINT = "[+]", "[-]", "[.]"


class Scheme(CodedScheme):
    """12.3 is [+] [1e1] [2e0] [.] [3e-1]: the vector of a symbol knows the digit and what it is worth.

    Exact for numbers of at most `integer` digits before the point and `fraction` behind it. Others are refused, since
    a number without its highest or lowest digits is another number.
    """

    def __init__(
        self,
        vocab: FromContext[BaseVocabulary],
        rules: str = "default",
        pad_multiple: int = 128,
        integer: int = 20,
        fraction: int = 10,
        plus: bool = True,
    ):
        """
        Args:
          integer, fraction: digits before and behind the point.
          plus: write the sign of positive numbers too, so that it is known where a number begins. The paper writes
            only the minus; then two numbers side by side are refused.
        """
        if integer < 1 or fraction < 0:
            raise UsageError("places: integer must be at least 1, and fraction not negative")
        self.integer, self.fraction, self.plus = integer, fraction, plus
        self.moves, self.complete = self._make_moves()
        super().__init__(vocab, rules, pad_multiple)

    def abilities(self) -> Abilities:
        numbers = NumberRange(places=self.fraction, high=self.integer - 1)
        return Abilities(numbers, numbers)

    def write_value(self, value: Decimal) -> Code:
        """The marks of a value.

        Raises:
          DataError: it has more digits than there are places.
        """
        _, digits, exponent = value.as_tuple()
        digit_at = {int(exponent) + i: digit for i, digit in enumerate(reversed(digits)) if digit}
        highest, lowest = max(digit_at, default=0), min(digit_at, default=0)
        if highest >= self.integer or lowest < -self.fraction:
            raise DataError(
                f"{value} has more than {self.integer} digits before the point or {self.fraction} behind it: set "
                "scheme.integer and scheme.fraction"
            )
        code = [MINUS] if value.is_signed() else [PLUS] if self.plus else []
        for place in range(max(highest, 0), min(lowest, 0) - 1, -1):
            code += [POINT] if place == -1 else []
            code.append(f"[{digit_at.get(place, 0)}e{place}]")
        return tuple(code)

    def read_value(self, code: Sequence[str]) -> Decimal:
        return Decimal("".join(name[1] for name in code))

    def _make_moves(self) -> tuple[dict[str, dict[Code, str]], tuple[str, ...]]:
        def place(power: int, digits: str = "0123456789") -> Code:
            return tuple(f"[{digit}e{power}]" for digit in digits)

        wholes = {place(power, "123456789"): f"place {power}" for power in range(self.integer - 1, 0, -1)}
        wholes[place(0)] = "place 0"
        moves: dict[str, dict[Code, str]] = {"number": {(MINUS, *((PLUS,) if self.plus else ())): "signed"}}
        if not self.plus:
            moves["number"] |= wholes
        moves["signed"] = wholes
        for power in range(self.integer - 1, 0, -1):
            moves[f"place {power}"] = {place(power - 1): f"place {power - 1}"}
        complete = ["place 0"]
        if self.fraction:
            moves["place 0"] = {(POINT,): "point"}
            # A fraction ends in a digit that is not 0, so that a number has one spelling.
            for power in range(-1, -self.fraction - 1, -1):
                state = "point" if power == -1 else f"zero {power + 1}"
                moves[state] = {place(power, "123456789"): f"place {power}"}
                if power > -self.fraction:
                    moves[state][place(power, "0")] = f"zero {power}"
                if power < -1:
                    moves[f"place {power + 1}"] = moves[state]
                complete.append(f"place {power}")
        return moves, tuple(complete)

    def _write(self, run: Sequence[Segment], row: RowBuilder) -> None:
        pairs = itertools.pairwise(run)
        if not self.plus and any(isinstance(a, Number) and isinstance(b, Number) for a, b in pairs):
            raise DataError("two numbers stand side by side: set scheme.plus=True, so that each begins with its sign")
        super()._write(run, row)
