"""Distances between unit vectors in float32, without losing those of neighbours.

Neighbouring numbers of an embedding differ in the last bits of a float32, so a table rounded to it has lost their
distances before the first subtraction. Here a vector is the unevaluated sum of two float32, high + low, made from
float64 on the host (`geometry.naik.two_floats`). The difference of two near highs is exact (Sterbenz), that of the
lows makes up for their rounding, and all that follows is relative: chords come out to about 1e-6 of themselves. Which
of two is longer can hang on less than that, so it is asked of the difference of their squares, written as a product.

Legend: N vectors, D width, T pairs, M others.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

_CANDIDATES = 4  # the nearest others, among which the least margin is


def chord(high_ND: jax.Array, low_ND: jax.Array, one: jax.Array, other: jax.Array) -> jax.Array:
    """‖x_one − x_other‖, float32[…], for indices that broadcast against each other."""
    difference = (high_ND[one] - high_ND[other]) + (low_ND[one] - low_ND[other])
    return jnp.sqrt(jnp.square(difference).sum(axis=-1))


def margin(high_ND: jax.Array, low_ND: jax.Array, x: jax.Array, near: jax.Array, other: jax.Array) -> jax.Array:
    """‖x − other‖² − ‖x − near‖² = (near − other) · ((x − near) + (x − other)), float32[…]: above 0 where `near` is
    nearer. Indices broadcast against each other."""
    return _margin(*((high_ND[at], low_ND[at]) for at in (x, near, other)))


def _margin(x, near, other):
    (x, x_low), (near, near_low), (other, other_low) = x, near, other
    across = (near - other) + (near_low - other_low)
    # Of two neighbours on either side the differences nearly cancel: highs with highs first, lows with lows.
    along = ((x - near) + (x - other)) + ((x_low - near_low) + (x_low - other_low))
    return (across * along).sum(axis=-1)


def least(
    high_ND: jax.Array, low_ND: jax.Array, pairs_T2: jax.Array, others_M: jax.Array, batch: int = 8
) -> tuple[jax.Array, jax.Array]:
    """The least ‖x_i − x_z‖ and the least `margin` of (i, j, z) over the others z except i and j, float32[T] both,
    for each pair (i, j).

    Args:
      batch: pairs at once, batch · M · D differences each.
    """
    highs, lows = high_ND[others_M], low_ND[others_M]

    def one(pair: jax.Array) -> tuple[jax.Array, jax.Array]:
        x, near = ((high_ND[at], low_ND[at]) for at in pair)
        squares = jnp.square((x[0] - highs) + (x[1] - lows)).sum(axis=-1)
        squares = jnp.where((others_M == pair[0]) | (others_M == pair[1]), jnp.inf, squares)

        def next_one(left: jax.Array, _) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            at = jnp.argmin(left)  # a few of these cost less than a sort
            there = jnp.isfinite(left[at])
            found = jnp.where(there, _margin(x, near, (highs[at], lows[at])), jnp.inf)
            return left.at[at].set(jnp.inf), (left[at], found)

        _, (nearest, margins) = jax.lax.scan(next_one, squares, length=min(_CANDIDATES, len(others_M)))
        return jnp.sqrt(nearest[0]), margins.min()

    return jax.lax.map(one, pairs_T2, batch_size=batch)
