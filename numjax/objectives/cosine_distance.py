"""L_num: the cosine distance of two numbers' vectors follows their relative difference (DICE, eq. 7).

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
from numjax.types import TYPES, Batch, HeadOut, Loss, Numeral, Tokens

_LOST = 60  # decimal places beyond which the smaller of two numbers is nothing beside the larger, in float32
_EXACT = jax.lax.Precision.HIGHEST


def relative_difference(x: Numeral, y: Numeral) -> jax.Array:
    """2 |x − y| / (|x| + |y|), float32, from 0 (equal, and 0 for two zeros) to 2 (opposite signs, or one is zero).

    Computed from mantissas and exponents: it overflows at no size. Shapes are broadcast.
    """
    (a, place_a), (b, place_b) = _parts(x), _parts(y)
    top = jnp.maximum(place_a, place_b)
    a, b = (m * _power(jnp.maximum(place - top, -_LOST)) for m, place in ((a, place_a), (b, place_b)))
    total = jnp.abs(a) + jnp.abs(b)
    return 2 * jnp.abs(a - b) / jnp.where(total > 0, total, 1)


def _power(places: jax.Array) -> jax.Array:
    return jnp.power(jnp.float32(10), places.astype(jnp.float32))


def _parts(x: Numeral) -> tuple[jax.Array, jax.Array]:
    mantissa = x.mantissa
    # Zero has no place of its own: it must not raise the place of the other.
    return mantissa, jnp.where(mantissa == 0, jnp.iinfo(jnp.int32).min // 2, x.exponent)


def unit(x: jax.Array) -> jax.Array:
    """x / ‖x‖ over the last axis in float32; a zero vector stays zero, with a gradient of zero."""
    x = x.astype(jnp.float32)
    square = jnp.square(x).sum(axis=-1, keepdims=True)
    return jnp.where(square > 0, x * jax.lax.rsqrt(jnp.where(square > 0, square, 1)), 0)


def pooled(h_BTD: jax.Array, tokens: Tokens, token_type: int | None = None) -> tuple[jax.Array, jax.Array]:
    """(the mean vector[B, N, D] of each number's positions in float32, bool[B, N] which numbers have any).

    Args:
      token_type: only positions of this type count.
    """
    index, numerals = tokens.numeral_index, tokens.numerals
    assert index is not None and numerals is not None
    seen = tokens.segment_ids > 0
    if token_type is not None:
        types = tokens.channel(TYPES.name)
        seen &= (types if types.ndim == 2 else types[..., 0]) == token_type
    mine = (index[..., None] == jnp.arange(numerals.valid.shape[1])) & seen[..., None]
    counts = mine.sum(axis=1)
    total = jnp.einsum("btn,btd->bnd", mine.astype(jnp.float32), h_BTD.astype(jnp.float32), precision=_EXACT)
    return total / jnp.maximum(counts, 1)[..., None], numerals.valid & (counts > 0)


@dataclasses.dataclass(frozen=True)
class Objective(protocols.Objective):
    """Σ | 2|x − y|/(|x| + |y|) − d_cos(x, y) | over pairs of numbers, and how many pairs there are.

    The vectors are hidden states, averaged over a number's sub-words. Parts: the two terms' own sums.

    Attributes:
      of: which intermediate of the backbone: "final", "layer_0", …; of the encoder of a source "encoder/final".
      within: pairs are of one "row", or, as published, of the whole "batch", which therefore must not be cut into
        microbatches.
      pairs: how many to draw with replacement from each row (or batch), 1 as published; 0 takes all.
      norm: "abs", as the norm of a number is (eq. 7), or "squared".
      token_type: only numbers at positions of this type, 1 for the context of a question.
    """

    of: str = "final"
    within: str = "row"
    pairs: int = 0
    norm: str = "abs"
    token_type: int | None = None

    draws = True  # wants a key

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
        """Whether its sums are those of a batch as a whole, and not of its rows."""
        return self.within == "batch"

    def __call__(
        self,
        heads: Mapping[str, Any],
        outs: Mapping[str, HeadOut],
        acts: Mapping[str, Any],
        batch: Batch,
        key: jax.Array | None = None,
    ) -> Loss:
        """`key` draws the pairs; without one, as in an evaluation, they are the same every time."""
        del heads, outs
        tokens = batch.source if self.of.startswith("encoder/") and batch.source is not None else batch.inputs
        if tokens.numerals is None or tokens.numeral_index is None:
            raise UsageError("cosine_distance reads numbers, but the scheme marks none: use scheme subword")
        if self.of not in acts:
            raise UsageError(f"cosine_distance: the backbone has no {self.of!r}; it has {', '.join(acts)}")
        x_BND, valid_BN = pooled(acts[self.of], tokens, self.token_type)
        if batch.valid is not None:
            valid_BN &= batch.valid[:, None]
        numerals = tokens.numerals
        if self.within == "batch":
            x_BND, valid_BN, numerals = jax.tree.map(
                lambda x: x.reshape(1, -1, *x.shape[2:]), (x_BND, valid_BN, numerals)
            )
        apart = self._drawn(x_BND, valid_BN, numerals, key) if self.pairs else _all(x_BND, valid_BN, numerals)
        relative, cosine, counted = apart
        count = counted.sum(dtype=jnp.float32)
        error = jnp.abs(relative - cosine)
        error = error if self.norm == "abs" else jnp.square(error)
        sums = [jnp.where(counted, x, 0).sum() for x in (error, relative, cosine)]
        return Loss(sums[0], count, {"relative": (sums[1], count), "cosine": (sums[2], count)})

    def _drawn(self, x_GMD, valid_GM, numerals, key):
        """The same for pairs of two different numbers, each pair as likely as any other, [G, P]."""
        key = jax.random.key(0) if key is None else key
        shape = (valid_GM.shape[0], self.pairs, valid_GM.shape[1])
        # The two largest of independent uniform numbers are a uniform draw without replacement.
        chances = jnp.where(valid_GM[:, None], jax.random.uniform(key, shape), -1.0)
        first = chances.argmax(axis=-1)
        rest = jnp.where(jnp.arange(shape[-1]) == first[..., None], -1.0, chances)
        second = rest.argmax(axis=-1)

        def at(x, index):
            return jax.vmap(lambda values, places: values[places])(x, index)

        x, y = (jax.tree.map(lambda values, i=index: at(values, i), numerals) for index in (first, second))
        directions = unit(x_GMD)
        cosine = 1 - (at(directions, first) * at(directions, second)).sum(axis=-1)
        enough = (valid_GM.sum(axis=1) >= 2)[:, None]
        return relative_difference(x, y), cosine, jnp.broadcast_to(enough, first.shape)


def _all(x_GMD, valid_GM, numerals):
    """(relative difference, cosine distance, whether it counts) of every pair, [G, M, M] each."""
    directions = unit(x_GMD)
    cosine = 1 - jnp.einsum("gmd,gnd->gmn", directions, directions, precision=_EXACT)
    x, y = (jax.tree.map(lambda values, a=axis: jnp.expand_dims(values, a), numerals) for axis in (2, 1))
    once = jnp.arange(valid_GM.shape[1])
    counted = valid_GM[:, :, None] & valid_GM[:, None, :] & (once[:, None] < once)
    return relative_difference(x, y), cosine, counted
