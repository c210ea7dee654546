"""Numerals as arrays on the device: gathering, and the ways from what heads predict to canonical digits.

A head may know a number as a mantissa and an exponent, as a digit for each decimal place, or as a scaled integer.
Each becomes a canonical `Numeral`; digits that are known go through no float.

Legend: P digits as predicted, K digits of a `Numeral`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numjax.types import Numeral

_WHOLE = 8  # digits of a float32 that has no more than its 24 bits before the point
_BITS = 28


def gather(table_BN: Numeral, index_BT: jax.Array) -> Numeral:
    """Numeral[B, T] at `index_BT` of a table Numeral[B, N]; invalid where the index is −1."""
    safe = jnp.maximum(index_BT, 0)

    def pick(x):
        at = safe.reshape(safe.shape + (1,) * (x.ndim - 2))
        return jnp.take_along_axis(x, at, axis=1)

    found: Numeral = jax.tree.map(pick, table_BN)
    return found._replace(valid=found.valid & (index_BT >= 0))


def gather_rows(x_BND: jax.Array, index_BT: jax.Array) -> jax.Array:
    """x[B, T, D] at `index_BT` of x_BND; row 0 where the index is −1 (to be masked by the caller).

    With fewer tables than rows, as many consecutive rows share each: see `Tokens.distinct`.
    """
    index = jnp.maximum(index_BT, 0).reshape(x_BND.shape[0], -1)
    found = jnp.take_along_axis(x_BND, index[..., None], axis=1)
    return found.reshape(*index_BT.shape, x_BND.shape[-1])


def exponent_id(exponent: jax.Array, low: int, high: int) -> jax.Array:
    """Class of a decimal exponent: 0 below `low` (−INF), 1 above `high` (+INF), else 2 + exponent − low."""
    return jnp.where(exponent < low, 0, jnp.where(exponent > high, 1, exponent - low + 2))


def exponent_of_id(index: jax.Array, low: int, high: int) -> jax.Array:
    """The exponent of a class of `exponent_id`; the saturated classes give low − 1 and high + 1."""
    return jnp.where(index == 0, low - 1, jnp.where(index == 1, high + 1, index - 2 + low))


def from_mantissa(mantissa: jax.Array, exponent: jax.Array, digits: int, keep: int) -> Numeral:
    """The number mantissa · 10^exponent, rounded half-even to `keep` ≤ 9 significant digits.

    A mantissa of 10 or more carries into the exponent and one below 1 borrows from it. The digits are those of the
    float32 itself, exactly, where it lies between 2^−5 and 2^24; others are brought there by a power of ten first,
    which costs them half a unit in the last place. One below 1e−9 is zero.

    Raises:
      ValueError: `keep` is not between 1 and the lesser of 9 and K = `digits`.
    """
    if not 1 <= keep <= min(digits, 9):
        raise ValueError(f"keep must be between 1 and {min(digits, 9)}, not {keep}")
    size = jnp.abs(mantissa.astype(jnp.float32))
    powers = jnp.asarray([10.0**k for k in range(-9, 39)], jnp.float32)
    power = jnp.sum(size[..., None] >= powers, axis=-1).astype(jnp.int32) - 10
    is_zero = power < -9
    far = (size < 2.0**-5) | (size >= 2.0**24)
    shift = jnp.where(far & ~is_zero, power, 0)
    size = jnp.where(is_zero, 0.0, jnp.where(far, size * jnp.power(10.0, -shift.astype(jnp.float32)), size))
    whole = jnp.floor(size)
    places = jnp.asarray([10 ** (_WHOLE - 1 - i) for i in range(_WHOLE)], jnp.int32)
    found = [(whole.astype(jnp.int32)[..., None] // places) % 10]
    # What is behind the point as a binary fraction of 28 bits: ten times it still fits into 32.
    rest = ((size - whole) * 2.0**_BITS).astype(jnp.uint32)
    for _ in range(keep + 2):
        rest = rest * 10
        found.append((rest >> _BITS).astype(jnp.int32)[..., None])
        rest = rest & (2**_BITS - 1)
    found.append((rest > 0).astype(jnp.int32)[..., None])  # stands for all that is left: it breaks ties
    top = exponent.astype(jnp.int32) + shift + _WHOLE - 1
    rounded = from_digits(jnp.where(mantissa < 0, -1, 1), jnp.concatenate(found, axis=-1), top, keep)
    kept = jnp.zeros((*mantissa.shape, digits), jnp.int8).at[..., :keep].set(rounded.digits)
    return as_kept(rounded._replace(digits=kept))


def from_places(sign: jax.Array, digits: jax.Array, lowest: int, most: int) -> Numeral:
    """The number sign · Σ_i digits[..., i] · 10^(lowest + i).

    Args:
      digits: int[..., P], 0 … 9, the lowest place first. most: K.
    """
    top = jnp.full(digits.shape[:-1], lowest + digits.shape[-1] - 1, jnp.int32)
    return from_digits(sign, digits[..., ::-1], top, most)


def to_places(numerals: Numeral, lowest: int, count: int) -> tuple[jax.Array, jax.Array]:
    """(int32[..., count], the digit at each decimal place from `lowest` on; bool[...], whether that is all of it).

    A number of more digits than K keeps its first ones, and is not all there.
    """
    most = numerals.digits.shape[-1]
    at = numerals.exponent[..., None] - (lowest + jnp.arange(count))
    inside = (at >= 0) & (at < most)
    digits = numerals.digits.astype(jnp.int32)
    found = jnp.where(inside, jnp.take_along_axis(digits, jnp.clip(at, 0, most - 1), axis=-1), 0)
    place = numerals.exponent[..., None] - jnp.arange(most)
    outside = (digits > 0) & ((place < lowest) | (place >= lowest + count))
    return found, ~outside.any(-1) & (numerals.n_digits <= most)


def from_integer(value: jax.Array, scale: int, digits: int) -> Numeral:
    """The number value · 10^scale of integers int32[...], −2^31 among them."""
    size = jnp.abs(value.astype(jnp.int32)).astype(jnp.uint32)  # |−2^31| wraps to itself, which is 2^31 unsigned
    places = jnp.asarray([10**i for i in range(10)], jnp.uint32)
    found = ((size[..., None] // places) % 10).astype(jnp.int32)
    return from_places(jnp.where(value < 0, -1, 1), found, scale, digits)


def from_digits(sign: jax.Array, digits: jax.Array, exponent: jax.Array, most: int) -> Numeral:
    """The canonical form of sign · d0.d1d2… · 10^exponent, whose first and last digits may be zeros.

    Args:
      digits: int[..., P], 0 … 9. exponent: int[...], of d0. most: K; further digits are rounded half-even away, and
        `n_digits` then still counts them.
    """
    digits = digits.astype(jnp.int32)
    count = digits.shape[-1]
    any_ = digits > 0
    first = jnp.argmax(any_, axis=-1).astype(jnp.int32)
    places = jnp.arange(max(count, most))
    at = places + first[..., None]
    moved = jnp.where(at < count, jnp.take_along_axis(digits, jnp.minimum(at, count - 1), axis=-1), 0)
    kept, beyond = moved[..., :most], moved[..., most:]
    n_digits, carried = _count(moved), jnp.zeros(first.shape, jnp.int32)
    if beyond.shape[-1]:
        tie = jnp.where(beyond[..., 1:].any(-1), 1, kept[..., -1] % 2)
        up = (beyond[..., 0] > 5) | ((beyond[..., 0] == 5) & (tie > 0))
        # A digit moves where all digits behind it are nines.
        nines = jnp.cumprod((kept == 9)[..., ::-1].astype(jnp.int32), axis=-1)[..., ::-1]
        behind = jnp.concatenate([nines[..., 1:], jnp.ones_like(nines[..., :1])], axis=-1)
        kept = jnp.where(up[..., None] & (behind > 0), (kept + 1) % 10, kept)
        carried = (up & (nines[..., 0] > 0)).astype(jnp.int32)
        kept = kept.at[..., 0].set(jnp.where(carried > 0, 1, kept[..., 0]))
    is_zero = ~any_.any(-1)
    return Numeral(
        sign=jnp.broadcast_to(sign, first.shape).astype(jnp.int8),
        digits=kept.astype(jnp.int8),
        n_digits=n_digits,
        exponent=jnp.where(is_zero, 0, exponent.astype(jnp.int32) - first + carried),
        valid=jnp.ones(first.shape, bool),
    )


def as_kept(numerals: Numeral) -> Numeral:
    """The numbers that the digits which were kept are, as if there had never been others."""
    return numerals._replace(n_digits=_count(numerals.digits))


def _count(digits: jax.Array) -> jax.Array:
    """How many digits there are up to the last that is not zero, int32[...]."""
    return jnp.max(jnp.where(digits > 0, jnp.arange(1, digits.shape[-1] + 1), 0), axis=-1).astype(jnp.int32)
