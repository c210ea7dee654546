"""Learned frequencies of a number (periodic embeddings; Gorishniy et al. 2022, arXiv 2203.05556).

Legend: k frequencies.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import value_maps
from numjax.nn.dense import project
from numjax.protocols import OptionOrContext
from numjax.types import Numeral


class Embed(protocols.Embed, nn.Module):
    """ReLU([cos 2πcz, sin 2πcz] W + b) with learned frequencies c ~ N(0, σ²) of a function z = f(x) of the number.

    The paper's columns are standardised, which numbers of a text cannot be. Here f brings them into a small range:
    the logarithm of a number of thirty digits is 69. With f linear, the float32 angle of a large x has lost its
    fraction: from c·x = 2^24 on, vectors are noise. So |x / scale| counts as `limit` at most.

    Attributes:
      dim: width. frequencies: k. sigma: σ, which the authors tune between .01 and 100.
      map: f, one of `nn.value_maps.MAPS`. scale: divisor of the number. limit: largest absolute value of the
        quotient with a linear map.
      as_published: z = x / scale without a limit but float32's, whatever `map` says.
    """

    dim: OptionOrContext[int] = 64
    frequencies: int = 48
    sigma: float = 0.01
    map: str = "log1p"
    scale: float = 1.0
    limit: float = 1e6
    as_published: bool = False
    kind = "numeral"

    def __post_init__(self):
        super().__post_init__()
        value_maps.check("periodic", self.map, self.scale)
        if self.frequencies < 1:
            raise UsageError(f"periodic: frequencies must be at least 1, not {self.frequencies}")
        if not self.sigma > 0:
            raise UsageError(f"periodic: sigma must be above 0, not {self.sigma:g}")
        if not self.dim > 0:
            raise UsageError(f"periodic: dim must be above 0, not {self.dim}")

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        del features
        form = "linear" if self.as_published else self.map
        is_limited = form.startswith("linear") and not self.as_published
        number = jax.tree.map(jnp.asarray, numerals).value
        z = value_maps.apply_map(number, form, self.scale, self.limit if is_limited else value_maps.LIMIT)
        normal, k = nn.initializers.normal(self.sigma), self.frequencies
        angles = 2 * jnp.pi * z[..., None] * self.param("frequency", normal, (k,), jnp.float32)
        pairs = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=-1)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (2 * k, self.dim), jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.dim,), jnp.float32)
        return nn.relu(project(pairs, kernel) + bias)
