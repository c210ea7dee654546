"""Learned positions with a random start: in training each row's positions are shifted by a random offset, so that the
vectors of positions that few texts reach are trained too.

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.types import Tokens


class Positions(protocols.Positions, nn.Module):
    """A table of max_length + `most` vectors, added to the stack's input.

    Attributes:
      most: offsets are uniform over 0 … most, one per row and step; in evaluation and generation the offset is 0.
      init_std: as in `learned`.
    """

    stack: FromContext[protocols.Stack | None] = None
    most: int = 100
    init_std: float = 0.02
    bounded = True

    def setup(self):
        if self.most < 0:
            raise UsageError(f"positions random_offset: most must be at least 0, not {self.most}")
        stack = self.require_stack()
        shape = (stack.max_length + self.most, stack.width)
        self.places = self.param("places", nn.initializers.normal(self.init_std), shape, jnp.float32)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        positions = tokens.positions
        if not deterministic:
            rows = (positions.shape[0], 1)
            positions = positions + jax.random.randint(self.make_rng("dropout"), rows, 0, self.most + 1)
        return jnp.take(self.places, positions, axis=0)
