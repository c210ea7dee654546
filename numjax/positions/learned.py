"""A learned vector for each position in the text (Gehring et al. 2017; BERT, GPT-2).

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
    """A table of the stack's max_length vectors, added to its input.

    Attributes:
      offset: rows of the table before that of the first position: 2 in RoBERTa and BART.
      init_std: as small as that of token vectors, for any scale of the kernels, so that neither outweighs the other.
    """

    stack: FromContext[protocols.Stack | None] = None
    offset: int = 0
    init_std: float = 0.02
    bounded = True

    def setup(self):
        if self.offset < 0:
            raise UsageError(f"positions learned: offset must be at least 0, not {self.offset}")
        stack = self.require_stack()
        shape = (stack.max_length + self.offset, stack.width)
        self.places = self.param("places", nn.initializers.normal(self.init_std), shape, jnp.float32)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        del deterministic
        return jnp.take(self.places, tokens.positions + self.offset, axis=0)
