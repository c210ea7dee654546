"""How far a number fills each of a row of bins (piecewise linear encoding; Gorishniy et al. 2022, arXiv 2203.05556).

Legend: T bins with the edges b_0 < … < b_T.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed.dice import float64_value
from numjax.errors import UsageError
from numjax.nn.dense import project
from numjax.protocols import OptionOrContext
from numjax.types import NumberRange, Numeral

OUTSIDE = ("clamp", "linear")
_LIMIT = 1e30  # numbers beyond it count as it, so that float32 holds every feature


def make_log_edges(low: int, high: int) -> tuple[float, ...]:
    """−10^high, …, −10^low, 0, 10^low, …, 10^high: a bin for each power of ten of either sign."""
    powers = [float(f"1e{k}") for k in range(low, high + 1)]
    return (*(-power for power in reversed(powers)), 0.0, *powers)


def make_quantile_edges(numbers: Iterable[float], bins: int) -> tuple[float, ...]:
    """The edges of the paper: quantiles of the numbers of a train split, for the option `edges`.

    Returns at most `bins` + 1 edges: equal quantiles are one edge.

    Raises:
      UsageError: there are no two different numbers, a number is not finite, or `bins` is less than 1.
    """
    values = np.asarray([float(number) for number in numbers], np.float64)
    if bins < 1:
        raise UsageError(f"ple: a number needs at least one bin, not {bins}")
    if not np.isfinite(values).all():
        raise UsageError("ple: quantiles need finite numbers")
    edges = np.unique(np.quantile(values, np.linspace(0, 1, bins + 1))) if len(values) else values
    if len(edges) < 2:
        raise UsageError("ple: quantiles need at least two different numbers")
    return tuple(edges.tolist())


def encode(value, edges: tuple[float, ...], outside: str = "clamp"):
    """(value − b_(t−1)) / (b_t − b_(t−1)), cut to [0, 1], [..., T], in the type of `value`, NumPy or JAX.

    With `outside` = "linear" the first bin is not cut below nor the last above, as in the paper.
    """
    xp = value.__array_namespace__()
    ends = np.asarray(edges, np.float64)
    low, width = (xp.asarray(x, dtype=value.dtype) for x in (ends[:-1], np.diff(ends)))
    share = (xp.clip(value, -_LIMIT, _LIMIT)[..., None] - low) / width
    if outside == "clamp":
        return xp.clip(share, 0, 1)
    first, last = np.arange(len(width)) == 0, np.arange(len(width)) == len(width) - 1
    share = xp.where(first, share, xp.clip(share, 0, None))
    return xp.clip(xp.where(last, share, xp.clip(share, None, 1)), -_LIMIT, _LIMIT)


class Embed(protocols.Embed, nn.Module):
    """Bins below the number are 1, bins above it 0, and its own bin holds the share below it; then a learned matrix.

    The pipeline computes the bins in float64. A number that a decoder generates gets them from its float32, which has
    seven digits: keep bins wider than that.

    Attributes:
      dim: width; 0: the T features themselves, without a matrix.
      edges: b_0 … b_T, such as those of `make_quantile_edges`; (): `make_log_edges` of `low` and `high`. The config
        keeps them, so a loaded model needs no data.
      low, high: the least and largest power of ten of the default edges.
      outside: "clamp": all numbers beyond an edge have the vector of the edge. "linear": the outer bins go on without
        end, as in the paper; then one large number can be larger than all other inputs together.
    """

    dim: OptionOrContext[int] = 64
    edges: tuple[float, ...] = ()
    low: int = -4
    high: int = 12
    outside: str = "clamp"
    init_std: float = 0.2
    kind = "numeral"

    def __post_init__(self):
        super().__post_init__()
        if self.outside not in OUTSIDE:
            raise UsageError(f"ple: outside must be one of {', '.join(OUTSIDE)}, not {self.outside!r}")
        if self.low > self.high or self.low < -30 or self.high > 30:
            raise UsageError(f"ple: −30 ≤ low ≤ high ≤ 30 must hold, not {self.low} and {self.high}")
        if not all(isinstance(edge, int | float) for edge in self.edges):
            raise UsageError(f"ple: edges must be numbers, not {tuple(self.edges)}")
        widths = np.diff(np.asarray(self._edges(), np.float64))
        if not (len(widths) and (widths > 0).all() and np.isfinite(widths).all()):
            raise UsageError("ple: edges must be at least two numbers, each larger than the one before")

    @property
    def number_range(self) -> NumberRange | None:
        """With outside="clamp", the numbers between the outer edges, as far as powers of ten say which these are."""
        if self.outside == "linear":
            return None
        first, last = self._edges()[0], self._edges()[-1]
        if first > 0 or last <= 0:
            return NumberRange(digits=0)
        size = min(last, -first) if first < 0 else last
        return NumberRange(signed=first < 0, high=Decimal(size).adjusted() - 1)

    def host_features(self, numerals: Numeral, surfaces=None) -> dict[str, np.ndarray]:
        """{"bins": float32[N, T]}, rounded once."""
        del surfaces
        return {"bins": encode(float64_value(numerals), self._edges(), self.outside).astype(np.float32)}

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        if features and "bins" in features:
            bins = features["bins"]
        else:
            bins = encode(jax.tree.map(jnp.asarray, numerals).value, self._edges(), self.outside)
        if not self.dim:
            return bins
        shape = (bins.shape[-1], self.dim)
        return project(bins, self.param("kernel", nn.initializers.normal(self.init_std), shape, jnp.float32))

    def _edges(self) -> tuple[float, ...]:
        return tuple(self.edges) or make_log_edges(self.low, self.high)
