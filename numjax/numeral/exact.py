"""Exact decimal numbers: surface → Decimal → arrays of digits, and back. Nothing here rounds but `to_numeral`.

Decimals are made from strings and tuples alone: arithmetic on them would round to the context's 28 digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from numjax.types import Numeral

# Exponents beyond this are clipped in arrays: far outside every float, and safe in int32 sums.
MOST_EXPONENT = 2**24

MINUS = "-\u2212"
_DROP = str.maketrans("", "", ",$€£¥₹₩₽¢+() \u00a0")


def parse_value(surface: str) -> Decimal:
    """The exact value of a numeral as the rules write it: signs, commas, currency, accounting parentheses,
    percent ("50%" is 0.50) and scientific notation.

    Raises:
      ValueError: not a numeral.
    """
    body = surface.replace("\u2212", "-")
    negative = body.startswith("(")
    percent = body.endswith(("%", "%)"))
    body = body.translate(_DROP).rstrip("%")
    if not body or body.strip("-0123456789.eE") or body in "-.":
        raise ValueError(f"{surface[:40]!r} is not a numeral")
    try:
        value = Decimal(body)
    except ArithmeticError:
        raise ValueError(f"{surface[:40]!r} is not a numeral") from None
    if percent:
        value = shift(value, -2)
    return value.copy_negate() if negative else value


def shift(value: Decimal, places: int) -> Decimal:
    """value · 10^places, exactly, with all digits kept."""
    sign, digits, exponent = value.as_tuple()
    return Decimal((sign, digits, int(exponent) + places))


def plain(value: Decimal, most: int = 40) -> str:
    """A decimal string; scientific when it would be longer than `most` digits. Every digit is kept."""
    sign, digits, exponent = value.as_tuple()
    length = max(len(digits) + max(int(exponent), 0), len(digits), 1 - int(exponent))
    return f"{value:f}" if length <= most else f"{value:E}"


def to_numeral(values: Sequence[Decimal | None], digits: int = 20) -> Numeral:
    """Arrays of finite decimals, [N] and [N, digits]; None makes an invalid slot.

    Digits are canonical; a number of more significant digits is rounded half-even and keeps its true count in
    `n_digits`. Zero has no digits and exponent 0. Exponents are clipped to ±2^24.
    """
    count = len(values)
    out = Numeral(
        sign=np.ones(count, np.int8),
        digits=np.zeros((count, digits), np.int8),
        n_digits=np.zeros(count, np.int32),
        exponent=np.zeros(count, np.int32),
        valid=np.zeros(count, bool),
    )
    for i, value in enumerate(values):
        if value is None:
            continue
        negative, found, places = value.as_tuple()
        if not isinstance(places, int):
            raise ValueError(f"{value} is not a finite number")
        out.valid[i] = True
        if negative:
            out.sign[i] = -1
        # found = leading zeros, significant digits, trailing zeros.
        text = "".join(map(str, found)) if len(found) > 1 else str(found[0])
        body = text.lstrip("0")
        exponent = len(body) - 1 + places
        body = body.rstrip("0")
        if not body:
            continue
        out.n_digits[i] = len(body)
        if len(body) > digits:
            body, carry = _rounded(body, digits)
            exponent += carry
        out.digits[i, : len(body)] = np.frombuffer(body.encode(), np.uint8) - 48
        out.exponent[i] = min(max(exponent, -MOST_EXPONENT), MOST_EXPONENT)
    return out


def to_decimals(numerals: Numeral) -> list[Decimal | None]:
    """The numbers of a one-dimensional `Numeral`; exact inverse of `to_numeral` where n_digits ≤ K."""
    out: list[Decimal | None] = []
    for sign, row, exponent, valid in zip(
        numerals.sign.tolist(),
        np.asarray(numerals.digits).astype(int).tolist(),
        numerals.exponent.tolist(),
        numerals.valid.tolist(),
        strict=True,
    ):
        if not valid:
            out.append(None)
            continue
        text = "".join(map(str, row)).rstrip("0") or "0"
        out.append(Decimal((int(sign < 0), tuple(map(int, text)), exponent - len(text) + 1)))
    return out


def _rounded(body: str, keep: int) -> tuple[str, int]:
    """(the first `keep` digits rounded half-even, 1 if the rounding carried into a new digit)."""
    head, rest = body[:keep], body[keep:]
    up = rest > "5" or (rest == "5" and int(head[-1]) % 2 == 1)
    if up:
        head = str(int(head) + 1).rjust(keep, "0")
    carry = len(head) - keep
    return head.rstrip("0"), carry
