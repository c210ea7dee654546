"""Token embedding in which [AGG] holds the aggregate of its number's digits (digit aggregation, section 4.1)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.embed.token import lookup
from numjax.errors import UsageError
from numjax.nn import digits
from numjax.protocols import FromContext
from numjax.types import Tokens


class Embed(protocols.Embed, nn.Module):
    """A learned vector per token; that of [AGG] is computed from the digits' current vectors at each call.

    Attributes:
      dim: width D. vocab_size: V, padded.
      digit_ids: ids of the digits 0 … 9. agg_id: id of [AGG]; without one this is the plain token embedding.
      aggregate: see `nn.digits.aggregate`; of all digits of the number's surface, without its point.
      longest: most digits of a number that are read, the first ones.
      gradient: let gradients reach the digits' vectors through [AGG] too.
      init_std: standard deviation of the initial vectors.
      dtype: compute type; vectors are read in it.
    """

    dim: FromContext[int]
    vocab_size: FromContext[int]
    digit_ids: FromContext[tuple[int, ...] | None] = None
    agg_id: FromContext[int | None] = None
    aggregate: str = "weighted"
    longest: int = 20
    gradient: bool = True
    init_std: float = 0.02
    dtype: FromContext[str] = "float32"
    kind = "token"

    def setup(self):
        shape = (self.vocab_size, self.dim)
        self.table = self.param("table", nn.initializers.normal(self.init_std), shape, jnp.float32)

    def __call__(self, tokens: Tokens) -> jax.Array:
        text_BTD = lookup(self.table, tokens.ids, self.dtype)
        if self.agg_id is None or tokens.numerals is None or tokens.numeral_index is None:
            return text_BTD
        if self.digit_ids is None:
            raise UsageError("[AGG] needs a vocabulary in which each digit is a token: use scheme digits")
        # Padded so that the rows split over a mesh.
        ids = jnp.asarray((*self.digit_ids, *(self.digit_ids[0],) * 118), jnp.int32)
        digits_XD = lookup(self.table, ids[:, None], self.dtype)[:10, 0].astype(jnp.float32)
        if not self.gradient:
            digits_XD = jax.lax.stop_gradient(digits_XD)
        numbers = tokens.numerals.valid.shape[-1]
        digits_BNL = digits.from_ids(tokens.ids, tokens.numeral_index, self.digit_ids, numbers, self.longest)
        aggregates_BND = digits.aggregate(digits_XD, digits_BNL, self.aggregate).astype(text_BTD.dtype)
        aggregates_BTD = jnp.take_along_axis(aggregates_BND, jnp.maximum(tokens.numeral_index, 0)[..., None], axis=1)
        return jnp.where((tokens.ids == self.agg_id)[..., None], aggregates_BTD, text_BTD)
