"""The size of a number at a glance: sign, order of magnitude and first digits (of our own, for the scheme `limbs`).

Legend: E powers of ten, N leading digits.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.types import NumberRange, Numeral


class Embed(protocols.Embed, nn.Module):
    """[sign, is zero, whether |x| ≥ 10^e for e = low … high, one of ten for each of the first N digits]; it has no
    parameters.

    Numbers whose first digits differ are told apart here alone, without reading all digits. The thermometer makes
    "larger" a direction: numbers beyond `low` and `high` look like those at the end.

    Attributes:
      dim: width, padded with zeros; 0: the number of features, which a fusion projects to the model's width.
      low, high: powers of ten. digits: N.
    """

    dim: int = 0
    low: int = -6
    high: int = 30
    digits: int = 3
    kind = "numeral"

    def __post_init__(self):
        super().__post_init__()
        if self.low > self.high or self.digits < 1:
            raise UsageError("leading: low must not exceed high, and digits be at least 1")

    @property
    def number_range(self) -> NumberRange:
        """Numbers whose digits are all leading digits."""
        return NumberRange(digits=self.digits, low=self.low, high=self.high)

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        del features
        numerals = jax.tree.map(jnp.asarray, numerals)
        is_zero = (numerals.n_digits == 0)[..., None]
        powers = jnp.arange(self.low, self.high + 1)
        reaches = (numerals.exponent[..., None] >= powers) & ~is_zero
        first = numerals.digits[..., : self.digits].astype(jnp.int32)
        one_hot = (first[..., None] == jnp.arange(10)).reshape(*first.shape[:-1], -1)
        sign = numerals.sign.astype(jnp.float32)[..., None]
        vector = jnp.concatenate([sign, *(x.astype(jnp.float32) for x in (is_zero, reaches, one_hot))], axis=-1)
        width = self.dim or vector.shape[-1]
        if vector.shape[-1] > width:
            raise UsageError(f"leading: {vector.shape[-1]} features do not fit dim={width}: leave it 0")
        return jnp.pad(vector, [(0, 0)] * (vector.ndim - 1) + [(0, width - vector.shape[-1])])
