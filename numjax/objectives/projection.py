"""Draws what a head projects towards the input vectors of the numbers to come (for head `prefix`; the value-aware
prefix of Dutulescu et al. 2026, arXiv 2601.09706)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.protocols import FromContext
from numjax.types import Batch, HeadOut, Loss


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """Σ ‖P h_t + b − x_{t+1}‖² / D over the targets that are a [NUM] with a value, averaged over these.

    x_{t+1} is the input vector of the model at that [NUM], as its embeddings give it. It gets no gradient, so that
    the numbers' vectors do not shrink to what is easy to foresee. As an objective beside the likelihood it has a
    weight, which the paper's summary does not give: ours.

    Attributes:
      head: name of a head with `project`.
    """

    head: str
    num_id: FromContext[int | None] = None
    head_methods: ClassVar[tuple[str, ...]] = ("project",)
    kinds: ClassVar[tuple[str, ...]] = ("language_model",)

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        targets = batch.targets
        if targets is None or targets.numeral_index is None:
            raise UsageError("projection needs numbers in the targets: use scheme value_prefix")
        scored = targets.mask & (targets.numeral_index >= 0) & (targets.ids == self.num_id)
        # Where a text is cut right behind a target, its vector is not in the row, and the next one is another text's.
        segments = batch.inputs.segment_ids
        scored &= jnp.pad(segments[:, 1:] == segments[:, :-1], ((0, 0), (0, 1)))
        next_vectors = jax.lax.stop_gradient(jnp.roll(acts["tokens"], -1, axis=1).astype(jnp.float32))
        error = jnp.square(heads[self.head].project(outs[self.head]) - next_vectors).mean(-1)
        return Loss(jnp.where(scored, error, 0).sum(), scored.sum().astype(jnp.float32), {})
