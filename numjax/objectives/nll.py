"""Negative log-likelihood of a head's targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import grammar as masks
from numjax.nn.numerals import gather
from numjax.nn.scored import at_scored
from numjax.protocols import Told
from numjax.types import Allowed, Batch, Grammar, HeadOut, Loss, Targets


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """−Σ log p over scored positions (NumGPT eq. 12), or over the labels of a classifier.

    Reported parts: each part's own mean ("selector", "token", …) over the positions where it applies is left
    to the reader; here every part is a (−Σ, scored positions) pair, so that they add up to the loss. Where
    one of the head's `densities` takes part, "mass" is the sum without: only that may be turned into a perplexity.

    Attributes:
      head: which head.
      label: name of the label that a classifier predicts, int[B], or of the span that a span head does, int[B, 2];
        None for targets in the sequence.
      average: "scored" divides by the scored positions; "all" by B·T, padding included, as NumGPT's
        code does; "columns" is the sum of the means of each column of a table's rows (TabFormer), where `columns`
        positions are a row: it is of a batch as a whole, and over batches a mean weighed by what they ask.
      room: see `nn.scored.at_scored`; 0: all positions are read.
      constrain: mask with the grammar's tables, which the caller must then give.
      given: the mask leaves also what is read but never generated, so that no loss is infinite.
    """

    head: str
    label: str | None = None
    average: str = "scored"
    constrain: bool = False
    given: bool = True
    columns: int = 1
    room: float = 0.0
    grammar: Told[Grammar | None] = None

    @classmethod
    def methods_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return () if options.get("label") is not None else ("total_log_prob",)

    @classmethod
    def kinds_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("language_model", "masked") if options.get("label") is None else ("classify", "span")

    @property
    def whole_batch(self) -> bool:
        return self.average == "columns"

    def __call__(
        self, heads: Mapping[str, Any], outs: Mapping[str, HeadOut], acts: Mapping[str, Any], batch: Batch
    ) -> Loss:
        del acts
        head, out = heads[self.head], outs[self.head]
        if self.label is not None:
            return self._labels(head, out, batch)
        if batch.targets is None:
            raise ValueError("nll without a label needs targets in the batch")
        targets = batch.targets
        if targets.numeral_index is not None and batch.inputs.numerals is not None:
            targets = targets._replace(numerals=gather(batch.inputs.numerals, targets.numeral_index))
        weights = targets.mask.astype(jnp.float32)
        if self.average == "columns":
            weights = by_column(weights, self.columns)
        parts = self._parts(head, out, targets, weights, batch)
        scored = targets.mask.sum().astype(jnp.float32)
        count = jnp.float32(weights.size) if self.average == "all" else scored
        if self.average == "columns":
            parts = {name: part * scored for name, part in parts.items()}
        report = {name: (-part, count) for name, part in parts.items()}
        densities = head.densities
        if any(name in densities for name in parts):
            masses = [-part for name, part in parts.items() if name not in densities]
            report["mass"] = (sum(masses), count)
        return Loss(-sum(parts.values()), count, report)

    def _parts(self, head, out: HeadOut, targets: Targets, weights: jax.Array, batch: Batch) -> dict[str, Any]:
        states = batch.grammar_state
        shown = masks.shown(self.grammar, batch.inputs, batch.source) if self.constrain and self.grammar else None

        def read(take):
            allowed = self._allowed(None if states is None else take(states), None if shown is None else take(shown))
            return head.total_log_prob(out._replace(hidden=take(out.hidden)), take(targets), take(weights), allowed)

        return at_scored(targets.mask, self.room, read)

    def _labels(self, head, out, batch: Batch) -> Loss:
        labels = batch.labels[str(self.label)]
        valid = jnp.ones(labels.shape[0], jnp.float32) if batch.valid is None else batch.valid.astype(jnp.float32)
        if labels.ndim > 1:
            # A span that is not in the row is −1: there is nothing to score.
            valid = valid * (labels >= 0).all(axis=-1)
            right = (head.best(out)[:, :2] == labels).all(axis=-1)
        else:
            right = head.log_probs(out).argmax(-1) == labels
        parts = head.log_prob(out, jnp.maximum(labels, 0))
        count = valid.sum()
        log_prob = sum(jnp.where(valid > 0, part, 0).sum() for part in parts.values())
        return Loss(-log_prob, count, {"accuracy": ((right * valid).sum(), count)})

    def _allowed(self, states: jax.Array | None, shown: jax.Array | None) -> Allowed | None:
        if not self.constrain:
            return None
        if self.grammar is None or states is None:
            raise ValueError("constrain needs a grammar and its states in the batch")
        return masks.allowed(self.grammar, states, self.given, shown)


def by_column(mask_BT: jax.Array, columns: int) -> jax.Array:
    """Weights that sum to one over the scored positions of each column that has any."""
    if mask_BT.shape[1] % columns:
        raise UsageError(f"{mask_BT.shape[1]} positions are no whole rows of columns={columns}")
    mask_BRC = mask_BT.reshape(mask_BT.shape[0], -1, columns)
    return (mask_BRC / jnp.maximum(mask_BRC.sum(axis=(0, 1)), 1)).reshape(mask_BT.shape)
