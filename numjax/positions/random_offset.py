"""Learned positions that begin anywhere: in training each row's places are moved by a random offset, so that the
vectors of places that few texts reach are trained too.

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.protocols import Told
from numjax.types import Tokens


class Positions(protocols.Positions, nn.Module):
    """A table of max_length + `most` vectors, added to the stack's input.

    Attributes:
      most: offsets are uniform over 0 … most, one a row and step; 0 where nothing is drawn, in evaluations and in
        writing.
      init_std: as in `learned`.
    """

    stack: Told[protocols.Stack | None] = None
    most: int = 100
    init_std: float = 0.02
    bounded = True

    def setup(self):
        stack = self.inside()
        shape = (stack.max_length + self.most, stack.width)
        self.places = self.param("places", nn.initializers.normal(self.init_std), shape, jnp.float32)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        places = tokens.positions
        if not deterministic:
            rows = (places.shape[0], 1)
            places = places + jax.random.randint(self.make_rng("dropout"), rows, 0, self.most + 1)
        return jnp.take(self.places, places, axis=0)
