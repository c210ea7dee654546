"""The base of heads with a softmax over the vocabulary: its table and the methods that evaluate a `HeadOut`.

Legend: B rows, T positions, D width, V vocabulary, P decimal places, K digits of a `Numeral`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError, check_least
from numjax.nn import carries, cross_entropy
from numjax.nn.norm import layer_norm
from numjax.nn.numerals import from_places, recount_digits, to_places
from numjax.nn.scored import apply_at_few
from numjax.protocols import FromContext
from numjax.types import Allowed, Estimate, HeadOut, NumberRange, Numeral, Scores, Targets

NUMBERS = 0.125  # with fewer scored numbers than this share of positions, a loss computes these positions alone


def choose_table(head: Any, table_VD: jax.Array | None, width: int) -> jax.Array:
    """The token embedding's table for a tied head, else the head's own parameter "kernel"."""
    if not head.tied:
        init = nn.initializers.normal(head.init_std)
        return head.param("kernel", init, (head.vocab_size, width), jnp.float32)
    if table_VD is None:
        raise ValueError("a tied head needs a token embedding in the model")
    return table_VD


class Softmax(protocols.Head):
    """p = softmax(h Wᵀ + b) of a `HeadOut`, with W[V, D] its "kernel" and b[V] its "bias", if there is one."""

    size: int
    chunk_rows: int | None
    by_token = True
    answers = "masked"

    def log_prob(self, out: HeadOut, targets: Targets, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"token": log p(target)[B, T]}."""
        kernel, options = out.weights["kernel"], self._options(out, allowed)
        return {"token": cross_entropy.log_prob(out.hidden, kernel, targets.ids, **options)}

    def total_log_prob(
        self, out: HeadOut, targets: Targets, weights_BT: jax.Array, allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """The parts of `log_prob`, each summed with `weights_BT`; a loss should use this."""
        kernel, options = out.weights["kernel"], self._options(out, allowed)
        return {"token": cross_entropy.total_log_prob(out.hidden, kernel, targets.ids, weights_BT, **options)}

    def token_logits(self, out: HeadOut, ids: jax.Array) -> jax.Array:
        """The logits of tokens int32[n], float32[B, T, n]."""
        return cross_entropy.token_logits(out.hidden, out.weights["kernel"], ids, out.weights.get("bias"))

    def total_cross_entropy(self, out: HeadOut, teacher_out: HeadOut, weights_BT: jax.Array) -> jax.Array:
        """−Σ weights · Σ_v p(v) log q(v), q of `out` and p of `teacher_out`, which gets no gradient."""
        kernel, options = out.weights["kernel"], self._options(out, None)
        teacher = cross_entropy.Teacher(
            teacher_out.hidden, teacher_out.weights["kernel"], teacher_out.weights.get("bias")
        )
        return -cross_entropy.total_soft_log_prob(out.hidden, kernel, teacher, weights_BT, **options)

    def _options(self, out: HeadOut, allowed: Allowed | None) -> dict[str, Any]:
        bias = out.weights.get("bias")
        return dict(size=self.size, allowed=allowed, chunk_rows=self.chunk_rows, bias=bias)


class Writer(Softmax):
    """A softmax over the next token."""

    answers = "language_model"

    def step_scores(self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None) -> Scores:
        """The scores of hidden states [B, D]; `allowed_BV` masks the logits before the softmax."""
        del key
        logits = cross_entropy.step_logits(out.hidden, out.weights, self._options(out, None)["size"])
        if allowed_BV is not None:
            logits = jnp.where(allowed_BV, logits, cross_entropy.FORBIDDEN)
        return Scores(jax.nn.log_softmax(logits, axis=-1))


class NumberDistribution:
    """What a head provides that states a distribution of its numbers. Other heads have neither method: of their
    numbers there are only samples."""

    _number_parts: Any  # of a `NumberWriter`

    def number_quantiles(self, out: HeadOut, targets: Targets, levels: jax.Array) -> Numeral:
        """Quantiles of the number that the head predicts at each position, Numeral[B, T, Q].

        That of the level u is the least number x with P(number ≤ x) ≥ u, rounded as the head rounds. It is computed
        from the distribution, not from samples. A number of several positions has its quantiles at its last one.

        Args:
          targets: which positions hold numbers, and which number (`Targets.numeral_index`).
          levels: float32[Q] in (0, 1).
        """
        raise NotImplementedError

    def number_log_mass(self, out: HeadOut, targets: Targets) -> jax.Array:
        """The log mass of the number at each position, given that a number is written there, float32[B, T].

        The masses of all numbers that the head writes sum to one. That of a number of several positions is the sum
        over them. By default it is the sum of the number's parts in `log_prob`. A head has its own where this is not
        the mass of all that is written as the number: where a part is a density, or a number has several forms.
        """
        return jnp.asarray(sum(self._number_parts(out, targets).values()))


class NumberWriter(Writer, nn.Module):
    """A softmax over the next token, which may be [NUM], and at [NUM] a prediction of its number.

    The base of heads that predict a number at one position; each defines `number_log_prob` and `number`.

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use; num_id: id of [NUM]; digits: K of numerals.
      tied, chunk_rows: as in `heads/token`.
    """

    width: FromContext[int]
    vocab_size: FromContext[int]
    size: FromContext[int]
    num_id: FromContext[int]
    digits: FromContext[int] = 20
    tied: bool = True
    chunk_rows: int | None = None
    init_std: float = 0.02
    numbers = True

    def make_norm(self) -> dict[str, jax.Array]:
        """The parameters of `norm`, for the weights of a `HeadOut`."""
        ones, zeros = nn.initializers.ones, nn.initializers.zeros
        return {
            "number_scale": self.param("number_scale", ones, (self.width,), jnp.float32),
            "number_bias": self.param("number_bias", zeros, (self.width,), jnp.float32),
        }

    def norm(self, out: HeadOut) -> jax.Array:
        """The hidden states after a layer norm of their own, float32[..., D], which the outputs of a number read."""
        return layer_norm(out.hidden.astype(jnp.float32), out.weights["number_scale"], out.weights["number_bias"])

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """Named parts of log p(number), each [B, T], of numerals [B, T]; values at other positions are ignored.

        A position must not depend on others: a loss asks for a few of them, of all rows, side by side.
        """
        raise NotImplementedError

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, Estimate | None]:
        """(the canonical numbers for hidden states [B, D], their estimates or None): the likeliest numbers or, with a
        key, samples."""
        raise NotImplementedError

    def log_prob(self, out: HeadOut, targets: Targets, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"token": …} and the parts of the number, each [B, T], zero at positions without a number."""
        return dict(super().log_prob(out, targets, allowed)) | self._number_parts(out, targets)

    def total_log_prob(
        self, out: HeadOut, targets: Targets, weights_BT: jax.Array, allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """The parts of `log_prob`, each summed with `weights_BT`; a loss should use this."""
        token_parts = dict(super().total_log_prob(out, targets, weights_BT, allowed))
        return token_parts | self._total_number_parts(out, targets, weights_BT)

    def step_scores(self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None) -> Scores:
        """The scores of hidden states [B, D]; `allowed_BV` masks the logits before the softmax."""
        return Scores(super().step_scores(out, allowed_BV, key).mass, *self.number(out, key))

    def _number_parts(self, out: HeadOut, targets: Targets) -> dict[str, jax.Array]:
        if targets.numerals is None or targets.numeral_index is None:
            return {}
        parts = self.number_log_prob(out, targets.numerals)
        return {name: jnp.where(self._is_number(targets), part, 0.0) for name, part in parts.items()}

    def _total_number_parts(self, out: HeadOut, targets: Targets, weights_BT: jax.Array) -> dict[str, jax.Array]:
        """`_number_parts`, each summed with `weights_BT`. Of most texts few positions are numbers that are scored."""
        if targets.numerals is None or targets.numeral_index is None:
            return {}
        is_scored = self._is_number(targets) & (weights_BT != 0)

        def compute(take):
            hidden, numerals, own_scored, weights = take((out.hidden, targets.numerals, is_scored, weights_BT))
            parts = self.number_log_prob(out._replace(hidden=hidden), numerals)
            return {name: (jnp.where(own_scored, part, 0.0) * weights).sum() for name, part in parts.items()}

        return apply_at_few(is_scored, NUMBERS, compute)

    def _is_number(self, targets: Targets) -> jax.Array:
        """Whether a position is a [NUM] whose number is known, bool[B, T]."""
        if targets.numeral_index is None:
            return jnp.zeros(targets.ids.shape, bool)
        return (targets.numeral_index >= 0) & (targets.ids == self.num_id)


def split_levels(negative: jax.Array, levels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(whether each quantile is negative, its level among the absolute values of that sign), both [..., Q].

    A negative number is large where its absolute value is small, so its level is one of the upper quantile.

    Args:
      negative: the probability of a negative sign, float32[...], which is independent of the absolute value.
      levels: float32[Q].
    """
    negative = negative[..., None]
    is_negative = levels <= negative
    share = jnp.where(is_negative, levels / jnp.maximum(negative, 1e-37), (levels - negative) / (1 - negative))
    return is_negative, jnp.clip(jnp.where(is_negative, share, jnp.nan_to_num(share)), 1e-7, 1.0)


class PlaceWriter(NumberWriter):
    """A `NumberWriter` that predicts all decimal places of a number at once, and its sign.

    Attributes, besides those of `NumberWriter`:
      integer, fraction: places before and behind the point.
      signed: predict the sign too.
    """

    integer: int = 9
    fraction: int = 4
    signed: bool = True

    @property
    def places(self) -> int:
        """P."""
        check_least(self.part_name(), 0, integer=self.integer, fraction=self.fraction)
        check_least(self.part_name(), 1, places=self.integer + self.fraction)
        return self.integer + self.fraction

    @property
    def number_range(self) -> NumberRange:
        """Numbers of at most `integer` digits before the point, `fraction` behind it, and K in all."""
        return NumberRange(self.signed, self.digits, self.fraction, high=self.integer - 1)

    def to_digits(self, numerals: Numeral) -> jax.Array:
        """The digits of all places, int32[..., P], lowest place first.

        A number too large for the places counts as the largest that fits, and digits behind the last place are cut
        off.
        """
        digits, _ = to_places(numerals, -self.fraction, self.places)
        is_large = (numerals.exponent >= self.integer) & (numerals.n_digits > 0)
        return jnp.where(is_large[..., None], 9, digits)

    def from_digits(self, digits: jax.Array, sign: jax.Array | None, key: jax.Array | None) -> Numeral:
        """The canonical number of digits int[..., P], with the likelier sign or, with a key, a sampled one.

        Args:
          sign: the logit of a positive sign, float[...]; None: numbers are positive.
        """
        if sign is None:
            negative = jnp.zeros(digits.shape[:-1], bool)
        elif key is None:
            negative = sign < 0
        else:
            negative = jax.random.bernoulli(key, jax.nn.sigmoid(-sign))
        return recount_digits(from_places(jnp.where(negative, -1, 1), digits, -self.fraction, self.digits))


class PlaceDistribution(PlaceWriter, NumberDistribution):
    """A `PlaceWriter` that states the distribution of its numbers: of the digits of all places, and of the sign.

    Raises, where the distribution is asked for:
      UsageError: a `Numeral` does not keep the digits of all places, so that several strings of digits are written as
        one number.
    """

    def find_quantiles(
        self, log_probs: jax.Array, sign: jax.Array | None, kind: carries.Digits, levels: jax.Array
    ) -> Numeral:
        """Exact quantiles [..., Q] of numbers whose places have these digits, see `nn.carries.find_quantiles`.

        Args:
          log_probs: float32[..., P, S]. sign: the logit of a positive sign, float32[...]; None: all are positive.
          levels: float32[Q].
        """
        self._check_places()
        negative = jnp.zeros(log_probs.shape[:-2]) if sign is None else jax.nn.sigmoid(-sign)
        is_negative, level = split_levels(negative, levels)
        digits, _ = carries.find_quantiles(log_probs, kind, level, is_negative)
        return self.from_digits(digits, jnp.where(is_negative, -1.0, 1.0), None)

    def number_log_mass(self, out: HeadOut, targets: Targets) -> jax.Array:
        """The log mass of the number at each position, float32[B, T]. That of 0 has no part of the sign: 0 is written
        for either."""
        self._check_places()
        parts = self._number_parts(out, targets)
        if "sign" in parts and targets.numerals is not None:
            is_zero = (self.to_digits(targets.numerals) == 0).all(-1)
            parts["sign"] = jnp.where(is_zero, 0.0, parts["sign"])
        return jnp.asarray(sum(parts.values()))

    def _check_places(self) -> None:
        if self.places > self.digits:
            raise UsageError(
                f"{self.part_name()}: numbers have {self.places} places, and {self.digits} of their digits are kept, "
                f"so probabilities are not known: set config.data.digits={self.places}, or fewer places"
            )
