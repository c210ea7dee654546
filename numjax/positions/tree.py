"""A token's position in its operator tree (MathGPT, section 3.2): levels × bits of child indices, projected.

Legend: B rows, T positions, L levels, D width.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.dense import project
from numjax.protocols import FromContext
from numjax.types import TREE_POSITIONS, Tokens


def position_bits(indices: jax.Array, bits: int) -> jax.Array:
    """[..., L · bits · 2] of child indices [..., L]: level by level, least bit first, bit 0 → (1, 0), 1 → (0, 1).

    A level below the token's own (index −1) is all zero; of an index from 2^bits on, only the low bits are used.
    """
    bit = (indices[..., None] >> jnp.arange(bits)) & 1
    pairs = (bit[..., None] == jnp.arange(2)) & (indices >= 0)[..., None, None]
    return pairs.reshape(*indices.shape[:-1], -1)


class Positions(protocols.Positions, nn.Module):
    """The bits of a token's tree position times a matrix, added to the stack's input; zero for tokens outside
    trees.

    Attributes:
      levels, bits: of the positions.
      init_std: of the matrix; 1 / √(3 · 2 · levels · bits), which is PyTorch's, by default.
    """

    stack: FromContext[protocols.Stack | None] = None
    levels: int = 32
    bits: int = 6
    init_std: float | None = None
    reads_channels = (TREE_POSITIONS.name,)

    def setup(self):
        if self.levels < 1 or self.bits < 1:
            raise UsageError("positions tree: levels and bits must be at least 1")
        size = 2 * self.levels * self.bits
        std = (3 * size) ** -0.5 if self.init_std is None else self.init_std
        self.kernel = self.param(
            "kernel", nn.initializers.normal(std), (size, self.require_stack().width), jnp.float32
        )

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        del deterministic
        dtype = self.require_stack().dtype
        indices = tokens.channel(TREE_POSITIONS.name)
        if indices.shape[-1] > self.levels:
            raise UsageError(
                f"positions tree: levels={self.levels} are fewer than the {indices.shape[-1]} of the scheme's trees: "
                "give as many"
            )
        encoded = position_bits(indices, self.bits).astype(dtype)
        # A batch without so deep a tree may have fewer levels.
        kernel = self.kernel[: encoded.shape[-1]].astype(dtype)
        return project(encoded, kernel, preferred_element_type=jnp.float32)
