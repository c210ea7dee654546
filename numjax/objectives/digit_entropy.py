"""A yes-or-no question for each digit, weighted by its place (after DEL; Zheng et al. 2026, arXiv 2605.20369)."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

from numjax.errors import UsageError, check_choice
from numjax.nn.places import Places
from numjax.objectives.base import NumberLoss


@dataclasses.dataclass(frozen=True)
class Objective(NumberLoss):
    """w · Σ_v a(v) BCE(p(v), [v = y]), averaged over the targets that are digits. With p the softmax over the ten
    digits and y the target, BCE is −log p(y) for v = y and −log(1 − p(v)) for the others.

    From the paper: an entropy Σ p(v) · (−log …) made supervised by the binary cross-entropy, without a distance of
    digits; places that weigh by a logarithm of base 1.02, those before the point twice; the factor 0.01 beside a
    cross-entropy of weight 1, which is the weight of this objective in a config (`weight=0.01`).

    Ours, derived from that description and not from the paper's formulas: a digit that is the j-th from its number's
    last one weighs log_base(1 + j), so the first digits of long numbers weigh most. a(v) = p(v), with its gradient,
    but a(y) = 1: an entropy weighs the gold digit by p(y) too (`gold="entropy"`), and its term −p log p falls as p(y)
    goes from 1/e to 0, which rewards a model that gives the digit up. Decimal points have no term here: the
    cross-entropy teaches them; the paper has one.

    Attributes, besides those of `NumberLoss`:
      base: of the logarithm of the weights; 0: all digits weigh 1.
      whole: the factor of places before the point.
      gold: the weight a(y), "one", or "entropy" for p(y).
    """

    base: float = 1.02
    whole: float = 2.0
    gold: str = "one"
    reads_digits = True

    def __post_init__(self):
        super().__post_init__()
        check_choice("digit_entropy", ("one", "entropy"), gold=self.gold)
        if self.symbols != "digits":
            raise UsageError("digit_entropy: it asks about digits: leave symbols=digits")
        if (self.base and not self.base > 1) or not self.whole > 0:
            raise UsageError(
                f"digit_entropy: base must be 0 or above 1, and whole above 0, not {self.base:g} and {self.whole:g}"
            )

    @property
    def needs_places(self) -> bool:
        return True

    def error(self, logits_S: jax.Array, values_S: jax.Array, gold: jax.Array, mass: jax.Array) -> jax.Array:
        """The unweighted loss at each position, float32[...]; see `NumberLoss.error`. Tokens of one digit count
        together."""
        del mass
        is_digit = values_S == jnp.arange(10.0)[:, None]  # [10, S]
        logits = jax.nn.logsumexp(jnp.where(is_digit, logits_S[..., None, :], -1e30), axis=-1)
        log_p = jax.nn.log_softmax(logits, axis=-1)
        # 1 − p loses its digits where p is near 1: there the other digits are summed.
        is_top = jax.nn.one_hot(logits.argmax(-1), 10, dtype=bool)
        log_others = jax.nn.logsumexp(jnp.where(is_top, -1e30, log_p), axis=-1, keepdims=True)
        log_not_p = jnp.where(is_top, log_others, jnp.log1p(-jnp.exp(jnp.where(is_top, -1e30, log_p))))
        is_gold = jnp.arange(10.0) == gold[..., None]
        p = jnp.exp(log_p)
        weight = jnp.where(is_gold, 1.0, p) if self.gold == "one" else p
        return -(weight * jnp.where(is_gold, log_p, log_not_p)).sum(-1)

    def sum_errors(self, error: jax.Array, mass: jax.Array, scored: jax.Array, places: Places | None) -> jax.Array:
        del mass
        assert places is not None
        rank = (places.place - places.least + 1).astype(jnp.float32)
        weight = jnp.log1p(jnp.where(scored, rank, 1)) / math.log(self.base) if self.base else jnp.ones_like(rank)
        weight = weight * jnp.where(places.place >= 0, self.whole, 1.0)
        return jnp.where(scored, weight * error, 0).sum()
