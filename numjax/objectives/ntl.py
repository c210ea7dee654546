"""The distance of predictions on the number line (number token loss; Zausinger et al. 2025, arXiv 2411.02083)."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from numjax.errors import UsageError, check_choice
from numjax.nn.places import Places
from numjax.objectives.base import LARGEST, NumberLoss

FORMS = ("was", "mse")
LEVELS = ("token", "number")


@dataclasses.dataclass(frozen=True)
class Objective(NumberLoss):
    """With p the softmax over the tokens that are numbers and y the value of the target, "was" is Σ_v p(v) |v − y|
    (the Wasserstein distance) and "mse" is (Σ_v p(v) v − y)²; averaged over the targets that are such tokens. The
    paper adds it with weight 0.3 to a cross-entropy with weight 1.

    The original code takes "was" from cumulative sums, which is the same only for evenly spaced values.

    Attributes, besides those of `NumberLoss`:
      form: "was" or "mse".
      reweigh: m · loss + (1 − m) · 1.01 · D with m the probability of all these tokens and D the largest distance of
        two of them, so that probability of other tokens costs more than any number. The authors' package has it on,
        their paper has not.
      level: "token", or "number": the mean over numbers of |e − y| / (|e| + |y|), with e = Σ_k E[digit k] 10^k the
        number of the expected digits and y the gold number (the package's, not the paper's). A number is a run of
        scored digits; the place k of a digit counts from the decimal point, also in numbers between [R] and [/R],
        which have their last digit first. The package takes 1.5 for two numbers. Its D of `reweigh` is a distance of
        two whole numbers, which explodes with their length; here D is 1, the largest value of the loss, and m the
        mean over the number's digits. `form` and `squash` do not apply.
      squash: with s > 1 the distance d > 0 of "was" becomes 1 + (d − d_min) (s − 1) / (d_max − d_min), with the
        least and the largest distance of any two tokens, so that d_max costs s times as much as d_min; 0: the
        distance itself.
    """

    form: str = "was"
    reweigh: bool = False
    squash: float = 0.0
    level: str = "token"

    def __post_init__(self):
        super().__post_init__()
        check_choice("ntl", FORMS, form=self.form)
        check_choice("ntl", LEVELS, level=self.level)
        if self.level == "number" and (self.symbols != "digits" or self.form != "was" or self.squash):
            raise UsageError("ntl: level=number works on digits: leave symbols, form and squash as they are")
        if self.squash and self.form != "was":
            raise UsageError("ntl: squash is of distances: set form=was, or leave squash 0")
        if self.squash and self.squash <= 1:
            raise UsageError(f"ntl: squash must be 0 or above 1, not {self.squash:g}")
        if self.form == "mse":
            self.check_largest(LARGEST**0.5 / 2)

    @property
    def needs_mass(self) -> bool:
        return self.reweigh

    def error(self, logits_S: jax.Array, values_S: jax.Array, gold: jax.Array, mass: jax.Array) -> jax.Array:
        """The loss at each position, float32[...]; see `NumberLoss.error`. With level "number" it is [..., 2]: the
        expected and the gold digit."""
        p_S = jax.nn.softmax(logits_S, axis=-1)
        if self.level == "number":
            return jnp.stack([(p_S * values_S).sum(-1), gold], -1)
        largest = values_S.max() - values_S.min()
        if self.form == "mse":
            error, largest = jnp.square((p_S * values_S).sum(-1) - gold), jnp.square(largest)
        else:
            distance_S = jnp.abs(values_S - gold[..., None])
            if self.squash:
                distance_S, largest = self._squash(distance_S, values_S), self.squash
            error = (p_S * distance_S).sum(-1)
        return mass * error + (1 - mass) * 1.01 * largest if self.reweigh else error

    @property
    def needs_places(self) -> bool:
        return self.level == "number"

    def sum_errors(self, error: jax.Array, mass: jax.Array, scored: jax.Array, places: Places | None) -> jax.Array:
        if places is None:
            return super().sum_errors(error, mass, scored, places)
        # Relative to the first digit's place: the quotient is the same, and no power of ten overflows.
        power = jnp.where(scored, 10.0 ** (places.place - places.most).astype(jnp.float32), 0)
        digits = jnp.stack([scored.astype(jnp.float32), jnp.where(scored, mass, 0)], -1)
        values = jnp.concatenate([error * power[..., None], digits], -1)
        # Numbered anew, since runs without digits count in `places`; positions beyond the last segment are dropped.
        number, length = jnp.cumsum(_find_first_digits(scored, places), axis=1) - 1, scored.shape[1]
        sums = jax.vmap(lambda row, number: jax.ops.segment_sum(row, number, num_segments=length))(
            values, jnp.where(scored, number, length)
        )
        expected, gold, count, total_mass = jnp.moveaxis(sums, -1, 0)
        size = expected + gold
        loss = jnp.abs(expected - gold) / jnp.where(size > 0, size, 1)
        if self.reweigh:
            share = total_mass / jnp.maximum(count, 1)
            loss = share * loss + (1 - share) * 1.01
        return jnp.where(count > 0, loss, 0).sum()

    def count_errors(self, scored: jax.Array, places: Places | None) -> jax.Array:
        if places is None:
            return super().count_errors(scored, places)
        return _find_first_digits(scored, places).sum()

    def _squash(self, distance_S: jax.Array, values_S: jax.Array) -> jax.Array:
        gaps = jnp.diff(jnp.sort(values_S))
        least = jnp.where(gaps > 0, gaps, jnp.inf).min()
        span = jnp.maximum(values_S.max() - values_S.min() - least, 1e-30)
        return jnp.where(distance_S > 0, 1 + (distance_S - least) * (self.squash - 1) / span, 0.0)


def _find_first_digits(scored: jax.Array, places: Places) -> jax.Array:
    """Where a scored digit is the first one of its number, bool[B, T]."""
    number = jnp.where(scored, places.number, -1)
    earlier = jax.lax.cummax(jnp.pad(number, ((0, 0), (1, 0)), constant_values=-1), axis=1)[:, :-1]
    return scored & (number > earlier)
