"""L_MLM: classifies masked pieces and regresses masked numbers, with one count (LUNA, section 3.2.1)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.numerals import gather
from numjax.nn.scored import apply_at_scored
from numjax.types import Batch, HeadOut, Loss


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """Σ over masked numbers of the mean squared error + Σ over other masked positions of −log p, and the number of
    all masked positions. Parts: "token" and "number", the two sums, each with its own count.

    Attributes:
      head: name of the head that classifies. numbers: of the one that regresses; without it, numbers count but are
        not scored.
      room: see `nn.scored.apply_at_scored`; 0: all positions are computed.
    """

    head: str
    numbers: str | None = None
    room: float = 0.0

    head_options = ("head", "numbers")
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
        is_text = (targets.mask & (index < 0)).astype(jnp.float32)
        is_number = (targets.mask & (index >= 0)).astype(jnp.float32)
        head, out = heads[self.head], outs[self.head]

        def compute(take):
            return head.total_log_prob(out._replace(hidden=take(out.hidden)), take(targets), take(is_text))

        token_parts = apply_at_scored(targets.mask, self.room, compute)
        classified, regressed = -sum(token_parts.values()), jnp.float32(0)
        if self.numbers is not None and batch.inputs.numerals is not None:
            if self.numbers not in heads:
                raise UsageError(f"objective masked regresses by head {self.numbers!r}: add it to config.heads")
            error = heads[self.numbers].error(outs[self.numbers], gather(batch.inputs.numerals, index))
            regressed = (error * is_number).sum()
        parts = {"token": (classified, is_text.sum()), "number": (regressed, is_number.sum())}
        return Loss(classified + regressed, is_text.sum() + is_number.sum(), parts)
