"""Queries and keys rotated by their position (RoPE; Su et al. 2021).

Legend: B rows, T positions, P pairs of dimensions.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError, check_least
from numjax.nn import rotary
from numjax.protocols import FromContext
from numjax.types import Tokens


class Positions(protocols.Positions, nn.Module):
    """Rotates pair p of a head's dimensions by position · base^(−p/P); a pair is dimensions p and p + P, as in Llama.

    Attributes:
      base: θ.
      fraction: share of a head's dimensions that is rotated, the first ones.
      scaling: for texts longer than those of training, with `factor`, `trained`, `slow` and `fast`: see
        `nn.rotary.frequencies`.
    """

    stack: FromContext[protocols.Stack | None] = None
    base: float = 10_000.0
    fraction: float = 1.0
    scaling: str = "none"
    factor: float = 1.0
    trained: int = 8192
    slow: float = 1.0
    fast: float = 4.0

    def setup(self):
        if self.scaling not in rotary.SCALINGS:
            raise UsageError(
                f"positions rope: scaling must be one of {', '.join(rotary.SCALINGS)}, not {self.scaling!r}"
            )
        if not (0 < self.fraction <= 1 and self.base > 1 and self.factor > 0 and self.slow > 0):
            raise UsageError(
                "positions rope: fraction must be above 0 and at most 1, base above 1, factor and slow above 0, not "
                f"fraction={self.fraction}, base={self.base}, factor={self.factor}, slow={self.slow}"
            )
        if self.scaling != "none":
            check_least("positions rope", 1, trained=self.trained)
            check_least("positions rope", 1e-6, fast=self.fast)
        size = self.require_stack().size
        self.pairs = int(size * self.fraction) // 2
        if self.pairs < 1 or size % 2:
            raise UsageError(f"positions rope: {size} dimensions of a head × fraction={self.fraction} are no pairs")

    def angles(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """Radians, float32[B, T, P]."""
        del deterministic
        scaling = self.scaling, self.factor, self.trained, self.slow, self.fast
        rates = rotary.frequencies(self.pairs, self.base, *scaling)
        return tokens.positions[..., None].astype(jnp.float32) * jnp.asarray(rates, jnp.float32)

    @property
    def sharpness(self) -> float:
        """See `nn.rotary.sharpness`."""
        return rotary.sharpness(self.scaling, self.factor)
