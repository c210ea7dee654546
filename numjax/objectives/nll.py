"""Negative log-likelihood of a head's targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError, check_choice, check_least
from numjax.nn import grammar as masks
from numjax.nn.numerals import gather
from numjax.nn.scored import apply_at_scored
from numjax.protocols import FromContext
from numjax.types import Allowed, Batch, Grammar, HeadOut, Loss, Targets

AVERAGES = ("scored", "all", "columns")


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """−Σ log p over scored positions (NumGPT eq. 12), or over the labels of a classifier.

    Reported parts ("selector", "token", …): each is a (−Σ, scored positions) pair, so that they add up to the loss;
    it is not the part's own mean over the positions where it applies. If one of the head's `densities` is a part,
    "mass" is the sum without it: only that can be converted to a perplexity.

    Attributes:
      head: name of the head.
      label: name of the label that a classifier predicts, int[B], or of the span of a span head, int[B, 2]; None for
        targets in the sequence.
      average: "scored" divides by the scored positions; "all" by B·T, padding included, as NumGPT's
        code does; "columns" is the sum of the means of each column of a table's rows (TabFormer), where `columns`
        positions are a row. It is a property of the whole batch; over batches it is averaged by scored positions.
      room: see `nn.scored.apply_at_scored`; 0: all positions are computed.
      number_weight: weight of all parts but "token" and "selector", as where a paper averages over a number's digits
        or bits. With another than 1 the loss is no likelihood.
      constrain: mask with the grammar's tables, which the caller must then pass.
      given: the mask also allows tokens that are read but never generated, so that no loss is infinite.
    """

    head: str
    label: str | None = None
    average: str = "scored"
    constrain: bool = False
    given: bool = True
    columns: int = 1
    room: float = 0.0
    number_weight: float = 1.0
    grammar: FromContext[Grammar | None] = None

    def __post_init__(self) -> None:
        check_average(self, AVERAGES)

    @classmethod
    def methods_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return () if options.get("label") is not None else ("total_log_prob",)

    @classmethod
    def kinds_of(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return ("language_model", "masked") if options.get("label") is None else ("classify", "span")

    @property
    def whole_batch(self) -> bool:
        return self.average == "columns"

    @property
    def has_perplexity(self) -> bool:
        return self.label is None and self.average == "scored" and self.number_weight == 1

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
            weights = column_weights(weights, self.columns)
        parts = {
            name: part if name in ("token", "selector") else self.number_weight * part
            for name, part in self._parts(head, out, targets, weights, batch).items()
        }
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
        recallable = (
            masks.recall_mask(self.grammar, batch.inputs, batch.source) if self.constrain and self.grammar else None
        )

        def compute(take):
            allowed = self._allowed(
                None if states is None else take(states), None if recallable is None else take(recallable)
            )
            return head.total_log_prob(out._replace(hidden=take(out.hidden)), take(targets), take(weights), allowed)

        return apply_at_scored(targets.mask, self.room, compute)

    def _labels(self, head, out, batch: Batch) -> Loss:
        labels = batch.labels[str(self.label)]
        valid = jnp.ones(labels.shape[0], jnp.float32) if batch.valid is None else batch.valid.astype(jnp.float32)
        if labels.ndim > 1:
            # A span outside the row is −1 and is not scored.
            valid = valid * (labels >= 0).all(axis=-1)
            is_right = (head.best(out)[:, :2] == labels).all(axis=-1)
        else:
            is_right = head.log_probs(out).argmax(-1) == labels
        parts = head.log_prob(out, jnp.maximum(labels, 0))
        count = valid.sum()
        log_prob = sum(jnp.where(valid > 0, part, 0).sum() for part in parts.values())
        return Loss(-log_prob, count, {"accuracy": ((is_right * valid).sum(), count)})

    def _allowed(self, states: jax.Array | None, recallable: jax.Array | None) -> Allowed | None:
        if not self.constrain:
            return None
        if self.grammar is None or states is None:
            raise ValueError("constrain needs a grammar and its states in the batch")
        return masks.allowed_tokens(self.grammar, states, self.given, recallable)


def check_average(objective: Any, choices: tuple[str, ...]) -> None:
    """Raises UsageError if an objective's `average` is none of the choices, or its `columns` below 1."""
    check_choice(objective.part_name(), choices, average=objective.average)
    check_least(objective.part_name(), 1, columns=objective.columns)


def column_weights(mask_BT: jax.Array, columns: int) -> jax.Array:
    """Weights that sum to one over the scored positions of each column, if it has any."""
    if mask_BT.shape[1] % columns:
        raise UsageError(f"{mask_BT.shape[1]} positions are no whole rows of columns={columns}")
    mask_BRC = mask_BT.reshape(mask_BT.shape[0], -1, columns)
    return (mask_BRC / jnp.maximum(mask_BRC.sum(axis=(0, 1)), 1)).reshape(mask_BT.shape)
