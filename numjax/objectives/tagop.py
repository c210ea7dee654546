"""The losses of TagOp's head, one objective per part (Zhu et al. 2021, section 4.4)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax.numpy as jnp

from numjax import protocols
from numjax.errors import check_choice
from numjax.types import Batch, HeadOut, Loss

AVERAGES, PARTS = ("row", "sum"), ("operator", "scale", "tags", "order")


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """−Σ log p of one part over the rows that have it; "accuracy" is the share of them that are fully right, and
    "share" is their share of all rows.

    Attributes:
      head: name of a head of heads/tagop.py.
      part: "operator", "scale", "tags" or "order".
      average: "row" divides by those rows; "sum" does not divide, as in TagOp for tags and order, which then weigh
        more in larger batches.
    """

    head: str
    part: str = "tags"
    average: str = "row"
    head_methods: ClassVar[tuple[str, ...]] = ("scored", "right")
    kinds = ("units",)

    def __post_init__(self) -> None:
        check_choice("objective tagop", AVERAGES, average=self.average)
        check_choice("objective tagop", PARTS, part=self.part)

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
        # The share of valid rows is 1 for a full batch, and adds up over its parts.
        count = scored if self.average == "row" else valid.mean(dtype=jnp.float32)
        n_right = (head.right(out, batch.labels, self.part) & rows).sum().astype(jnp.float32)
        return Loss(total, count, {"accuracy": (n_right, scored), "share": (scored, valid.sum().astype(jnp.float32))})
