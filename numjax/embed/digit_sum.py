"""A number as the weighted sum of its digits' vectors (digit aggregation, eq. 1), and other aggregates of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import digits
from numjax.protocols import OrTold
from numjax.types import Numeral

__all__ = ["DECIMALS", "Embed"]

DECIMALS = ("drop", "exponent")


class Embed(protocols.Embed, nn.Module):
    """Learned vectors of the ten digits, aggregated.

    Attributes:
      dim: D.
      aggregate: "weighted" (eq. 1), "place" (10^(N−i)), "sum", "mean", "max", "min" or "median".
      decimals: what eq. 1 and place values, which are stated for integers, make of a point: "drop" (the paper scores
        decimals too, and this is what its regular expression leaves) or "exponent" (see `nn.digits.aggregate`).
      longest: digits of a number that are read; of more, the first ones.
      written: read the digits as the text has them ("007", "2.50"), shipped by the pipeline; else those of the value
        in positional notation. The sign is never read.
      init_std: standard deviation of the initial digit vectors.
    """

    dim: OrTold[int] = 64
    aggregate: str = "weighted"
    decimals: str = "drop"
    longest: int = 20
    written: bool = False
    init_std: float = 0.02
    kind = "numeral"

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """Where `written` is set {"digits": int8[N, longest], "behind": int32[N]}, as `nn.digits.written` gives them;
        numbers in words or with an exponent are read by value."""
        if not self.written or surfaces is None:
            return {}
        found, behind = digits.written(numerals, self.longest)
        for row, surface in enumerate(surfaces):
            spelled = [int(c) for c in surface if c in "0123456789"]
            if spelled and not any(c.isalpha() for c in surface):
                whole = sum(c in "0123456789" for c in surface.partition(".")[0])
                kept = spelled[: self.longest]
                found[row] = kept + [-1] * (self.longest - len(kept))
                behind[row] = max(len(kept) - whole, 0)
        return {"digits": found.astype(np.int8), "behind": behind.astype(np.int32)}

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        digits.known(self.aggregate)
        if self.decimals not in DECIMALS:
            raise UsageError(f"digit_sum: decimals must be one of {', '.join(DECIMALS)}, not {self.decimals!r}")
        table = self.param("table", nn.initializers.normal(self.init_std), (10, self.dim), jnp.float32)
        if features and "digits" in features:
            found, behind = features["digits"].astype(jnp.int32), features["behind"]
        else:
            found, behind = digits.written(jax.tree.map(jnp.asarray, numerals), self.longest)
        return digits.aggregate(table, found, self.aggregate, behind if self.decimals == "exponent" else None)
