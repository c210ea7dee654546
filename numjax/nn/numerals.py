"""Numerals as arrays on the device: gathering, and conversion of heads' predictions to canonical digits.

A head may predict a number as a mantissa and an exponent, as a digit for each decimal place, or as a scaled integer.
Each becomes a canonical `Numeral`; predicted digits never pass through a float.

Legend: P digits as predicted, K digits of a `Numeral`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numjax.types import Numeral

_WHOLE = 8  # digits of the largest integer part that a float32 holds in its 24 bits
_BITS = 28


def gather(table_BN: Numeral, index_BT: jax.Array) -> Numeral:
    """Numeral[B, T] at `index_BT` of a table Numeral[B, N]; not valid where the index is −1."""
    safe_BT = jnp.maximum(index_BT, 0)

    def pick(x):
        index = safe_BT.reshape(safe_BT.shape + (1,) * (x.ndim - 2))
        return jnp.take_along_axis(x, index, axis=1)

    numerals: Numeral = jax.tree.map(pick, table_BN)
    return numerals._replace(valid=numerals.valid & (index_BT >= 0))


def gather_rows(x_BND: jax.Array, index_BT: jax.Array) -> jax.Array:
    """x[B, T, D] at `index_BT` of x_BND; row 0 where the index is −1 (the caller masks it).

    If there are fewer tables than rows, consecutive rows share one, equally many each: see `Tokens.distinct`.
    """
    index = jnp.maximum(index_BT, 0).reshape(x_BND.shape[0], -1)
    rows = jnp.take_along_axis(x_BND, index[..., None], axis=1)
    return rows.reshape(*index_BT.shape, x_BND.shape[-1])


def exponent_id(exponent: jax.Array, low: int, high: int) -> jax.Array:
    """Class of a decimal exponent: 0 below `low` (−INF), 1 above `high` (+INF), else 2 + exponent − low."""
    return jnp.where(exponent < low, 0, jnp.where(exponent > high, 1, exponent - low + 2))


def exponent_of_id(index: jax.Array, low: int, high: int) -> jax.Array:
    """The exponent of a class of `exponent_id`; for −INF and +INF it is low − 1 and high + 1."""
    return jnp.where(index == 0, low - 1, jnp.where(index == 1, high + 1, index - 2 + low))


def from_mantissa(mantissa: jax.Array, exponent: jax.Array, digits: int, keep: int) -> Numeral:
    """The number mantissa · 10^exponent, rounded half-even to `keep` ≤ 9 significant digits.

    A mantissa of 10 or more carries into the exponent, and one below 1 borrows from it. Between 2^−5 and 2^24 the
    digits are exactly those of the float32. Other mantissas are first brought into that range by a power of ten, with
    an error of half a unit in the last place. A mantissa below 1e−9 is zero.

    Raises:
      ValueError: `keep` is not between 1 and the smaller of 9 and K = `digits`.
    """
    if not 1 <= keep <= min(digits, 9):
        raise ValueError(f"keep must be between 1 and {min(digits, 9)}, not {keep}")
    size = jnp.abs(mantissa.astype(jnp.float32))
    powers = jnp.asarray([10.0**k for k in range(-9, 39)], jnp.float32)
    power = jnp.sum(size[..., None] >= powers, axis=-1).astype(jnp.int32) - 10
    is_zero = power < -9
    is_far = (size < 2.0**-5) | (size >= 2.0**24)
    shift = jnp.where(is_far & ~is_zero, power, 0)
    size = jnp.where(is_zero, 0.0, jnp.where(is_far, size * jnp.power(10.0, -shift.astype(jnp.float32)), size))
    whole = jnp.floor(size)
    places = jnp.asarray([10 ** (_WHOLE - 1 - i) for i in range(_WHOLE)], jnp.int32)
    columns = [(whole.astype(jnp.int32)[..., None] // places) % 10]
    # The part behind the point as a binary fraction of 28 bits: ten times it still fits into 32.
    rest = ((size - whole) * 2.0**_BITS).astype(jnp.uint32)
    for _ in range(keep + 2):
        rest = rest * 10
        columns.append((rest >> _BITS).astype(jnp.int32)[..., None])
        rest = rest & (2**_BITS - 1)
    columns.append((rest > 0).astype(jnp.int32)[..., None])  # stands for all further digits: it breaks ties
    top = exponent.astype(jnp.int32) + shift + _WHOLE - 1
    rounded = from_digits(jnp.where(mantissa < 0, -1, 1), jnp.concatenate(columns, axis=-1), top, keep)
    kept_digits = jnp.zeros((*mantissa.shape, digits), jnp.int8).at[..., :keep].set(rounded.digits)
    return recount_digits(rounded._replace(digits=kept_digits))


def from_places(sign: jax.Array, digits: jax.Array, lowest: int, max_digits: int) -> Numeral:
    """The number sign · Σ_i digits[..., i] · 10^(lowest + i).

    Args:
      digits: int[..., P], 0 … 9, the lowest place first. max_digits: K.
    """
    top = jnp.full(digits.shape[:-1], lowest + digits.shape[-1] - 1, jnp.int32)
    return from_digits(sign, digits[..., ::-1], top, max_digits)


def to_places(numerals: Numeral, lowest: int, count: int) -> tuple[jax.Array, jax.Array]:
    """(int32[..., count], the digit at each decimal place from `lowest` on; bool[...], whether these are all digits).

    Of a number of more than K digits only the first K are known, so these are not all.
    """
    keep = numerals.digits.shape[-1]
    index = numerals.exponent[..., None] - (lowest + jnp.arange(count))
    is_known = (index >= 0) & (index < keep)
    digits = numerals.digits.astype(jnp.int32)
    place_digits = jnp.where(is_known, jnp.take_along_axis(digits, jnp.clip(index, 0, keep - 1), axis=-1), 0)
    place = numerals.exponent[..., None] - jnp.arange(keep)
    is_outside = (digits > 0) & ((place < lowest) | (place >= lowest + count))
    return place_digits, ~is_outside.any(-1) & (numerals.n_digits <= keep)


def from_integer(value: jax.Array, scale: int, digits: int) -> Numeral:
    """The number value · 10^scale of integers int32[...], including −2^31."""
    size = jnp.abs(value.astype(jnp.int32)).astype(jnp.uint32)  # |−2^31| wraps to itself, which is 2^31 unsigned
    places = jnp.asarray([10**i for i in range(10)], jnp.uint32)
    place_digits = ((size[..., None] // places) % 10).astype(jnp.int32)
    return from_places(jnp.where(value < 0, -1, 1), place_digits, scale, digits)


def from_digits(sign: jax.Array, digits: jax.Array, exponent: jax.Array, max_digits: int) -> Numeral:
    """The canonical form of sign · d0.d1d2… · 10^exponent, whose first and last digits may be zeros.

    Args:
      digits: int[..., P], 0 … 9. exponent: int[...], of d0. max_digits: K; further digits are rounded away half-even,
        and `n_digits` still counts them.
    """
    digits = digits.astype(jnp.int32)
    count = digits.shape[-1]
    is_nonzero = digits > 0
    first_nonzero = jnp.argmax(is_nonzero, axis=-1).astype(jnp.int32)
    places = jnp.arange(max(count, max_digits))
    index = places + first_nonzero[..., None]
    aligned = jnp.where(index < count, jnp.take_along_axis(digits, jnp.minimum(index, count - 1), axis=-1), 0)
    kept_digits, dropped = aligned[..., :max_digits], aligned[..., max_digits:]
    n_digits, carried = _count(aligned), jnp.zeros(first_nonzero.shape, jnp.int32)
    if dropped.shape[-1]:
        tie = jnp.where(dropped[..., 1:].any(-1), 1, kept_digits[..., -1] % 2)
        rounds_up = (dropped[..., 0] > 5) | ((dropped[..., 0] == 5) & (tie > 0))
        # The carry reaches a digit if all digits behind it are nines.
        nines = jnp.cumprod((kept_digits == 9)[..., ::-1].astype(jnp.int32), axis=-1)[..., ::-1]
        all_nines_behind = jnp.concatenate([nines[..., 1:], jnp.ones_like(nines[..., :1])], axis=-1)
        kept_digits = jnp.where(rounds_up[..., None] & (all_nines_behind > 0), (kept_digits + 1) % 10, kept_digits)
        carried = (rounds_up & (nines[..., 0] > 0)).astype(jnp.int32)
        kept_digits = kept_digits.at[..., 0].set(jnp.where(carried > 0, 1, kept_digits[..., 0]))
    is_zero = ~is_nonzero.any(-1)
    return Numeral(
        sign=jnp.broadcast_to(sign, first_nonzero.shape).astype(jnp.int8),
        digits=kept_digits.astype(jnp.int8),
        n_digits=n_digits,
        exponent=jnp.where(is_zero, 0, exponent.astype(jnp.int32) - first_nonzero + carried),
        valid=jnp.ones(first_nonzero.shape, bool),
    )


def carry_over(columns: jax.Array, base: int) -> jax.Array:
    """The digits below `base` of Σ column · base^k, int[..., L], the lowest first; columns may be larger, and what
    overflows the last is lost."""
    carry, digits = jnp.zeros_like(columns[..., 0]), []
    for k in range(columns.shape[-1]):
        total = columns[..., k] + carry
        digits.append(total % base)
        carry = total // base
    return jnp.stack(digits, axis=-1)


def recount_digits(numerals: Numeral) -> Numeral:
    """Sets `n_digits` to the number of digits that were kept, as if no others had existed."""
    return numerals._replace(n_digits=_count(numerals.digits))


def _count(digits: jax.Array) -> jax.Array:
    """The number of digits up to the last that is not zero, int32[...]."""
    return jnp.max(jnp.where(digits > 0, jnp.arange(1, digits.shape[-1] + 1), 0), axis=-1).astype(jnp.int32)
