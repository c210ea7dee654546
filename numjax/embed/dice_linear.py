"""DICE as one of LUNA's number encoders: a sphere of a few dimensions and a learned linear layer.

The angle is that of ln(1e-7 + |x|) over [−5, 80] ("log"), or of x over ±100,000 ("value"); values outside are
clipped. The released code does not subtract the start of the range, so numbers below 1 have negative angles in "log",
and in "value" all numbers lie on half of the sphere's range. It raises the last coordinate's sine to the power D
instead of D − 1, and in "log" ignores the sign. `as_published=True` does the same; otherwise the angle is 0 … π, and
−π … 0 for negative numbers in "log".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed import dice
from numjax.errors import UsageError, check_least
from numjax.nn import lstm
from numjax.nn.dense import project
from numjax.protocols import OptionOrContext
from numjax.types import Numeral

RANGES = {"log": (-5.0, 80.0), "value": (-1e5, 1e5)}
TINY = 1e-7


def angle(numerals: Numeral, quantity: str, as_published: bool):
    """θ[...], float64 for NumPy arrays and float32 for JAX arrays; `quantity`: "log" or "value"."""
    xp = numerals.digits.__array_namespace__()
    low, high = RANGES[quantity]
    if xp is np:
        value = dice.float64_value(numerals)
    else:
        value = numerals.value
    coordinate = xp.log(TINY + xp.abs(value)) if quantity == "log" else value
    theta = np.pi * (xp.clip(coordinate, low, high) - (0.0 if as_published else low)) / (high - low)
    return theta if quantity == "value" or as_published else xp.where(value < 0, -theta, theta)


class Embed(protocols.Embed, nn.Module):
    """DICE-D in a few dimensions, rotated, then projected by a learned layer.

    Attributes:
      dim: width of the vector. sphere: D of DICE.
      of: "log" or "value".
      as_published: see above.
      seed: of the rotation.
    """

    dim: OptionOrContext[int] = 64
    sphere: int = 10
    of: str = "log"
    as_published: bool = False
    seed: int = 0
    kind = "numeral"

    def _points(self, numerals: Numeral) -> Any:
        if self.of not in RANGES:
            raise UsageError(f"dice_linear: of must be one of {', '.join(RANGES)}, not {self.of!r}")
        check_least("dice_linear", 1, dim=self.dim, sphere=self.sphere)
        check_least("dice_linear", 0, seed=self.seed)
        points = dice.on_sphere(angle(numerals, self.of, self.as_published), self.sphere, self.as_published)
        rotation_matrix = dice.rotation(self.sphere, self.sphere, self.seed).T
        if isinstance(points, np.ndarray):
            return points @ rotation_matrix
        return jnp.matmul(points, jnp.asarray(rotation_matrix, points.dtype), precision="highest")

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """The points before the projection, computed in float64 and rounded once: {"points": float32[N, sphere]}."""
        del surfaces
        return {"points": self._points(numerals).astype(np.float32)}

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        points = (features or {}).get("points")
        if points is None:
            points = jnp.asarray(self._points(numerals), jnp.float32)
        reach = lstm.uniform(self.sphere)
        kernel = self.param("kernel", reach, (self.sphere, self.dim), jnp.float32)
        return project(points, kernel) + self.param("bias", reach, (self.dim,), jnp.float32)
