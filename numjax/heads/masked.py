"""A masked token, at its own position: BERT's transform, then a softmax over the token table (Devlin et al. 2019)."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.heads import base
from numjax.nn.dense import project
from numjax.nn.norm import layer_norm
from numjax.protocols import FromContext
from numjax.types import HeadOut, Tokens


class Head(base.Softmax, nn.Module):
    """p(x_t) = softmax(norm(gelu(h W + b)) Eᵀ + c), E the token embedding's table or the head's own.

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use.
      inner: width after the transform, 0 for D; tied: E is the token embedding's table, which then has that width.
      epsilon: of the layer norm, as the backbone's. chunk_rows: as in heads/token.py.
    """

    width: FromContext[int]
    vocab_size: FromContext[int]
    size: FromContext[int]
    inner: int = 0
    tied: bool = True
    epsilon: float = 1e-12
    chunk_rows: int | None = None
    init_std: float = 0.02

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        ones, zeros = nn.initializers.ones, nn.initializers.zeros
        normal, inner = nn.initializers.normal(self.init_std), self.inner or self.width
        table_VD = base.choose_table(self, table_VD, inner)
        if table_VD.shape[1] != inner:
            raise UsageError(f"masked: inner={inner} and tied, but tokens have width {table_VD.shape[1]}")
        dtype, shape = h_BTD.dtype, (inner,)
        kernel = self.param("transform_kernel", normal, (self.width, inner), jnp.float32)
        transform_bias = self.param("transform_bias", zeros, shape, jnp.float32)
        h_BTD = project(h_BTD, kernel.astype(dtype)) + transform_bias.astype(dtype)
        h_BTD = jax.nn.gelu(h_BTD, approximate=False)
        scale, shift = self.param("ln_scale", ones, shape), self.param("ln_bias", zeros, shape)
        bias = self.param("bias", zeros, (self.vocab_size,), jnp.float32)
        return HeadOut(layer_norm(h_BTD, scale, shift, self.epsilon), {"kernel": table_VD, "bias": bias})
