"""Scores fall with distance, at a rate of each head's own (ALiBi; Press et al. 2022).

Legend: B rows, H heads, T queries, S keys.
"""

from __future__ import annotations

import math

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.protocols import Told


def slopes(heads: int) -> np.ndarray:
    """float64[H]: 2^(−8h/H) for h = 1 … H where H is a power of two; else those of the power below, and of the power
    above every other one."""
    power = 2 ** math.floor(math.log2(heads))
    found = 2.0 ** (-8 * np.arange(1, power + 1) / power)
    between = 2.0 ** (-4 * np.arange(1, 2 * power + 1, 2) / power)
    return np.concatenate([found, between])[:heads]


class Positions(protocols.Positions, nn.Module):
    """−slope · |distance| added to the scores; nothing is learned. In an encoder both sides fall alike."""

    stack: Told[protocols.Stack | None] = None

    def bias(self, query_BT: jax.Array, key_BS: jax.Array) -> jax.Array:
        """float32[B, H, T, S]."""
        distance = jnp.abs(query_BT[:, None, :, None] - key_BS[:, None, None, :]).astype(jnp.float32)
        return -jnp.asarray(slopes(self.inside().heads), jnp.float32)[:, None, None] * distance
