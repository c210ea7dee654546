"""The characters of a numeral as ids: from its surface on the host, or spelled from its digits on host and device.

Ids: 0 … 9 the digits, then the marks of `MARKS`, PAD and UNKNOWN; 19 in all, in the order of LUNA's number encoders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from numjax.types import Numeral

DECIMAL, MINUS, EXPONENT, POINT, PERCENT, COMMA, PLUS, PAD, UNKNOWN = range(10, 19)
COUNT = 19
MARKS = {"-": MINUS, "\u2212": MINUS, "e": EXPONENT, "E": EXPONENT, ".": POINT, "%": PERCENT, ",": COMMA, "+": PLUS}
_ID = {str(digit): digit for digit in range(10)} | MARKS
# Numbers with at most _WHOLE digits before the point and _ZEROS zeros behind it are spelled without an exponent.
_WHOLE, _ZEROS = 15, 5
_POWER = 8  # digits of the largest exponent


def encode_surfaces(surfaces: Sequence[str], length: int) -> np.ndarray:
    """int8[N, length], PAD behind the end; characters beyond `length` are cut off."""
    rows = np.full((len(surfaces), length), PAD, np.int8)
    for row, surface in zip(rows, surfaces, strict=True):
        ids = [_ID.get(character, UNKNOWN) for character in surface[:length]]
        row[: len(ids)] = ids
    return rows


def make_features(numerals: Numeral, surfaces: Sequence[str] | None, length: int) -> dict[str, np.ndarray]:
    """{"characters": int8[N, length]} of the surfaces; without surfaces, spelled from the digits."""
    return {"characters": spell(numerals, length) if surfaces is None else encode_surfaces(surfaces, length)}


def character_ids(numerals: Numeral, features: Mapping[str, Any] | None, length: int) -> Any:
    """int8[..., length]: the characters among `features`; without them, spelled from the digits."""
    ids = (features or {}).get("characters")
    return spell(numerals, length) if ids is None else ids


def spell(numerals: Numeral, length: int):
    """int8[..., length]: the shortest spelling of the digits that are kept, such as -1234.5, 0.001 or 1e30.

    Works on NumPy and JAX arrays. An unrounded mantissa is cut to its first digit.
    """
    xp = numerals.digits.__array_namespace__()
    digits = xp.clip(numerals.digits, 0, 9).astype(xp.int32)
    keep = digits.shape[-1]
    count = xp.max(xp.where(digits > 0, xp.arange(1, keep + 1), 0), axis=-1)
    power = xp.where(count > 0, numerals.exponent.astype(xp.int32), 0)
    large = (power >= _WHOLE) | (power < -1 - _ZEROS)
    exponent = xp.where(large, 0, power)  # of the mantissa as spelled
    negative = (numerals.sign < 0).astype(xp.int32)

    def column(x):
        return x[..., None]

    index = xp.arange(length) - column(negative)
    top = column(xp.maximum(exponent, 0))  # decimal place of the first digit
    last = column(xp.minimum(exponent - xp.maximum(count, 1) + 1, 0))
    place = top - index + (index > top)
    digit_index = column(exponent) - place
    is_kept = (digit_index >= 0) & (digit_index < keep)
    ids = xp.where(is_kept, xp.take_along_axis(digits, xp.clip(digit_index, 0, keep - 1), axis=-1), 0)
    ids = xp.where(index == top + 1, POINT, ids)
    end = top + 1 + xp.where(last < 0, 1 - last, 0)
    ids = xp.where(index < end, ids, PAD)

    # Behind a mantissa: e, a minus, the exponent's digits.
    behind_end, size = index - end, column(xp.abs(power))
    minus = column((power < 0).astype(xp.int32))
    tens = 10 ** xp.arange(_POWER)
    width = 1 + (size >= tens[1:]).sum(axis=-1, keepdims=True)
    order = width - 1 - (behind_end - 1 - minus)
    digit = size // xp.take(tens, xp.clip(order, 0, _POWER - 1)) % 10
    tail = xp.where(behind_end == 0, EXPONENT, xp.where((behind_end == 1) & (minus == 1), MINUS, digit))
    ids = xp.where(column(large) & (behind_end >= 0) & (order >= 0), tail, ids)
    return xp.where(index < 0, MINUS, ids).astype(xp.int8)
