"""L_num: makes the cosine distance of two numbers' vectors equal their relative difference (DICE, eq. 7).

Legend: B rows, T positions, N numerals of a row, D width; G groups of M numbers each, P pairs of a group.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.einsum import einsum
from numjax.types import TYPES, Batch, HeadOut, Loss, Numeral, Tokens

_LOST = 60  # decimal places beyond which the smaller of two numbers vanishes next to the larger, in float32
_EXACT = jax.lax.Precision.HIGHEST


def relative_difference(x: Numeral, y: Numeral) -> jax.Array:
    """2 |x − y| / (|x| + |y|), float32, from 0 (equal, and 0 for two zeros) to 2 (opposite signs, or one is zero).

    Computed from mantissas and exponents, so that nothing overflows. Shapes are broadcast.
    """
    (a, exponent_a), (b, exponent_b) = _parts(x), _parts(y)
    top = jnp.maximum(exponent_a, exponent_b)
    a, b = (
        mantissa * _power(jnp.maximum(exponent - top, -_LOST))
        for mantissa, exponent in ((a, exponent_a), (b, exponent_b))
    )
    total = jnp.abs(a) + jnp.abs(b)
    return 2 * jnp.abs(a - b) / jnp.where(total > 0, total, 1)


def _power(exponent: jax.Array) -> jax.Array:
    return jnp.power(jnp.float32(10), exponent.astype(jnp.float32))


def _parts(x: Numeral) -> tuple[jax.Array, jax.Array]:
    mantissa = x.mantissa
    # Zero has no exponent: it must not raise the common exponent.
    return mantissa, jnp.where(mantissa == 0, jnp.iinfo(jnp.int32).min // 2, x.exponent)


def normalize(x: jax.Array) -> jax.Array:
    """x / ‖x‖ over the last axis in float32; a zero vector stays zero, with a gradient of zero."""
    x = x.astype(jnp.float32)
    square = jnp.square(x).sum(axis=-1, keepdims=True)
    return jnp.where(square > 0, x * jax.lax.rsqrt(jnp.where(square > 0, square, 1)), 0)


def pool_numbers(h_BTD: jax.Array, tokens: Tokens, token_type: int | None = None) -> tuple[jax.Array, jax.Array]:
    """(the mean vector[B, N, D] of each number's positions in float32; which numbers have positions, bool[B, N]).

    Args:
      token_type: count only positions of this type.
    """
    index, numerals = tokens.numeral_index, tokens.numerals
    assert index is not None and numerals is not None
    is_counted = tokens.segment_ids > 0
    if token_type is not None:
        is_counted &= tokens.first_types() == token_type
    member_BTN = (index[..., None] == jnp.arange(numerals.valid.shape[1])) & is_counted[..., None]
    counts = member_BTN.sum(axis=1)
    total = einsum("btn,btd->bnd", member_BTN.astype(jnp.float32), h_BTD.astype(jnp.float32), precision=_EXACT)
    return total / jnp.maximum(counts, 1)[..., None], numerals.valid & (counts > 0)


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """Σ | 2|x − y|/(|x| + |y|) − d_cos(x, y) | over pairs of numbers, and the number of pairs.

    The vectors are hidden states, averaged over a number's sub-words. Parts: the sums of the two terms.

    Attributes:
      of: which output of the backbone: "final", "layer_0", …; for the encoder of a source "encoder/final".
      within: pairs are from one "row" or, as published, from the whole "batch", which then must not be cut into
        microbatches.
      pairs: how many pairs to draw with replacement from each row (or batch), 1 as published; 0 takes all.
      norm: "abs", the norm of a number (eq. 7), or "squared".
      token_type: only numbers at positions of this type, 1 for the context of a question.
    """

    of: str = "final"
    within: str = "row"
    pairs: int = 0
    norm: str = "abs"
    token_type: int | None = None

    draws = True  # takes a key

    @classmethod
    def wants_channels(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return () if options.get("token_type") is None else (TYPES.name,)

    def __post_init__(self):
        if self.within not in ("row", "batch"):
            raise UsageError(f"cosine_distance: within must be row or batch, not {self.within!r}")
        if self.norm not in ("abs", "squared"):
            raise UsageError(f"cosine_distance: norm must be abs or squared, not {self.norm!r}")
        if self.pairs < 0:
            raise UsageError(f"cosine_distance: pairs must be 0 (all) or more, not {self.pairs}")

    @property
    def whole_batch(self) -> bool:
        """Whether its sums are over the batch as a whole, not over its rows."""
        return self.within == "batch"

    def __call__(
        self,
        heads: Mapping[str, Any],
        outs: Mapping[str, HeadOut],
        acts: Mapping[str, Any],
        batch: Batch,
        key: jax.Array | None = None,
    ) -> Loss:
        """The loss; `key` draws the pairs, and without one, as in an evaluation, the pairs are always the same."""
        del heads, outs
        tokens = batch.source if self.of.startswith("encoder/") and batch.source is not None else batch.inputs
        if tokens.numerals is None or tokens.numeral_index is None:
            raise UsageError("cosine_distance reads numbers, but the scheme marks none: use scheme subword")
        if self.of not in acts:
            raise UsageError(f"cosine_distance: the backbone has no {self.of!r}; it has {', '.join(acts)}")
        x_BND, valid_BN = pool_numbers(acts[self.of], tokens, self.token_type)
        if batch.valid is not None:
            valid_BN &= batch.valid[:, None]
        numerals = tokens.numerals
        if self.within == "batch":
            x_BND, valid_BN, numerals = jax.tree.map(
                lambda x: x.reshape(1, -1, *x.shape[2:]), (x_BND, valid_BN, numerals)
            )
        terms = (
            self._compare_sampled(x_BND, valid_BN, numerals, key)
            if self.pairs
            else _compare_all(x_BND, valid_BN, numerals)
        )
        relative, cosine, counted = terms
        count = counted.sum(dtype=jnp.float32)
        error = jnp.abs(relative - cosine)
        error = error if self.norm == "abs" else jnp.square(error)
        sums = [jnp.where(counted, x, 0).sum() for x in (error, relative, cosine)]
        return Loss(sums[0], count, {"relative": (sums[1], count), "cosine": (sums[2], count)})

    def _compare_sampled(self, x_GMD, valid_GM, numerals, key):
        """As `_compare_all`, for random pairs of two different numbers, all equally likely: [G, P] each."""
        key = jax.random.key(0) if key is None else key
        shape = (valid_GM.shape[0], self.pairs, valid_GM.shape[1])
        # The two largest of independent uniform numbers are a uniform sample without replacement.
        priorities = jnp.where(valid_GM[:, None], jax.random.uniform(key, shape), -1.0)
        first = priorities.argmax(axis=-1)
        other_priorities = jnp.where(jnp.arange(shape[-1]) == first[..., None], -1.0, priorities)
        second = other_priorities.argmax(axis=-1)

        def take(x, index):
            return jax.vmap(lambda values, indices: values[indices])(x, index)

        x, y = (jax.tree.map(lambda values, i=index: take(values, i), numerals) for index in (first, second))
        directions = normalize(x_GMD)
        cosine = 1 - (take(directions, first) * take(directions, second)).sum(axis=-1)
        has_pair = (valid_GM.sum(axis=1) >= 2)[:, None]
        return relative_difference(x, y), cosine, jnp.broadcast_to(has_pair, first.shape)


def _compare_all(x_GMD, valid_GM, numerals):
    """(relative difference, cosine distance, whether the pair counts) of every pair, [G, M, M] each."""
    directions = normalize(x_GMD)
    cosine = 1 - einsum("gmd,gnd->gmn", directions, directions, precision=_EXACT)
    x, y = (jax.tree.map(lambda values, a=axis: jnp.expand_dims(values, a), numerals) for axis in (2, 1))
    index = jnp.arange(valid_GM.shape[1])
    counted = valid_GM[:, :, None] & valid_GM[:, None, :] & (index[:, None] < index)
    return relative_difference(x, y), cosine, counted
