"""The next token as a softmax over the vocabulary."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.heads import base
from numjax.protocols import FromContext
from numjax.types import HeadOut, Tokens


class Head(base.Writer, nn.Module):
    """p(x_t) = softmax(h W) (NumGPT eq. 9).

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use.
      tied: W is the token embedding's table. scaled: h is first divided by √D (T5's tied table).
      bias: a bias is added to the logits (BART's).
      chunk_rows: rows of logits at a time; None chooses by vocabulary and backend.
    """

    width: FromContext[int]
    vocab_size: FromContext[int]
    size: FromContext[int]
    tied: bool = True
    scaled: bool = False
    bias: bool = False
    chunk_rows: int | None = None
    init_std: float = 0.02

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        weights = {"kernel": base.choose_table(self, table_VD, self.width)}
        if self.bias:
            weights["bias"] = self.param("bias", nn.initializers.zeros, (self.vocab_size,), jnp.float32)
        return HeadOut(h_BTD * self.width**-0.5 if self.scaled else h_BTD, weights)
