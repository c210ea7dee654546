"""A bias of the attention scores for each distance between decimal places: position coupling (Cho et al. 2024, arXiv
2405.20671) with relative positions (Shaw et al. 2018; T5).

Legend: B rows, T positions of queries, S of keys, H heads.
"""

from __future__ import annotations

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
        if self.span < 1:
            raise UsageError(f"positions coupled_bias: span must be at least 1, not {self.span}")
        shape, init = (2 * self.span + 2, self.require_stack().heads), nn.initializers.normal(self.init_std)
        self.distances = self.param("distances", init, shape, jnp.float32)

    def bias_index(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """The position of each digit, 1 at other tokens, int32[B, T]."""
        del deterministic
        return tokens.channel("significance")[..., 0]

    def bias(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """float32[B, H, T, S]."""
        query, key = query[..., :, None], key[..., None, :]
        distance = jnp.clip(key - query, -self.span, self.span) + self.span
        index = jnp.where((query > 1) & (key > 1), distance, 2 * self.span + 1)
        return self.gain * jnp.moveaxis(jnp.take(self.distances, index, axis=0), -1, -3)
