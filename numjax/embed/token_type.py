"""A learned vector per token type (MathGPT, section 3.2): text, variable, number, operator, …"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.nn.dense import project
from numjax.protocols import FromContext
from numjax.types import TYPES, Tokens


class Embed(protocols.Embed, nn.Module):
    """Looks up one of `types` vectors by the first of each position's types.

    Attributes:
      dim: width D.
      types: number of types.
      init_std: by default Xavier's times 0.1, as published.
    """

    dim: FromContext[int]
    types: FromContext[int] = 8
    init_std: float | None = None
    kind = "type"
    reads_channels = (TYPES.name,)

    @nn.compact
    def __call__(self, tokens: Tokens) -> jax.Array:
        std = 0.1 * (2 / (self.types + self.dim)) ** 0.5 if self.init_std is None else self.init_std
        vectors = self.param("vectors", nn.initializers.normal(std), (self.types, self.dim), jnp.float32)
        # With so few rows a product is used for the lookup; its gradient is a product too.
        return project(jax.nn.one_hot(tokens.first_types(), self.types, dtype=jnp.float32), vectors)
