"""A bias of the attention scores for each distance between decimal places: position coupling (Cho et al. 2024, arXiv
2405.20671) with relative positions (Shaw et al. 2018; T5).

Legend: B rows, T positions of queries, S of keys, H heads.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.positions import coupled
from numjax.types import Tokens


class Positions(coupled.Coupling):
    """b[h, distance of the places of key and query], up to `span` in either direction; further places share the last.

    Attention then depends only on how many places two digits are apart. Nothing is learned for a place itself, so
    places beyond those of training are not new. Pairs of which one is no digit have a bias of their own.

    Attributes, besides those of `coupled.Coupling`:
      span: the largest distance with a bias of its own; both directions have one.
      gain: the biases are parameters times this, so that few steps make attention sharp.
    """

    span: int = 4
    gain: float = 10.0
    init_std: float = 0.1

    def setup(self):
        super().setup()
        self.distances = add_distances(self)

    def bias_index(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """The position of each digit, 1 at other tokens, int32[B, T]."""
        del deterministic
        return tokens.channel("significance")[..., 0]

    def bias(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """float32[B, H, T, S]."""
        return self.gain * look_up(self.distances, query - 1, key - 1)


def add_distances(positions: Any) -> jax.Array:
    """The parameters of a module with `span`, `init_std` and a stack, float32[2 span + 2, H].

    Raises:
      UsageError: `span` is below 1.
    """
    if positions.span < 1:
        raise UsageError(f"positions {positions.part_name()}: span must be at least 1, not {positions.span}")
    shape, init = (
        (2 * positions.span + 2, positions.require_stack().heads),
        nn.initializers.normal(positions.init_std),
    )
    return positions.param("distances", init, shape, jnp.float32)


def look_up(distances: jax.Array, query: jax.Array, key: jax.Array) -> jax.Array:
    """The entry of each distance key − query, and the last one where a place is not positive: float32[B, H, T, S].

    Args:
      distances: [2 span + 2, H]. query, key: places, int32[B, T] and int32[B, S].
    """
    span = distances.shape[0] // 2 - 1
    query, key = query[..., :, None], key[..., None, :]
    index = jnp.where((query > 0) & (key > 0), jnp.clip(key - query, -span, span) + span, 2 * span + 1)
    return jnp.moveaxis(jnp.take(distances, index, axis=0), -1, -3)
