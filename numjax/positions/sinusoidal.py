"""Sines and cosines of the position (Vaswani et al. 2017, section 3.5).

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
    """sin(t · base^(−2i/D)) in dimension 2i and the cosine in 2i + 1, times `scale`, added to the stack's input.

    Attributes:
      base: of the wavelengths, which grow from 2π to 2π · base.
      scale: factor; here token vectors start with a standard deviation of 0.02, not of 1 as in the paper, which
        multiplies them by √D.
    """

    stack: FromContext[protocols.Stack | None] = None
    base: float = 10_000.0
    scale: float = 0.02

    def setup(self):
        if self.base <= 0:
            raise UsageError(f"positions sinusoidal: base must be above 0, not {self.base}")

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        del deterministic
        width = self.require_stack().width
        rates = self.base ** (-jnp.arange(0, width, 2, dtype=jnp.float32) / width)
        angles = tokens.positions[..., None].astype(jnp.float32) * rates
        pairs = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1)
        return self.scale * pairs.reshape(*tokens.positions.shape, -1)[..., :width]
