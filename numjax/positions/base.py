"""What positions of symbols inside numbers share: which number of the row it is, and a bias for each distance.

Legend: B rows, T positions of queries, S of keys, D width, H heads.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.types import Tokens


class NumberedPositions(protocols.Positions, nn.Module):
    """Positions that may also say which number of the row a symbol belongs to (multi-level ids; Cho et al. 2024,
    arXiv 2410.15787, for sums of many numbers).

    The first of `reads_channels` is int32[B, T, 2]: (place, which number of the row it is, from 1; 0 elsewhere).

    Attributes:
      numbers: with n above 0, a learned vector for each of n numbers; further ones use the last one.
      init_std: as in `learned`.
    """

    stack: FromContext[protocols.Stack | None] = None
    numbers: int = 0
    init_std: float = 0.02

    def setup(self):
        if self.numbers < 0:
            raise UsageError(f"positions {self.part_name()}: numbers must not be negative")
        if self.numbers:
            shape, init = (self.numbers, self.require_stack().width), nn.initializers.normal(self.init_std)
            self.levels = self.param("levels", init, shape, jnp.float32)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """The vector of the number that each symbol belongs to, x[B, T, D]; zeros without `numbers`."""
        del deterministic
        number = tokens.channel(self.reads_channels[0])[..., 1]
        if not self.numbers:
            return jnp.zeros((*number.shape, self.require_stack().width), jnp.float32)
        level = jnp.clip(number, 1, self.numbers) - 1
        return jnp.where((number > 0)[..., None], jnp.take(self.levels, level, axis=0), 0.0)


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


def look_up_distances(distances: jax.Array, query: jax.Array, key: jax.Array) -> jax.Array:
    """The entry of each distance key − query, and the last one where a place is not positive: float32[B, H, T, S].

    Args:
      distances: [2 span + 2, H]. query, key: places, int32[B, T] and int32[B, S].
    """
    span = distances.shape[0] // 2 - 1
    query, key = query[..., :, None], key[..., None, :]
    index = jnp.where((query > 0) & (key > 0), jnp.clip(key - query, -span, span) + span, 2 * span + 1)
    return jnp.moveaxis(jnp.take(distances, index, axis=0), -1, -3)
