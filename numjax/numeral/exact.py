"""Exact decimal numbers as arrays of digits, and back. Nothing here rounds but `to_numeral`.

Decimals are made from strings and tuples alone: arithmetic on them would round to the context's 28 digits.
Functions without arrays are in `surface.py`; some are exported here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from numjax.errors import UsageError
from numjax.numeral.surface import format_plain, shift
from numjax.types import NumberRange, Numeral

__all__ = ["MOST_EXPONENT", "format_plain", "is_inside", "shift", "to_decimals", "to_numeral"]

# Exponents beyond this are clipped in arrays: far outside every float, and safe in int32 sums.
MOST_EXPONENT = 2**24


def to_numeral(values: Sequence[Decimal | None], digits: int = 20) -> Numeral:
    """Arrays of finite decimals, [N] and [N, digits]; None makes an invalid slot.

    Digits are canonical; a number of more significant digits is rounded half-even and keeps its true count in
    `n_digits`. Zero has no digits and exponent 0. Exponents are clipped to ±2^24.

    Raises:
      UsageError: a value is not finite, or `digits` is less than 1.
    """
    if digits < 1:
        raise UsageError(f"a numeral keeps at least one digit, not {digits}")
    # Rows are short and many: lists and one buffer of digits cost a third of filling arrays number by number.
    signs, n_digits, exponents = [], [], []
    digit_buffer = bytearray()
    for value in values:
        negative, body, exponent = (0, b"", 0) if value is None else _canonicalize(value)
        signs.append(-1 if negative else 1)
        n_digits.append(len(body))
        if len(body) > digits:
            body, carry = _round_digits(body, digits)
            exponent += carry
        digit_buffer += body.ljust(digits, b"\0")
        exponents.append(min(max(exponent, -MOST_EXPONENT), MOST_EXPONENT))
    return Numeral(
        sign=np.array(signs, np.int8),
        digits=np.frombuffer(digit_buffer, np.int8).reshape(len(values), digits),
        n_digits=np.array(n_digits, np.int32),
        exponent=np.array(exponents, np.int32),
        valid=np.array([value is not None for value in values], bool),
    )


def is_inside(numerals: Numeral, numbers: NumberRange) -> np.ndarray:
    """Whether each number of `to_numeral` belongs to a range, bool[N]; `NumberRange.holds` for many numbers."""
    last = numerals.exponent - numerals.n_digits + 1
    inside = np.ones(len(numerals.n_digits), bool)
    if not numbers.signed:
        inside &= numerals.sign > 0
    for limit, is_held in (
        (numbers.digits, lambda n: numerals.n_digits <= n),
        (numbers.places, lambda n: last >= -n),
        (numbers.low, lambda n: numerals.exponent >= n),
        (numbers.high, lambda n: numerals.exponent <= n),
    ):
        inside &= True if limit is None else is_held(limit)
    return inside | (numerals.n_digits == 0)


def to_decimals(numerals: Numeral) -> list[Decimal | None]:
    """The numbers of a `Numeral` of any shape, in row-major order; exact inverse of `to_numeral` where
    n_digits ≤ K, None where not valid."""
    digits_NK = np.asarray(numerals.digits)
    digits_NK = digits_NK.reshape(-1, digits_NK.shape[-1])
    rows = zip(
        np.asarray(numerals.sign).reshape(-1).tolist(),
        digits_NK,
        np.asarray(numerals.exponent).reshape(-1).tolist(),
        np.asarray(numerals.valid).reshape(-1).tolist(),
        strict=True,
    )
    return [_to_decimal(sign, row, exponent) if valid else None for sign, row, exponent, valid in rows]


def _to_decimal(sign: int, digits_K: np.ndarray, exponent: int) -> Decimal:
    minus = "-" if sign < 0 else ""
    text = "".join(map(str, digits_K.tolist())).rstrip("0") or "0"
    return Decimal(f"{minus}{text}e{exponent - len(text) + 1}")


def _canonicalize(value: Decimal) -> tuple[int, bytes, int]:
    """(1 if negative, the digits between the first and the last that are not zeros, a byte each, exponent)."""
    negative, digits, places = value.as_tuple()
    if not isinstance(places, int):
        raise UsageError(f"{value} has no digits: only a finite number can be a numeral")
    body = bytes(digits).lstrip(b"\0")
    return negative, body.rstrip(b"\0"), len(body) - 1 + places if body else 0


def _round_digits(body: bytes, keep: int) -> tuple[bytes, int]:
    """(the first `keep` digits rounded half-even, 1 if the rounding carried into a new digit)."""
    head, rest = body[:keep], body[keep:]
    if rest > b"\5" or (rest == b"\5" and head[-1] % 2):
        head = head.rstrip(b"\x09")
        if not head:
            return b"\1", 1
        return head[:-1] + bytes([head[-1] + 1]), 0
    return head.rstrip(b"\0"), 0
