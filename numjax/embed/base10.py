"""A number as the digits of its exponent and mantissa, each one of ten (BitTokens' base-10 code; Kreitner et al.
2025, arXiv 2510.06824)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import base10
from numjax.protocols import OptionOrContext
from numjax.types import NumberRange, Numeral


class Embed(protocols.Embed, nn.Module):
    """The sign (1: not negative, 0: negative), then ten features for each of twenty digits, of which one is 1.

    It has no parameters.

    Attributes:
      dim: width, padded with zeros; 0: the 201 features.
    """

    dim: OptionOrContext[int] = 0
    kind = "numeral"

    @property
    def number_range(self) -> NumberRange:
        """Numbers of at most 17 digits between 10^−500 and 10^500."""
        return NumberRange(digits=base10.MANTISSA_DIGITS, low=base10.LOW, high=base10.HIGH)

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        del features
        digits = jax.nn.one_hot(base10.encode(numerals), 10, dtype=jnp.float32)
        sign = (jnp.asarray(numerals.sign) > 0).astype(jnp.float32)[..., None]
        vector = jnp.concatenate([sign, digits.reshape(*digits.shape[:-2], -1)], axis=-1)
        size = self.dim or vector.shape[-1]
        if size < vector.shape[-1]:
            raise UsageError(f"base10: {vector.shape[-1]} features do not fit dim={size}: leave it 0")
        return jnp.pad(vector, [(0, 0)] * (vector.ndim - 1) + [(0, size - vector.shape[-1])])
