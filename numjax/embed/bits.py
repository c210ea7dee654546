"""A number as the bits of its binary64 (BitTokens; Kreitner et al. 2025, arXiv 2510.06824)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import binary64
from numjax.protocols import OptionOrContext
from numjax.types import NumberRange, Numeral


class Embed(protocols.Embed, nn.Module):
    """±√(dim / E) for each of E bits: 64 of the number and, with `reciprocal`, 64 of one by the number; then zeros.

    It has no parameters. With fusion=replace it stands in the token embedding's place, as in the authors' code.

    Attributes:
      dim: width, at least E; 0: E. reciprocal: the bits of 1 / x too.
    """

    dim: OptionOrContext[int] = 0
    reciprocal: bool = True
    kind = "numeral"

    @property
    def number_range(self) -> NumberRange:
        """Numbers of at most 15 digits within binary64's normal numbers."""
        return NumberRange(digits=15, low=-307, high=307)

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        del features
        bits = binary64.encode(jax.tree.map(jnp.asarray, numerals))
        if self.reciprocal:
            bits = jnp.concatenate([bits, binary64.invert(bits)], axis=-1)
        n_bits = bits.shape[-1]
        size = self.dim or n_bits
        if size < n_bits:
            raise UsageError(f"bits: {n_bits} bits do not fit dim={size}: leave it 0, or set reciprocal=False")
        signs = (2 * bits - 1).astype(jnp.float32) * (size / n_bits) ** 0.5
        return jnp.pad(signs, [(0, 0)] * (bits.ndim - 1) + [(0, size - n_bits)])
