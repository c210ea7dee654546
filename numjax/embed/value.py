"""The number itself as its embedding (the value embedding of Wallace et al. 2019)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed.dice import float64_value
from numjax.errors import UsageError
from numjax.protocols import OptionOrContext
from numjax.types import Numeral


def value(number, dim: int, scale: float, limit: float):
    """(number / scale, 0, …, 0)[..., dim], kept within ±limit so that no product is infinite."""
    xp = number.__array_namespace__()
    first = xp.clip(number / scale, -limit, limit)[..., None]
    return xp.concatenate([first, xp.zeros((*number.shape, dim - 1), first.dtype)], axis=-1)


class Embed(protocols.Embed, nn.Module):
    """The value; it has no parameters.

    Attributes:
      dim: width; all dimensions but the first are zero. scale: divisor of the value. limit: largest absolute value.
    """

    dim: OptionOrContext[int] = 1
    scale: float = 1.0
    limit: float = 1e30
    kind = "numeral"

    def __post_init__(self):
        super().__post_init__()
        if not self.scale > 0:
            raise UsageError(f"value: scale must be above 0, not {self.scale:g}")

    def host_vectors(self, numerals: Numeral) -> np.ndarray:
        """The vectors in float64, [..., dim]."""
        return value(float64_value(numerals), self.dim, self.scale, self.limit)

    def host_features(self, numerals: Numeral, surfaces=None) -> dict[str, np.ndarray]:
        """{"vector": float32[N, dim]}, rounded once."""
        del surfaces
        return {"vector": self.host_vectors(numerals).astype(np.float32)}

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        if features and "vector" in features:
            return features["vector"]
        return value(jax.tree.map(jnp.asarray, numerals).value, self.dim, self.scale, self.limit)
