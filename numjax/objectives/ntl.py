"""The distance of predictions on the number line (number token loss; Zausinger et al. 2025, arXiv 2411.02083)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.objectives.base import NumberLoss

FORMS = ("was", "mse")


@dataclasses.dataclass(frozen=True)
class Objective(NumberLoss):
    """With p the softmax over the tokens that are numbers and y the value of the target, "was" is Σ_v p(v) |v − y|
    (the Wasserstein distance) and "mse" is (Σ_v p(v) v − y)²; averaged over the targets that are such tokens. The
    paper adds it with weight 0.3 to a cross-entropy with weight 1.

    The original code takes "was" from cumulative sums, which is the same only for evenly spaced values.

    Attributes, besides those of `NumberLoss`:
      form: "was" or "mse".
      reweigh: m · loss + (1 − m) · 1.01 · D with m the probability of all these tokens and D the largest distance of
        two of them, so that probability of other tokens costs more than any number. The authors' package has it on,
        their paper has not.
      squash: with s > 1 the distance d > 0 of "was" becomes 1 + (d − d_min) (s − 1) / (d_max − d_min), so that the
        farthest token costs s times as much as the nearest; 0: the distance itself.
    """

    form: str = "was"
    reweigh: bool = False
    squash: float = 0.0

    def __post_init__(self):
        super().__post_init__()
        self.check_choice("form", FORMS)
        if self.squash and self.squash <= 1:
            raise UsageError(f"ntl: squash must be 0 or above 1, not {self.squash:g}")

    @property
    def needs_mass(self) -> bool:
        return self.reweigh

    def error(self, logits_S: jax.Array, values_S: jax.Array, gold: jax.Array, mass: jax.Array) -> jax.Array:
        """The loss at each position, float32[...]; see `NumberLoss.error`."""
        p_S = jax.nn.softmax(logits_S, axis=-1)
        largest = values_S.max() - values_S.min()
        if self.form == "mse":
            error, largest = jnp.square((p_S * values_S).sum(-1) - gold), jnp.square(largest)
        else:
            distance_S = jnp.abs(values_S - gold[..., None])
            if self.squash:
                distance_S, largest = self._squash(distance_S), self.squash
            error = (p_S * distance_S).sum(-1)
        return mass * error + (1 - mass) * 1.01 * largest if self.reweigh else error

    def _squash(self, distance_S: jax.Array) -> jax.Array:
        is_other = distance_S > 0
        least = jnp.where(is_other, distance_S, jnp.inf).min(-1, keepdims=True)
        span = jnp.maximum(distance_S.max(-1, keepdims=True) - least, 1e-30)
        return jnp.where(is_other, 1 + (distance_S - least) * (self.squash - 1) / span, 0.0)
