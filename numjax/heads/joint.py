"""Text and mathematics in one softmax, each with weights of its own (MathGPT, section 3.3), or linked."""

from __future__ import annotations

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.heads import softmax
from numjax.nn import spelling
from numjax.types import HeadOut, Tokens


def join(table_VD: jax.Array, math_MD: jax.Array, first: int) -> jax.Array:
    """The table with its rows from `first` on in place of them. Any trailing shape; no row moves between devices."""
    index_V = jnp.arange(table_VD.shape[0]) - first
    inside = ((index_V >= 0) & (index_V < math_MD.shape[0])).reshape(-1, *(1,) * (table_VD.ndim - 1))
    return jnp.where(inside, jnp.take(math_MD, jnp.clip(index_V, 0, math_MD.shape[0] - 1), axis=0), table_VD)


class Head(softmax.Writer, nn.Module):
    """p(x_t) = softmax([h W_text, h W_math + b]), under the grammar's mask.

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use.
      symbol_range: (first mathematical id, how many); without it this is the tied `token` head.
      tied: W_text is the token embedding's table.
      bias: whether b is there.
      linked: a symbol's row of W_math is added to the mean of the rows of the text tokens that spell it, so that a
        digit of a formula is likely where that digit of the text is.
      symbols: (first mathematical id, for each from there on the text tokens that spell it).
      chunk_rows: rows of logits at a time; None chooses by vocabulary and backend.
    """

    width: int
    vocab_size: int
    size: int
    symbol_range: tuple[int, int] | None = None
    tied: bool = True
    bias: bool = True
    linked: bool = False
    symbols: tuple[int, tuple[tuple[int, ...], ...]] | None = None
    chunk_rows: int | None = None
    init_std: float = 0.02

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        table_VD = softmax.table(self, table_VD, self.width)
        if self.symbol_range is None:
            return HeadOut(h_BTD, {"kernel": table_VD})
        first, count = self.symbol_range
        math_MD = self.param("math_kernel", nn.initializers.normal(self.init_std), (count, self.width), jnp.float32)
        if self.linked and self.symbols is not None:
            math_MD += spelling.means(table_VD, self.symbols[1], partial(jnp.take, axis=0))
        weights = {"kernel": join(table_VD, math_MD, first)}
        if self.bias:
            bias_M = self.param("math_bias", nn.initializers.zeros, (count,), jnp.float32)
            weights["bias"] = join(jnp.zeros(table_VD.shape[0], jnp.float32), bias_M, first)
        return HeadOut(h_BTD, weights)
