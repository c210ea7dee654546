"""A number as the weighted sum of its digits' vectors (digit aggregation, eq. 1), and other aggregates of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError, check_least
from numjax.nn import digits
from numjax.protocols import OptionOrContext
from numjax.types import Numeral

__all__ = ["DECIMALS", "Embed"]

DECIMALS = ("drop", "exponent")


class Embed(protocols.Embed, nn.Module):
    """Learned vectors of the ten digits, aggregated.

    Attributes:
      dim: D.
      aggregate: "weighted" (eq. 1), "place" (10^(N−i)), "sum", "mean", "max", "min" or "median".
      decimals: how to treat the point, since eq. 1 and place values are defined for integers: "drop" (the paper
        scores decimals too, and its regular expression drops the point) or "exponent" (see `nn.digits.aggregate`).
      longest: most digits of a number that are read, the first ones.
      written: read the digits of the surface ("007", "2.50"), which the pipeline provides; else those of the value in
        positional notation. The sign is never read.
      init_std: standard deviation of the initial digit vectors.
    """

    dim: OptionOrContext[int] = 64
    aggregate: str = "weighted"
    decimals: str = "drop"
    longest: int = 20
    written: bool = False
    init_std: float = 0.02
    kind = "numeral"

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """If `written` is set, {"digits": int8[N, longest], "behind": int32[N]} as of `nn.digits.positional_digits`;
        numbers in words or with an exponent are read by value."""
        if not self.written or surfaces is None:
            return {}
        digit_rows, n_decimals = digits.positional_digits(numerals, self.longest)
        for row, surface in enumerate(surfaces):
            surface_digits = [int(c) for c in surface if c in "0123456789"]
            if surface_digits and not any(c.isalpha() for c in surface):
                n_whole = sum(c in "0123456789" for c in surface.partition(".")[0])
                row_digits = surface_digits[: self.longest]
                digit_rows[row] = row_digits + [-1] * (self.longest - len(row_digits))
                n_decimals[row] = max(len(row_digits) - n_whole, 0)
        return {"digits": digit_rows.astype(np.int8), "behind": n_decimals.astype(np.int32)}

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        check_least("digit_sum", 1, dim=self.dim, longest=self.longest)
        digits.check_aggregate(self.aggregate)
        if self.decimals not in DECIMALS:
            raise UsageError(f"digit_sum: decimals must be one of {', '.join(DECIMALS)}, not {self.decimals!r}")
        table = self.param("table", nn.initializers.normal(self.init_std), (10, self.dim), jnp.float32)
        if features and "digits" in features:
            number_digits, n_decimals = features["digits"].astype(jnp.int32), features["behind"]
        else:
            number_digits, n_decimals = digits.positional_digits(jax.tree.map(jnp.asarray, numerals), self.longest)
        return digits.aggregate(
            table, number_digits, self.aggregate, n_decimals if self.decimals == "exponent" else None
        )
