"""Where a token stands in its operator tree (MathGPT, section 3.2): levels × bits of child indices, projected."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.protocols import Told
from numjax.types import Tokens


def position_bits(indices: jax.Array, bits: int) -> jax.Array:
    """[..., L · bits · 2] of child indices [..., L]: level by level, least bit first, bit 0 → (1, 0), 1 → (0, 1).

    A level below the token's own (index −1) is all zero; of an index beyond 2^bits the low bits remain.
    """
    bit = (indices[..., None] >> jnp.arange(bits)) & 1
    pairs = (bit[..., None] == jnp.arange(2)) & (indices >= 0)[..., None, None]
    return pairs.reshape(*indices.shape[:-1], -1)


class Embed(protocols.Embed, nn.Module):
    """The bits of a token's tree position times a matrix; zero for what stands in no tree.

    Attributes:
      dim: width D. levels, bits: of the positions.
      init_std: of the matrix; 1 / √(3 · 2 · levels · bits), which is PyTorch's, by default.
      dtype: compute type of the product.
    """

    dim: Told[int]
    levels: int = 32
    bits: int = 6
    init_std: float | None = None
    dtype: Told[str] = "float32"
    kind = "tree"

    @nn.compact
    def __call__(self, tokens: Tokens) -> jax.Array:
        if tokens.tree_positions is None:
            raise UsageError("embed tree_position reads tree positions, but the scheme has none: use scheme trees")
        size = 2 * self.levels * self.bits
        std = (3 * size) ** -0.5 if self.init_std is None else self.init_std
        kernel = self.param("kernel", nn.initializers.normal(std), (size, self.dim), jnp.float32)
        encoded = position_bits(tokens.tree_positions, self.bits).astype(self.dtype)
        # Rows without so deep a tree may come with fewer levels.
        kernel = kernel[: encoded.shape[-1]].astype(self.dtype)
        return jnp.matmul(encoded, kernel, preferred_element_type=jnp.float32)
