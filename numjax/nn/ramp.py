"""A weight that changes in a straight line with the step."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp


@dataclasses.dataclass(frozen=True)
class Ramp:
    """A number that changes linearly from `start` to `end` over `steps` steps and then stays."""

    start: float
    end: float
    steps: int

    def __call__(self, step: jax.Array | None) -> Any:
        """The value at a step; at the end if the step is None."""
        if step is None or self.steps <= 0:
            return self.end
        return self.start + (self.end - self.start) * jnp.minimum(step / self.steps, 1)
