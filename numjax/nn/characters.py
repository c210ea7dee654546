"""The characters of a numeral as ids: of its surface on the host, or spelled from its digits on host and device.

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
# A whole part of at most so many digits, and so many zeros behind the point, are spelled without an exponent.
_WHOLE, _ZEROS = 15, 5
_POWER = 8  # digits of the largest exponent


def of_surfaces(surfaces: Sequence[str], length: int) -> np.ndarray:
    """int8[N, length], PAD behind the end; what stands beyond `length` characters is cut off."""
    found = np.full((len(surfaces), length), PAD, np.int8)
    for row, surface in zip(found, surfaces, strict=True):
        ids = [_ID.get(character, UNKNOWN) for character in surface[:length]]
        row[: len(ids)] = ids
    return found


def features(numerals: Numeral, surfaces: Sequence[str] | None, length: int) -> dict[str, np.ndarray]:
    """{"characters": int8[N, length]} of the surfaces, or without them as spelled from the digits."""
    return {"characters": spelled(numerals, length) if surfaces is None else of_surfaces(surfaces, length)}


def ids_of(numerals: Numeral, found: Mapping[str, Any] | None, length: int) -> Any:
    """int8[..., length]: what `features` found, or without it as spelled from the digits."""
    ids = (found or {}).get("characters")
    return spelled(numerals, length) if ids is None else ids


def spelled(numerals: Numeral, length: int):
    """int8[..., length]: the shortest way to write the digits that are kept, such as -1234.5, 0.001 or 1e30.

    For NumPy and JAX arrays alike. A raw mantissa, of a number that nothing rounded, is cut to its first digit.
    """
    xp = numerals.digits.__array_namespace__()
    digits = xp.clip(numerals.digits, 0, 9).astype(xp.int32)
    keep = digits.shape[-1]
    count = xp.max(xp.where(digits > 0, xp.arange(1, keep + 1), 0), axis=-1)
    power = xp.where(count > 0, numerals.exponent.astype(xp.int32), 0)
    large = (power >= _WHOLE) | (power < -1 - _ZEROS)
    exponent = xp.where(large, 0, power)  # of the mantissa as it is written
    negative = (numerals.sign < 0).astype(xp.int32)

    def column(x):
        return x[..., None]

    at = xp.arange(length) - column(negative)
    top = column(xp.maximum(exponent, 0))  # decimal place of the first digit written
    last = column(xp.minimum(exponent - xp.maximum(count, 1) + 1, 0))
    place = top - at + (at > top)
    index = column(exponent) - place
    inside = (index >= 0) & (index < keep)
    ids = xp.where(inside, xp.take_along_axis(digits, xp.clip(index, 0, keep - 1), axis=-1), 0)
    ids = xp.where(at == top + 1, POINT, ids)
    end = top + 1 + xp.where(last < 0, 1 - last, 0)
    ids = xp.where(at < end, ids, PAD)

    # Behind a mantissa: e, a minus, the exponent's digits.
    behind, size = at - end, column(xp.abs(power))
    minus = column((power < 0).astype(xp.int32))
    tens = 10 ** xp.arange(_POWER)
    width = 1 + (size >= tens[1:]).sum(axis=-1, keepdims=True)
    order = width - 1 - (behind - 1 - minus)
    digit = size // xp.take(tens, xp.clip(order, 0, _POWER - 1)) % 10
    tail = xp.where(behind == 0, EXPONENT, xp.where((behind == 1) & (minus == 1), MINUS, digit))
    ids = xp.where(column(large) & (behind >= 0) & (order >= 0), tail, ids)
    return xp.where(at < 0, MINUS, ids).astype(xp.int8)
