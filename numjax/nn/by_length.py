"""Encodes strings of characters without processing the padding of short ones.

Legend: W strings side by side, C characters, K most characters of a short string, D width of a string's vector.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

SHARE = 4  # if more than one string in SHARE is longer than K, all are encoded in full


def encode_by_length(encode: Callable[[jax.Array], jax.Array], ids: jax.Array, pad: int, short: int) -> jax.Array:
    """[..., W, D]: encodes int[..., W, C], the longest quarter of each row to C characters, the rest to K.

    If more than a quarter of some row's strings are longer than K, the rest of all rows is encoded to C too, and its
    forward pass is recomputed for the gradient. One compiled program covers both cases. (Under `vmap` both branches
    would run.)

    Args:
      encode: int[N, C or K] → [N, D]; its result may not depend on the padding.
      pad: the id behind a string's end. short: K; 0 encodes everything to C.
    """
    n_strings, length = (1, *ids.shape)[-2:]
    n_long = -(-n_strings // SHARE)

    def encode_part(part: jax.Array) -> jax.Array:
        vectors = encode(part.reshape(-1, part.shape[-1]))
        return vectors.reshape(*part.shape[:-1], vectors.shape[-1])

    if not 0 < short < length or n_long == n_strings:
        return encode_part(ids)
    # Rows may lie on different devices: each is sorted by itself.
    order = jnp.argsort((ids == pad).sum(axis=-1), axis=-1)
    ids = jnp.take_along_axis(ids, order[..., None], axis=-2)
    longest, rest = ids[..., :n_long, :], ids[..., n_long:, :]
    is_short = (rest[..., short:] == pad).all()
    short_vectors = jax.lax.cond(
        is_short, lambda part: encode_part(part[..., :short]), jax.checkpoint(encode_part), rest
    )
    vectors = jnp.concatenate([encode_part(longest), short_vectors], axis=-2)
    return jnp.take_along_axis(vectors, jnp.argsort(order, axis=-1)[..., None], axis=-2)
