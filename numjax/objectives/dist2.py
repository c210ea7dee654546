"""A cross-entropy with a target that is spread over the neighbours of a digit (DIST²)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.objectives.base import NumberLoss


@dataclasses.dataclass(frozen=True)
class Objective(NumberLoss):
    """KL(t ‖ p) with t(v) ∝ exp(−(v − y)² / τ) and p the softmax over the tokens that are numbers; averaged over the
    targets that are such tokens.

    Attributes, besides those of `NumberLoss`:
      temperature: τ.
    """

    temperature: float = 1.0

    def __post_init__(self):
        super().__post_init__()
        if not self.temperature > 0:
            raise UsageError(f"dist2: temperature must be above 0, not {self.temperature:g}")

    def error(self, logits_S: jax.Array, values_S: jax.Array, gold: jax.Array, mass: jax.Array) -> jax.Array:
        """The loss at each position, float32[...]; see `NumberLoss.error`."""
        del mass
        # Clipped, since a square of a large number is not finite in float32.
        distance_S = jnp.minimum(jnp.abs(values_S - gold[..., None]) / self.temperature**0.5, 1e15)
        log_t_S = jax.nn.log_softmax(-jnp.square(distance_S), axis=-1)
        log_p_S = jax.nn.log_softmax(logits_S, axis=-1)
        return (jnp.exp(log_t_S) * (log_t_S - log_p_S)).sum(-1)
