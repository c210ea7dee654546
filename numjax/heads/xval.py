"""A number as one real value beside the token (xVal; Golkar et al. 2023, arXiv 2310.02989).

Its input side is `embeds.NAME=value` with `fusion=replace`: the value times a learned vector at [NUM].

Legend: B rows, T positions, D width, F width of the MLP.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from decimal import Decimal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.heads import softmax
from numjax.nn.numerals import from_mantissa
from numjax.types import Estimate, HeadOut, Numeral, Tokens

MAPS = ("linear", "log1p")


class Head(softmax.NumberWriter):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] a value u = MLP(h): its log density is that of
    N(u; map(x), ½), so that the loss is the squared error of the paper, but for a constant.

    Attributes, beside those of `softmax.NumberWriter`:
      map: what of a number is predicted: "linear", x / scale, or "log1p", sign(x) · ln(1 + |x| / scale).
      hidden: F, by default 4 · D.
      keep: significant digits of a number that is written. share: of the density that lies in an estimate's interval.
    """

    map: str = "log1p"
    scale: float = 1.0
    hidden: int = 0
    keep: int = 5
    share: float = 0.9

    densities = ("number",)

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        if self.map not in MAPS:
            raise UsageError(f"xval: map must be one of {', '.join(MAPS)}, not {self.map!r}")
        if not self.scale > 0:
            raise UsageError(f"xval: scale must be above 0, not {self.scale:g}")
        if not 1 <= self.keep <= min(9, self.digits):
            raise UsageError(f"xval: keep must lie between 1 and {min(9, self.digits)}, not {self.keep}")
        inner, init, zeros = (
            self.hidden or 4 * self.width,
            nn.initializers.normal(self.init_std),
            nn.initializers.zeros,
        )
        weights = {
            "kernel": softmax.table(self, table_VD, self.width),
            "number_up": self.param("number_up", init, (self.width, inner), jnp.float32),
            "number_up_bias": self.param("number_up_bias", zeros, (inner,), jnp.float32),
            "number_down": self.param("number_down", init, (inner, 1), jnp.float32),
            "number_down_bias": self.param("number_down_bias", zeros, (1,), jnp.float32),
        }
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"number": the log density of its mapped value}."""
        # Beyond float32 nothing is learned of a number but that it is large.
        value = jnp.clip(numerals.value, -1e30, 1e30) / self.scale
        wanted = value if self.map == "linear" else jnp.sign(value) * jnp.log1p(jnp.abs(value))
        return {"number": -jnp.square(wanted - self._read(out)) - 0.5 * np.log(np.pi)}

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, Estimate]:
        """The value that is predicted, or with a key one drawn around it, rounded to `keep` digits."""
        mean = self._read(out)
        reach = statistics.NormalDist().inv_cdf((1 + self.share) / 2) * np.sqrt(0.5)
        drawn = mean if key is None else mean + np.sqrt(0.5) * jax.random.normal(key, mean.shape)
        values = [self._value(u) for u in (drawn, mean - reach, mean + reach)]
        none = jnp.zeros(mean.shape, jnp.int32)
        numeral, low, high = (from_mantissa(value, none, self.digits, self.keep) for value in values)
        return numeral, Estimate(values[0], none, low, high, jnp.full(mean.shape, self.share, jnp.float32))

    def represents(self, value: Decimal) -> bool:
        """Of `keep` significant digits at most and no more than 10^30 in size; how near the head comes is another
        matter."""
        return not value or (len(value.normalize().as_tuple().digits) <= self.keep and -9 < value.adjusted() < 30)

    def _read(self, out: HeadOut) -> jax.Array:
        w = out.weights
        up = jax.nn.gelu(out.hidden.astype(jnp.float32) @ w["number_up"] + w["number_up_bias"])
        return (up @ w["number_down"] + w["number_down_bias"])[..., 0]

    def _value(self, u: jax.Array) -> jax.Array:
        if self.map == "log1p":
            u = jnp.sign(u) * jnp.expm1(jnp.clip(jnp.abs(u), 0, 69.0))  # e^69 is 10^30
        return jnp.clip(u * self.scale, -1e30, 1e30)
