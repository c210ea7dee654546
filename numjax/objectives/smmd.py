"""A smooth distance of the predicted distribution from its digit: a kernel's discrepancy and its smoothness (SMMD,
arXiv 2606.27731)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.nn.einsum import einsum
from numjax.objectives.base import NumberLoss


@dataclasses.dataclass(frozen=True)
class Objective(NumberLoss):
    """rᵀ K r + α rᵀ (D − K) r with r = p − onehot(y), averaged over the targets that are numbers.

    p is the softmax over the tokens that are numbers, K = exp(−d² / 2σ²) of the distances d between them, D the
    diagonal matrix of K's row sums and α = 1 / (2 · their mean).

    Attributes, besides those of `NumberLoss`:
      sigma: σ.
    """

    sigma: float = 2.0

    def __post_init__(self):
        super().__post_init__()
        if not self.sigma > 0:
            raise UsageError(f"smmd: sigma must be above 0, not {self.sigma:g}")

    def error(self, logits_S: jax.Array, values_S: jax.Array, gold: jax.Array, mass: jax.Array) -> jax.Array:
        """The loss at each position, float32[...]; see `NumberLoss.error`. Tokens of one value share the target."""
        del mass
        distance_SS = values_S[:, None] - values_S[None]
        kernel_SS = jnp.exp(-jnp.square(distance_SS) / (2 * self.sigma**2))
        rows_S = kernel_SS.sum(-1)
        alpha = 1 / (2 * rows_S.mean())
        is_gold = (values_S == gold[..., None]).astype(jnp.float32)
        r_S = jax.nn.softmax(logits_S, axis=-1) - is_gold / jnp.maximum(is_gold.sum(-1, keepdims=True), 1)
        first = einsum("...s,st,...t->...", r_S, kernel_SS, r_S)
        second = (jnp.square(r_S) * rows_S).sum(-1) - first
        return first + alpha * second
