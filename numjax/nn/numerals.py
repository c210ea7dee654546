"""Numerals as arrays on the device: gathering, and the way back from a predicted mantissa and exponent."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numjax.types import Numeral


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


def from_raw(mantissa: jax.Array, exponent: jax.Array, digits: int) -> Numeral:
    """The number mantissa · 10^exponent as predicted: the mantissa goes unrounded into a float digit 0."""
    mantissa = mantissa.astype(jnp.float32)
    whole = jnp.zeros((*mantissa.shape, digits), jnp.float32).at[..., 0].set(jnp.abs(mantissa))
    return Numeral(
        sign=jnp.where(mantissa < 0, -1, 1).astype(jnp.int8),
        digits=whole,
        n_digits=jnp.ones(mantissa.shape, jnp.int32),
        exponent=exponent.astype(jnp.int32),
        valid=jnp.ones(mantissa.shape, bool),
    )


def from_rounded(mantissa: jax.Array, exponent: jax.Array, digits: int, keep: int) -> Numeral:
    """The number mantissa · 10^exponent, rounded half-even to `keep` ≤ 9 significant digits, canonical.

    A mantissa of 10 or more carries into the exponent and one below 1 borrows from it, so that digit 0 is
    never zero; one below 1e-9 is zero. Digits are integers held as float32, as in `from_raw`, so both fill one
    carry of a loop.
    """
    if not 1 <= keep <= min(digits, 9):
        raise ValueError(f"keep must be between 1 and {min(digits, 9)}, not {keep}")
    size = jnp.abs(mantissa.astype(jnp.float32))
    # Shift by comparing with powers of ten, which are exact enough here, never by log10.
    powers = jnp.asarray([10.0**k for k in range(-9, 39)], jnp.float32)
    shift = jnp.sum(size[..., None] >= powers, axis=-1).astype(jnp.int32) - 10
    is_zero = shift < -9
    shift = jnp.where(is_zero, 0, shift)
    scaled = jnp.round(size * jnp.power(10.0, (keep - 1 - shift).astype(jnp.float32))).astype(jnp.int32)
    carried = scaled >= 10**keep
    scaled = jnp.where(carried, scaled // 10, scaled)
    shift = shift + carried
    places = jnp.asarray([10 ** (keep - 1 - i) for i in range(keep)], jnp.int32)
    found = (scaled[..., None] // places) % 10
    found = jnp.where(is_zero[..., None], 0, found)
    used = jnp.max(jnp.where(found > 0, jnp.arange(1, keep + 1), 0), axis=-1)
    padded = jnp.zeros((*mantissa.shape, digits), jnp.float32).at[..., :keep].set(found)
    return Numeral(
        sign=jnp.where(mantissa < 0, -1, 1).astype(jnp.int8),
        digits=padded,
        n_digits=used.astype(jnp.int32),
        exponent=jnp.where(is_zero, 0, exponent.astype(jnp.int32) + shift),
        valid=jnp.ones(mantissa.shape, bool),
    )
