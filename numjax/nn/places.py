"""Finds the decimal places of digits in sequences of tokens.

Legend: B rows, T positions.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Places(NamedTuple):
    """Where digits stand in their numbers. A number is a run of digits with at most one point inside; a point without
    digits is one too, with `most` −1.

    Attributes:
      number: int32[B, T], the number of its row that a position belongs to, from 0; −1 for none.
      place: int32[B, T], k of a digit for 10^k; below 0 behind the point.
      least, most: int32[B, T], the least and the greatest place of the number.
      All are 0 outside numbers, but for `number`.
    """

    number: jax.Array
    place: jax.Array
    least: jax.Array
    most: jax.Array


def find_places(is_digit_BT: jax.Array, is_point_BT: jax.Array, is_reversed_BT: jax.Array) -> Places:
    """The places of digits, of numbers with their first digit first or, where is_reversed, with their last.

    A second point in a run counts as none.
    """
    return Places(*jax.vmap(_find_row)(is_digit_BT, is_point_BT, is_reversed_BT))


def _find_row(is_digit: jax.Array, is_point: jax.Array, is_reversed: jax.Array) -> tuple[jax.Array, ...]:
    inside, size = is_digit | is_point, len(is_digit)
    begins = inside & ~jnp.pad(inside, (1, 0))[:-1]
    number = jnp.where(inside, jnp.cumsum(begins) - 1, -1)
    segment = jnp.where(inside, number, size)

    def of_number(values: jax.Array, combine=jax.ops.segment_min) -> jax.Array:
        return combine(values, segment, num_segments=size + 1)[segment]

    count = jnp.cumsum(is_digit)  # digits of the row up to and with this position
    end = of_number(count, jax.ops.segment_max)
    start = of_number(count - is_digit)
    # Digits up to the point: of the row, so that differences count digits of the number.
    far = jnp.iinfo(jnp.int32).max
    at_point = of_number(jnp.where(is_point, count, far))
    at_point = jnp.where(at_point == far, jnp.where(is_reversed, start, end), at_point)
    place = jnp.where(is_reversed, count - at_point - 1, at_point - count)
    first, last = (
        jnp.where(is_reversed, start - at_point, at_point - end),
        jnp.where(is_reversed, end - at_point - 1, at_point - start - 1),
    )
    return number, jnp.where(is_digit, place, 0), jnp.where(inside, first, 0), jnp.where(inside, last, 0)


def find_inside(ids_BT: jax.Array, opening: int, closing: int) -> jax.Array:
    """Whether the last of two tokens up to each position is `opening`, bool[B, T]."""
    at = jnp.arange(ids_BT.shape[1])

    def latest(token: int) -> jax.Array:
        return jax.lax.cummax(jnp.where(ids_BT == token, at, -1), axis=1)

    return latest(opening) > latest(closing)
