"""Distances between unit vectors in float32, without losing those of neighbours.

Neighbouring numbers of an embedding differ in the last bits of a float32, so a table rounded to it has lost their
distances before the first subtraction. Here a vector is the unevaluated sum of two float32, high + low, made from
float64 on the host (`geometry.naik.two_floats`). The difference of two near highs is exact (Sterbenz), that of the
lows makes up for their rounding, and all that follows is relative: chords come out to about 1e-6 of themselves.

Legend: N vectors, D width, T pairs, M others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp


def chord(high_ND: jax.Array, low_ND: jax.Array, one: jax.Array, other: jax.Array) -> jax.Array:
    """‖x_one − x_other‖, float32[…], for indices that broadcast against each other."""
    difference = (high_ND[one] - high_ND[other]) + (low_ND[one] - low_ND[other])
    return jnp.sqrt(jnp.square(difference).sum(axis=-1))


def least(
    high_ND: jax.Array, low_ND: jax.Array, pairs_T2: jax.Array, others_M: jax.Array, batch: int = 8
) -> jax.Array:
    """The least ‖x_i − x_z‖ over the others z except i and j, float32[T], for each pair (i, j).

    Args:
      batch: pairs at once, batch · M · D differences each.
    """
    highs, lows = high_ND[others_M], low_ND[others_M]

    def one(pair: jax.Array) -> jax.Array:
        difference = (high_ND[pair[0]] - highs) + (low_ND[pair[0]] - lows)
        squares = jnp.square(difference).sum(axis=-1)
        return jnp.sqrt(jnp.where((others_M == pair[0]) | (others_M == pair[1]), jnp.inf, squares).min())

    return jax.lax.map(one, pairs_T2, batch_size=batch)
