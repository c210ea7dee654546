"""L_D: at masked positions, the cross-entropy with what a momentum teacher says (LUNA, section 3.2.1).

The teacher is the mean of the student's parameters, mean ← τ · mean + (1 − τ) · parameters; it reads the same masked
batch without dropout, and no gradient reaches it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.scored import at_scored
from numjax.types import Batch, HeadOut, Loss


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """−Σ over masked positions of Σ_v p_teacher(v) log p(v), and how many are masked.

    Attributes:
      head: which head, of student and teacher.
      momentum: τ.
      each_microbatch: the teacher moves with every microbatch, as in LUNA's code, and not once a step.
      room: see `nn.scored.at_scored`; 0: all positions are read.
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
        head, out, said = heads[self.head], outs[self.head], taught[self.head]

        def read(take):
            few, aim = (one._replace(hidden=take(one.hidden)) for one in (out, said))
            return head.total_cross_entropy(few, aim, take(mask).astype(jnp.float32))

        return Loss(at_scored(mask, self.room, read), mask.sum(dtype=jnp.float32))
