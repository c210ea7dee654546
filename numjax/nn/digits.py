"""A number's vector from those of its digits (digit aggregation, section 3), in NumPy or JAX.

Legend: L digits of a number, most significant first; D width.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.types import Numeral

WEIGHTED = ("weighted", "place", "sum", "mean")
AGGREGATES = (*WEIGHTED, "max", "min", "median")
# How many times less a digit weighs one place further right, in the limit: the base of a decimal exponent.
_BASES = {"weighted": 2.0, "place": 10.0}


def weights(count: int, aggregate: str = "weighted") -> np.ndarray:
    """w_1 … w_N of a number of N = `count` ≥ 1 digits, float64[N].

    Args:
      aggregate: "weighted", 2^(N−i) · 3 (N+1−i) (N+2−i) / (N (N+1) (N+2)) (eq. 1); "place", 10^(N−i); "sum", 1;
        "mean", 1/N.

    Raises:
      UsageError: the aggregate has no weights, or the count is below 1.
    """
    check_aggregate(aggregate, WEIGHTED)
    if count < 1:
        raise UsageError(f"a number has at least one digit, not {count}")
    n, i = float(count), np.arange(1.0, count + 1)
    if aggregate == "weighted":
        return 2 ** (n - i) * 3 * (n + 1 - i) * (n + 2 - i) / (n * (n + 1) * (n + 2))
    if aggregate == "place":
        return 10 ** (n - i)
    return np.full(count, 1.0 if aggregate == "sum" else 1 / n)


def weight_table(longest: int, aggregate: str = "weighted") -> np.ndarray:
    """`weights` of every count up to `longest`, float64[longest + 1, longest]: row N, zeros behind; row 0 is zero."""
    table = np.zeros((longest + 1, longest))
    for count in range(1, longest + 1):
        table[count, :count] = weights(count, aggregate)
    return table


def check_aggregate(aggregate: str, choices: tuple[str, ...] = AGGREGATES) -> None:
    """Raises UsageError unless `aggregate` is one of `choices`."""
    if aggregate not in choices:
        raise UsageError(f"aggregate must be one of {', '.join(choices)}, not {aggregate!r}")


def positional_digits(numerals: Numeral, longest: int) -> tuple[Any, Any]:
    """(digits[..., longest], how many of them are behind the point), int32, of numbers in positional notation.

    100 is 1 0 0, 0.05 is 0 0 5; sign and point are dropped, and −1 pads. A longer number keeps its first `longest`
    digits. Digits beyond the K of a `Numeral` are unknown and count as zeros.
    """
    xp = numerals.digits.__array_namespace__()
    digits_K = numerals.digits.astype(xp.int32)
    exponent, n_digits = numerals.exponent.astype(xp.int32), numerals.n_digits.astype(xp.int32)
    n_whole = xp.clip(exponent, 0, longest - 1) + 1
    # Both terms are clipped before they are subtracted: an exponent can be as large as 2^24.
    n_decimals = xp.clip(xp.clip(n_digits, 1, None) - 1 - exponent, 0, longest - n_whole)
    place = xp.arange(longest, dtype=xp.int32)
    index = place + xp.clip(exponent, -longest, 0)[..., None]
    is_known = (index >= 0) & (index < digits_K.shape[-1])
    digits = xp.take_along_axis(digits_K, xp.where(is_known, index, 0), axis=-1)
    digits = xp.where(is_known, digits, 0)
    return xp.where(place < (n_whole + n_decimals)[..., None], digits, -1), n_decimals


def aggregate(table_XD: Any, digits: Any, how: str = "weighted", n_decimals: Any = None) -> Any:
    """The vector of each number, [..., D], from digits[..., L] (−1 for none) and the ten digits' vectors [10, D].

    Args:
      how: one of AGGREGATES; those without weights are taken in each dimension separately.
      n_decimals: int[...], digits behind the point: the exponent of eq. 1's power of two, and of the power of ten of
        place values, is then the digit's decimal exponent, so that 1.5 is half (a tenth) of 15. None drops the point.

    A number without digits has the vector zero.
    """
    check_aggregate(how)
    xp = digits.__array_namespace__()
    present, table_XD = digits >= 0, xp.asarray(table_XD)
    count = present.sum(-1)
    if how in WEIGHTED:
        rows = xp.asarray(weight_table(digits.shape[-1], how), dtype=table_XD.dtype)
        weight = xp.take(rows, count, axis=0)
        if n_decimals is not None and how in _BASES:
            weight = weight * xp.power(_BASES[how], -n_decimals.astype(table_XD.dtype))[..., None]
        # The weight of each of the ten digits; summed, not multiplied as matrices, to stay exact in float32.
        shares = xp.where(digits[..., None] == xp.arange(10), weight[..., None], 0).sum(-2)
        return (shares[..., None] * table_XD).sum(-2)
    vectors = xp.take(table_XD, xp.where(present, digits, 0), axis=0)
    if how == "max":
        aggregated = xp.where(present[..., None], vectors, -xp.inf).max(-2)
    else:
        aggregated = xp.sort(xp.where(present[..., None], vectors, xp.inf), axis=-2)
        lower = 0 * count if how == "min" else (count - 1) // 2
        upper = 0 * count if how == "min" else count // 2
        aggregated = (_take_row(xp, aggregated, lower) + _take_row(xp, aggregated, upper)) / 2
    return xp.where((count > 0)[..., None], aggregated, 0)


def from_ids(ids: Any, index: Any, digit_ids: tuple[int, ...], numbers: int, longest: int) -> Any:
    """The digits of each number of a row, as its tokens spell them: int32[B, numbers, longest], −1 for none.

    Args:
      ids, index: int[B, T], tokens and the numbers that they belong to (−1: none).
      digit_ids: ids of the digits 0 … 9.
    """
    value, rank = rank_digits(ids, index, digit_ids, numbers)
    row = jnp.arange(ids.shape[0])[:, None]
    # Tokens that are no digits, and digits beyond `longest`, go to a column outside, which is dropped.
    column = jnp.where((value >= 0) & (rank < longest), rank, longest)
    empty = jnp.full((ids.shape[0], numbers, longest), -1, jnp.int32)
    return empty.at[row, jnp.maximum(index, 0), column].set(value, mode="drop")


def rank_digits(ids: Any, index: Any, digit_ids: tuple[int, ...], numbers: int) -> tuple[Any, Any]:
    """(the digit that each position spells, −1 for none; the number of its number's earlier digits), int32[B, T]."""
    is_digit_BTX = ids[..., None] == jnp.asarray(digit_ids, jnp.int32)
    value = jnp.where(is_digit_BTX.any(-1) & (index >= 0), is_digit_BTX.argmax(-1).astype(jnp.int32), -1)
    member_BTN = (index[..., None] == jnp.arange(numbers)) & (value >= 0)[..., None]
    before_BTN = jnp.cumsum(member_BTN.astype(jnp.int32), axis=1) - member_BTN
    rank = jnp.take_along_axis(before_BTN, jnp.maximum(index, 0)[..., None], axis=-1)[..., 0]
    return value, rank


def _take_row(xp: Any, vectors: Any, index: Any) -> Any:
    return xp.take_along_axis(vectors, xp.maximum(index, 0)[..., None, None], axis=-2)[..., 0, :]
