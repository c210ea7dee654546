"""A number as one real value next to the token (xVal; Golkar et al. 2023, arXiv 2310.02989).

For its input use `embeds.NAME=value` with `fusion=replace` and the same map: f(x) times a learned vector at [NUM].

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
from numjax.heads import base
from numjax.nn import gaussians, value_maps
from numjax.nn.dense import project
from numjax.nn.numerals import from_mantissa
from numjax.types import Estimate, HeadOut, NumberRange, Numeral, Targets, Tokens


class Head(base.NumberWriter, base.NumberDistribution):
    """p(x_t) = softmax(h W) with [NUM] among the tokens, and at [NUM] a value u = MLP(h). Its log density is that of
    N(u; map(x), ½), so the loss is the squared error of the paper up to a constant.

    Attributes, besides those of `base.NumberWriter`:
      map: the predicted function of a number, one of `nn.value_maps.MAPS`. scale: divisor of the number.
      hidden: F, by default 4 · D.
      keep: significant digits of a generated number. share: share of the density in an estimate's interval.
    """

    map: str = "log1p"
    scale: float = 1.0
    hidden: int = 0
    keep: int = 5
    share: float = 0.9

    densities = ("number",)
    exact = False

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        value_maps.check("xval", self.map, self.scale)
        if not 1 <= self.keep <= min(9, self.digits):
            raise UsageError(f"xval: keep must lie between 1 and {min(9, self.digits)}, not {self.keep}")
        if not 0 < self.share < 1:
            raise UsageError(f"xval: share must lie between 0 and 1, not {self.share:g}")
        if self.hidden < 0:
            raise UsageError(f"xval: hidden must be at least 0, not {self.hidden}")
        inner, init, zeros = (
            self.hidden or 4 * self.width,
            nn.initializers.normal(self.init_std),
            nn.initializers.zeros,
        )
        weights = {
            "kernel": base.choose_table(self, table_VD, self.width),
            "number_up": self.param("number_up", init, (self.width, inner), jnp.float32),
            "number_up_bias": self.param("number_up_bias", zeros, (inner,), jnp.float32),
            "number_down": self.param("number_down", init, (inner, 1), jnp.float32),
            "number_down_bias": self.param("number_down_bias", zeros, (1,), jnp.float32),
        }
        return HeadOut(h_BTD, weights)

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """{"number": the log density of its mapped value}."""
        # Of a number beyond the limit the model only learns that it is large.
        value = jnp.clip(numerals.value, -value_maps.LIMIT, value_maps.LIMIT)
        limit = value_maps.TARGET_LIMIT if self.map.startswith("linear") else value_maps.LIMIT
        target = value_maps.apply_map(value, self.map, self.scale, limit)
        return {"number": -jnp.square(target - self._output(out)) - 0.5 * np.log(np.pi)}

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, Estimate]:
        """The predicted value or, with a key, a sample around it, rounded to `keep` digits."""
        mean = self._output(out)
        reach = statistics.NormalDist().inv_cdf((1 + self.share) / 2) * np.sqrt(0.5)
        sample = mean if key is None else mean + np.sqrt(0.5) * jax.random.normal(key, mean.shape)
        outputs = (sample, mean - reach, mean + reach)
        values = [value_maps.invert_map(u, self.map, self.scale) for u in outputs]
        zeros = jnp.zeros(mean.shape, jnp.int32)
        numeral, low, high = (from_mantissa(value, zeros, self.digits, self.keep) for value in values)
        return numeral, Estimate(values[0], zeros, low, high, jnp.full(mean.shape, self.share, jnp.float32))

    def number_quantiles(self, out: HeadOut, targets: Targets, levels: jax.Array) -> Numeral:
        """Exact for N(mean, ½) of the mapped value, whose variance is fixed: the loss is a squared error."""
        del targets
        mapped = self._output(out)[..., None] + np.sqrt(0.5) * jax.scipy.special.ndtri(levels)
        value = value_maps.invert_map(mapped, self.map, self.scale)
        return from_mantissa(value, jnp.zeros(value.shape, jnp.int32), self.digits, self.keep)

    def number_log_mass(self, out: HeadOut, targets: Targets) -> jax.Array:
        """The log mass of the mapped values whose numbers round to the one at hand."""
        if targets.numerals is None:
            return jnp.zeros(out.hidden.shape[:-1])
        mean = self._output(out)
        center, half = gaussians.find_cell(targets.numerals, self.keep)
        power = jnp.power(10.0, jnp.clip(targets.numerals.exponent, -37, 29).astype(jnp.float32))
        is_zero = targets.numerals.n_digits == 0
        # All that is nearer to zero than 10⁻⁹ is written as 0.
        center, half = jnp.where(is_zero, 0.0, center * power), jnp.where(is_zero, 1e-9, half * power)

        def apply_map(value):
            return value_maps.apply_map(value, self.map, self.scale)

        low, high = apply_map(center - half), apply_map(center + half)
        middle, slope_half = jax.jvp(apply_map, (center,), (half,))
        is_coarse = is_zero | (self.keep <= 3)
        middle = jnp.where(is_coarse, (low + high) / 2, middle)
        reach = jnp.where(is_coarse, (high - low) / 2, slope_half)
        low, high, middle = ((end - mean) / np.sqrt(0.5) for end in (middle - reach, middle + reach, middle))
        return gaussians.log_mass(low, high, middle, reach / np.sqrt(0.5))

    @property
    def number_range(self) -> NumberRange:
        """Numbers of at most `keep` significant digits and an absolute value below 10^30, with all maps but log1p
        below the largest power of ten up to 10^15 · scale; this does not say how close a prediction comes."""
        most = 29 if self.map == "log1p" else (Decimal(10) ** 15 * Decimal(self.scale)).adjusted() - 1
        return NumberRange(digits=self.keep, low=-8, high=min(most, 29))

    def _output(self, out: HeadOut) -> jax.Array:
        w = out.weights
        up = jax.nn.gelu(project(out.hidden.astype(jnp.float32), w["number_up"]) + w["number_up_bias"])
        return (project(up, w["number_down"]) + w["number_down_bias"])[..., 0]
