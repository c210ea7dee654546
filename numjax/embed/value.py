"""The number itself as its embedding (the value embedding of Wallace et al. 2019), or a function of it (xVal)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed.dice import float64_value
from numjax.errors import check_least
from numjax.nn import value_maps
from numjax.protocols import OptionOrContext
from numjax.types import Numeral


def value(number, dim: int, scale: float, limit: float, form: str = "linear"):
    """(f(number), 0, …, 0)[..., dim], with number / scale kept within ±limit so that no product is infinite."""
    xp = number.__array_namespace__()
    first = value_maps.apply_map(number, form, scale, limit)[..., None]
    return xp.concatenate([first, xp.zeros((*number.shape, dim - 1), first.dtype)], axis=-1)


class Embed(protocols.Embed, nn.Module):
    """The value; it has no parameters. With fusion=replace it is xVal's: f(x) times a learned vector.

    Zero is then the zero vector, with any map, as in xVal's code: no other number has it, but its position does.

    Attributes:
      dim: width; all dimensions but the first are zero. map: f, one of `nn.value_maps.MAPS`. scale: divisor of the
        value. limit: largest absolute value of the quotient.
    """

    dim: OptionOrContext[int] = 1
    scale: float = 1.0
    limit: float = 1e30
    map: str = "linear"
    kind = "numeral"

    def __post_init__(self):
        super().__post_init__()
        value_maps.check("value", self.map, self.scale)
        check_least("value", 1, dim=self.dim)

    def host_vectors(self, numerals: Numeral) -> np.ndarray:
        """The vectors in float64, [..., dim]."""
        return value(float64_value(numerals), self.dim, self.scale, self.limit, self.map)

    def host_features(self, numerals: Numeral, surfaces=None) -> dict[str, np.ndarray]:
        """{"vector": float32[N, dim]}, rounded once."""
        del surfaces
        return {"vector": self.host_vectors(numerals).astype(np.float32)}

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        if features and "vector" in features:
            return features["vector"]
        number = jax.tree.map(jnp.asarray, numerals).value
        return value(number, self.dim, self.scale, self.limit, self.map)
