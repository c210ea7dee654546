"""Scores that decrease with distance, at a different rate for each head (ALiBi; Press et al. 2022).

Legend: B rows, H heads, T queries, S keys.
"""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.protocols import FromContext


def slopes(heads: int) -> np.ndarray:
    """float64[H]: 2^(−8h/H) for h = 1 … H if H is a power of two; else all slopes of the power of two below, then
    every other one of the power above."""
    power = 2 ** math.floor(math.log2(heads))
    power_slopes = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    extra_slopes = 2.0 ** (-4 * np.arange(1, 2 * power + 1, 2) / power)
    return np.concatenate([power_slopes, extra_slopes])[:heads]


class Positions(protocols.Positions, nn.Module):
    """Adds −slope · |distance| to the scores; nothing is learned. In an encoder both sides have the same slope."""

    stack: FromContext[protocols.Stack | None] = None

    def bias(self, query_BT: jax.Array, key_BS: jax.Array) -> jax.Array:
        """float32[B, H, T, S]."""
        distance = jnp.abs(query_BT[:, None, :, None] - key_BS[:, None, None, :]).astype(jnp.float32)
        return -jnp.asarray(slopes(self.require_stack().heads), jnp.float32)[:, None, None] * distance
