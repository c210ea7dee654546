"""The next token, and the vector of a [NUM] whose number is still to be written (for the scheme `value_prefix`; the
value-aware prefix of Dutulescu et al. 2026, arXiv 2601.09706).

Legend: B rows, T positions, D width, V vocabulary.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.heads import base
from numjax.nn import dense
from numjax.protocols import FromContext
from numjax.types import HeadOut, Scores, Tokens


class Head(base.Writer, nn.Module):
    """p(x_t) = softmax(h W), and P h + b in place of the input vector of [NUM], if that is the next token.

    While a decoder writes, the vector f(x) of a number x is not known at its [NUM], which stands before the digits.
    The projection stands in. It has no part in the likelihood: objective `projection` trains P and b.

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use. tied, chunk_rows: as in `heads/token`.
    """

    width: FromContext[int]
    vocab_size: FromContext[int]
    size: FromContext[int]
    tied: bool = True
    chunk_rows: int | None = None
    init_std: float = 0.02
    numbers = True
    written_as = "prefix"
    trained_by = "projection"

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        init, zeros = nn.initializers.normal(self.init_std), nn.initializers.zeros
        weights = {
            "kernel": base.choose_table(self, table_VD, self.width),
            "projection": self.param("projection", init, (self.width, self.width), jnp.float32),
            "projection_bias": self.param("projection_bias", zeros, (self.width,), jnp.float32),
        }
        return HeadOut(h_BTD, weights)

    def project(self, out: HeadOut) -> jax.Array:
        """The vectors of [NUM]s that come next, float32[..., D]."""
        kernel, bias = out.weights["projection"], out.weights["projection_bias"]
        return dense.project(out.hidden.astype(jnp.float32), kernel) + bias

    def step_scores(self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None) -> Scores:
        """The scores of hidden states [B, D], with the vector that [NUM] would have."""
        return super().step_scores(out, allowed_BV, key)._replace(vector=self.project(out))
