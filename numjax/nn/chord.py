"""Distances between unit vectors in float32, exact enough for neighbours.

Neighbouring numbers of an embedding differ in the last bits of a float32, so a table rounded to float32 loses their
distances before the first subtraction. Here a vector is the unevaluated sum of two float32, high + low, made from
float64 on the host (`geometry.naik.split_float64`). The difference of two close highs is exact (Sterbenz), that of
the lows corrects their rounding, and all later errors are relative: chords have a relative error of about 1e-6. Which
of two chords is longer can depend on less than that, so `margin` computes the difference of their squares as a
product.

Legend: N vectors, D width, T pairs, M others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

_CANDIDATES = 4  # nearest others that are compared; the least margin is among them


def chord(high_ND: jax.Array, low_ND: jax.Array, first: jax.Array, second: jax.Array) -> jax.Array:
    """‖x_first − x_second‖, float32[…], for indices that broadcast against each other."""
    difference = (high_ND[first] - high_ND[second]) + (low_ND[first] - low_ND[second])
    return jnp.sqrt(jnp.square(difference).sum(axis=-1))


def margin(high_ND: jax.Array, low_ND: jax.Array, x: jax.Array, y: jax.Array, z: jax.Array) -> jax.Array:
    """‖x − z‖² − ‖x − y‖² = (y − z) · ((x − y) + (x − z)), float32[…]: above 0 where y is nearer to x than z is.
    Indices broadcast against each other."""
    return _margin(*((high_ND[index], low_ND[index]) for index in (x, y, z)))


def _margin(x, y, z):
    (x, x_low), (y, y_low), (z, z_low) = x, y, z
    across = (y - z) + (y_low - z_low)
    # For neighbours on both sides of x the differences nearly cancel: first highs with highs and lows with lows.
    along = ((x - y) + (x - z)) + ((x_low - y_low) + (x_low - z_low))
    return (across * along).sum(axis=-1)


def find_nearest(
    high_ND: jax.Array, low_ND: jax.Array, pairs_T2: jax.Array, others_M: jax.Array, batch: int = 8
) -> tuple[jax.Array, jax.Array]:
    """For each pair (i, j): the least ‖x_i − x_z‖ and the least `margin` of (i, j, z) over the others z except i and
    j, float32[T] both.

    Args:
      batch: pairs at once; a batch needs batch · M · D differences.
    """
    highs, lows = high_ND[others_M], low_ND[others_M]

    def find_of_pair(pair: jax.Array) -> tuple[jax.Array, jax.Array]:
        x, y = ((high_ND[index], low_ND[index]) for index in pair)
        squares = jnp.square((x[0] - highs) + (x[1] - lows)).sum(axis=-1)
        squares = jnp.where((others_M == pair[0]) | (others_M == pair[1]), jnp.inf, squares)

        def take_nearest(remaining: jax.Array, _) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            index = jnp.argmin(remaining)  # a few of these cost less than a sort
            is_left = jnp.isfinite(remaining[index])
            margin_z = jnp.where(is_left, _margin(x, y, (highs[index], lows[index])), jnp.inf)
            return remaining.at[index].set(jnp.inf), (remaining[index], margin_z)

        _, (nearest, margins) = jax.lax.scan(take_nearest, squares, length=min(_CANDIDATES, len(others_M)))
        return jnp.sqrt(nearest[0]), margins.min()

    return jax.lax.map(find_of_pair, pairs_T2, batch_size=batch)
