"""L_MLM: masked pieces are classified and masked numbers regressed, over one count (LUNA, section 3.2.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.numerals import gather
from numjax.nn.scored import at_scored
from numjax.types import Batch, HeadOut, Loss


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """Σ over masked numbers of the mean squared error + Σ over other masked positions of −log p, and how many are
    masked in all. Parts: "token" and "number", the two sums, each with its own count.

    Attributes:
      head: which head classifies. numbers: which regresses; without one, numbers count and are not scored.
      room: see `nn.scored.at_scored`; 0: all positions are read.
    """

    head: str
    numbers: str | None = None
    room: float = 0.0

    head_methods = ("total_log_prob",)
    kinds = ("masked",)

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        del acts
        targets = batch.targets
        if targets is None:
            raise UsageError("masked reads targets: use a task of kind masked, such as table_text")
        index = jnp.full(targets.ids.shape, -1) if targets.numeral_index is None else targets.numeral_index
        text = (targets.mask & (index < 0)).astype(jnp.float32)
        number = (targets.mask & (index >= 0)).astype(jnp.float32)
        head, out = heads[self.head], outs[self.head]

        def read(take):
            return head.total_log_prob(out._replace(hidden=take(out.hidden)), take(targets), take(text))

        found = at_scored(targets.mask, self.room, read)
        classified, regressed = -sum(found.values()), jnp.float32(0)
        if self.numbers is not None and batch.inputs.numerals is not None:
            if self.numbers not in heads:
                raise UsageError(f"objective masked regresses by head {self.numbers!r}: add it to config.heads")
            error = heads[self.numbers].error(outs[self.numbers], gather(batch.inputs.numerals, index))
            regressed = (error * number).sum()
        parts = {"token": (classified, text.sum()), "number": (regressed, number.sum())}
        return Loss(classified + regressed, text.sum() + number.sum(), parts)
