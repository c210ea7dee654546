"""The losses of TagOp's head, one objective a part (Zhu et al. 2021, section 4.4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.types import Batch, HeadOut, Loss

AVERAGES = ("row", "sum")


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """−Σ log p of one part over the rows that have it; "accuracy" is the share of them that are right throughout, and
    "share" theirs of all rows.

    Attributes:
      head: which head, one of heads/tagop.py.
      part: "operator", "scale", "tags" or "order".
      average: "row" divides by those rows; "sum" does not divide at all, as TagOp does for tags and order, which then
        weigh more in larger batches.
    """

    head: str
    part: str = "tags"
    average: str = "row"
    head_methods: ClassVar[tuple[str, ...]] = ("scored", "right")
    kinds = ("units",)

    def __post_init__(self) -> None:
        if self.average not in AVERAGES:
            raise UsageError(f"objective tagop: average must be one of {', '.join(AVERAGES)}, not {self.average!r}")

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        del acts
        head, out = heads[self.head], outs[self.head]
        rows = head.scored(out, batch.labels)[self.part]
        valid = jnp.ones(rows.shape[0], bool) if batch.valid is None else batch.valid
        rows = rows & valid
        total = -jnp.where(rows, head.log_prob(out, batch.labels)[self.part], 0).sum()
        scored = rows.sum().astype(jnp.float32)
        # The share of a batch that is real is 1 over a whole one, and adds up over its parts.
        count = scored if self.average == "row" else valid.mean(dtype=jnp.float32)
        right = (head.right(out, batch.labels, self.part) & rows).sum().astype(jnp.float32)
        return Loss(total, count, {"accuracy": (right, scored), "share": (scored, valid.sum().astype(jnp.float32))})
