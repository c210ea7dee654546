"""A learned vector a token."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.types import Tokens


def lookup(table_VD: jax.Array, ids_BT: jax.Array) -> jax.Array:
    """table[ids], [B, T, D]."""
    return jnp.take(table_VD, ids_BT, axis=0)


class Embed(nn.Module):
    """Token embedding TE (NumGPT eq. 5).

    Attributes:
      dim: width D.
      vocab_size: V, padded.
      init_std: standard deviation of the initial vectors.
    """

    dim: int
    vocab_size: int
    init_std: float = 0.02
    kind = "token"

    def setup(self):
        shape = (self.vocab_size, self.dim)
        self.table = self.param("table", nn.initializers.normal(self.init_std), shape, jnp.float32)

    def __call__(self, tokens: Tokens) -> jax.Array:
        return lookup(self.table, tokens.ids)
