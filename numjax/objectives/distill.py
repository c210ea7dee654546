"""L_D: at masked positions, the cross-entropy with the prediction of a momentum teacher (LUNA, section 3.2.1).

The teacher's parameters are a running mean of the student's, mean ← τ · mean + (1 − τ) · parameters. It gets the same
masked batch without dropout, and no gradient.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.scored import apply_at_scored
from numjax.types import Batch, HeadOut, Loss


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """−Σ over masked positions of Σ_v p_teacher(v) log p(v), and the number of masked positions.

    Attributes:
      head: name of the head, of student and teacher.
      momentum: τ.
      each_microbatch: update the teacher with every microbatch, as in LUNA's code, instead of once a step.
      room: see `nn.scored.apply_at_scored`; 0: all positions are computed.
    """

    head: str
    momentum: float = 0.995
    each_microbatch: bool = False
    room: float = 0.0

    reads_teacher = True
    head_methods = ("total_cross_entropy",)
    kinds = ("masked",)

    def __post_init__(self):
        if not 0 <= self.momentum <= 1:
            raise UsageError(f"distill: momentum={self.momentum} must be from 0 to 1")

    def __call__(
        self,
        heads: Mapping[str, Any],
        outs: Mapping[str, HeadOut],
        acts: Mapping[str, Any],
        batch: Batch,
        taught: Mapping[str, HeadOut],
    ) -> Loss:
        """`taught`: the teacher's `outs`."""
        del acts
        if batch.targets is None:
            raise UsageError("distill reads targets: use a task of kind masked, such as table_text")
        mask = batch.targets.mask
        head, out, teacher_out = heads[self.head], outs[self.head], taught[self.head]

        def compute(take):
            scored_out, scored_teacher = (
                head_out._replace(hidden=take(head_out.hidden)) for head_out in (out, teacher_out)
            )
            return head.total_cross_entropy(scored_out, scored_teacher, take(mask).astype(jnp.float32))

        return Loss(apply_at_scored(mask, self.room, compute), mask.sum(dtype=jnp.float32))
