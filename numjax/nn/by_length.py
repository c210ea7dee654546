"""Reads strings of characters no further than most of them are long.

Legend: W strings side by side, C characters, K that a short string has at most, D width of what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

SHARE = 4  # one string in so many may be longer than K before all are read to the end


def by_length(encode: Callable[[jax.Array], jax.Array], ids: jax.Array, pad: int, short: int) -> jax.Array:
    """[..., W, D]: what `encode` makes of int[..., W, C], the longest quarter of each row read to C, the rest to K.

    The rest holds strings of more than K only where more than a quarter of some row does: then all rows' is read to C
    too, and its forward pass is made again for the gradient. One program serves both, and which it is depends on no
    shape. (Under `vmap` both branches would run.)

    Args:
      encode: int[N, C or K] → [N, D]; what a string is padded to must change nothing.
      pad: the id behind a string's end. short: K; 0 reads all to C.
    """
    wide, length = (1, *ids.shape)[-2:]
    many = -(-wide // SHARE)

    def read(part: jax.Array) -> jax.Array:
        found = encode(part.reshape(-1, part.shape[-1]))
        return found.reshape(*part.shape[:-1], found.shape[-1])

    if not 0 < short < length or many == wide:
        return read(ids)
    # Rows lie on devices of their own: each is sorted by itself.
    order = jnp.argsort((ids == pad).sum(axis=-1), axis=-1)
    ids = jnp.take_along_axis(ids, order[..., None], axis=-2)
    long, rest = ids[..., :many, :], ids[..., many:, :]
    fits = (rest[..., short:] == pad).all()
    brief = jax.lax.cond(fits, lambda part: read(part[..., :short]), jax.checkpoint(read), rest)
    found = jnp.concatenate([read(long), brief], axis=-2)
    return jnp.take_along_axis(found, jnp.argsort(order, axis=-1)[..., None], axis=-2)
