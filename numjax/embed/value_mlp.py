"""An MLP of a number's value (the value-aware prefix of arXiv 2601.09706; IBM's interleaving, arXiv 2410.19353)."""

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


class Embed(protocols.Embed, nn.Module):
    """W₂ gelu(W₁ f(x) + b₁) + b₂, with f(x) a function of the number that keeps large ones small.

    Attributes:
      dim: width. hidden: width of the MLP, by default 2 · `dim`.
      map: f, one of `nn.value_maps.MAPS`. scale: divisor of the number. limit: largest absolute value of the
        quotient; with a linear map at most 1e6, beyond which gradients overflow.
    """

    dim: OptionOrContext[int] = 64
    hidden: int = 0
    map: str = "log1p"
    scale: float = 1.0
    limit: float = 1e30
    kind = "numeral"

    def __post_init__(self):
        super().__post_init__()
        value_maps.check("value_mlp", self.map, self.scale)
        check_least("value_mlp", 1, dim=self.dim)
        check_least("value_mlp", 0, hidden=self.hidden)

    def _apply_map(self, values):
        limit = min(self.limit, value_maps.POWER_LIMIT) if self.map.startswith("linear") else self.limit
        return value_maps.apply_map(values, self.map, self.scale, limit)

    def host_features(self, numerals: Numeral, surfaces=None) -> dict[str, np.ndarray]:
        """{"value": f(x) float32[N], rounded once}."""
        del surfaces
        values = self._apply_map(float64_value(numerals))
        return {"value": values.astype(np.float32)}

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        if features and "value" in features:
            values = features["value"]
        else:
            numbers = jax.tree.map(jnp.asarray, numerals).value
            values = self._apply_map(numbers)
        up = nn.gelu(nn.Dense(self.hidden or 2 * self.dim, name="up")(values[..., None]))
        return nn.Dense(self.dim, name="down")(up)
