"""The regression of numbers at scored positions, by size and sign (LUNA's L_R, section 3.2.2, for TabBERT)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.numerals import gather
from numjax.objectives.nll import check_average, column_weights
from numjax.types import Batch, HeadOut, Loss

AVERAGES = ("scored", "columns")


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """Σ of the mean squared errors in (ln(1e-7 + |v|), sgn v) over scored positions that are numbers; see
    `heads/regression.py`.

    Attributes:
      head: name of the head. average, columns: "scored" or "columns", as in `nll`.
    """

    head: str
    average: str = "scored"
    columns: int = 1

    head_methods = ("error",)
    kinds = ("language_model", "masked")

    def __post_init__(self) -> None:
        check_average(self, AVERAGES)

    @property
    def whole_batch(self) -> bool:
        return self.average == "columns"

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        del acts
        targets, numerals = batch.targets, batch.inputs.numerals
        if targets is None or targets.numeral_index is None or numerals is None:
            raise UsageError("objective number needs targets with numbers: use a scheme that marks them")
        weights = (targets.mask & (targets.numeral_index >= 0)).astype(jnp.float32)
        count = weights.sum()
        if self.average == "columns":
            weights = column_weights(weights, self.columns) * count
        error = heads[self.head].error(outs[self.head], gather(numerals, targets.numeral_index))
        return Loss((error * weights).sum(), count)
