"""Prototype mantissa and learned exponent (NumGPT eq. 1–4)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.numerals import exponent_id
from numjax.protocols import OptionOrContext
from numjax.types import Numeral


def mantissa_features(mantissa: jax.Array, count: int, sigma: float, reach: float = 10.0) -> jax.Array:
    """exp(−(f − q_i)² / σ²)[..., count] with prototypes q_i evenly spaced over [−reach, reach].

    NumGPT eq. 3 and 4: no factor ½, so σ² is twice a Gaussian's variance. float32.
    """
    prototypes = jnp.linspace(-reach, reach, count, dtype=jnp.float32)
    return jnp.exp(-jnp.square((mantissa.astype(jnp.float32)[..., None] - prototypes) / sigma))


def prototype(
    numerals: Numeral, exponent_table: jax.Array, count: int, sigma: float, low: int, high: int
) -> jax.Array:
    """NE(n) = [NE^e(e(n)), NE^f(f(n))] (eq. 2), float32[..., d_e + count]; zero has mantissa and exponent 0."""
    exponent = jnp.take(exponent_table, exponent_id(numerals.exponent, low, high), axis=0)
    return jnp.concatenate([exponent, mantissa_features(numerals.mantissa, count, sigma)], axis=-1)


class Embed(protocols.Embed, nn.Module):
    """NumGPT's numeral embedding.

    Attributes:
      dim: d = d_e + d_f.
      exponent_dim: d_e; a quarter of `dim` by default.
      sigma: σ, the width of a prototype, in units of the mantissa. The classifiers of the paper and its
        code use 0.5, its released pre-training script 5.
      low, high: the exponents with a vector of their own; below is −INF, above +INF. The mantissa is kept
        in both cases.
      init_std: standard deviation of the initial exponent vectors.
    """

    dim: OptionOrContext[int] = 64
    exponent_dim: int | None = None
    sigma: float = 0.5
    low: int = -8
    high: int = 12
    init_std: float = 0.02
    kind = "numeral"

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        del features
        d_e = self.dim // 4 if self.exponent_dim is None else self.exponent_dim
        if not 0 < d_e < self.dim:
            raise UsageError(f"prototype: exponent_dim must lie between 1 and dim − 1 = {self.dim - 1}, not {d_e}")
        if self.low > self.high:
            raise UsageError(f"prototype: low must not be above high, not {self.low} and {self.high}")
        if not self.sigma > 0:
            raise UsageError(f"prototype: sigma must be above 0, not {self.sigma:g}")
        shape = (self.high - self.low + 3, d_e)
        table = self.param("exponent", nn.initializers.normal(self.init_std), shape, jnp.float32)
        return prototype(numerals, table, self.dim - d_e, self.sigma, self.low, self.high)
