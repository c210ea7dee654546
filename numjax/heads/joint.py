"""Text and mathematics in one softmax, each with weights of its own (MathGPT, section 3.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.heads import token
from numjax.nn import cross_entropy
from numjax.types import Allowed, HeadOut, Numeral, Targets, Tokens


def join(table_VD: jax.Array, math_MD: jax.Array, first: int) -> jax.Array:
    """The table with its rows from `first` on in place of them. Any trailing shape; no row moves between devices."""
    index_V = jnp.arange(table_VD.shape[0]) - first
    inside = ((index_V >= 0) & (index_V < math_MD.shape[0])).reshape(-1, *(1,) * (table_VD.ndim - 1))
    return jnp.where(inside, jnp.take(math_MD, jnp.clip(index_V, 0, math_MD.shape[0] - 1), axis=0), table_VD)


class Head(nn.Module):
    """p(x_t) = softmax([h W_text, h W_math + b]), under the grammar's mask.

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use.
      symbol_range: (first mathematical id, how many); without it this is the tied `token` head.
      tied: W_text is the token embedding's table.
      bias: whether b is there.
      chunk_rows: rows of logits at a time; None chooses by vocabulary and backend.
    """

    width: int
    vocab_size: int
    size: int
    symbol_range: tuple[int, int] | None = None
    tied: bool = True
    bias: bool = True
    chunk_rows: int | None = None
    init_std: float = 0.02

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        normal = nn.initializers.normal(self.init_std)
        if not self.tied:
            table_VD = self.param("kernel", normal, (self.vocab_size, self.width), jnp.float32)
        if table_VD is None:
            raise ValueError("a tied head needs a token embedding in the model")
        if self.symbol_range is None:
            return HeadOut(h_BTD, {"kernel": table_VD})
        first, count = self.symbol_range
        math_MD = self.param("math_kernel", normal, (count, self.width), jnp.float32)
        weights = {"kernel": join(table_VD, math_MD, first)}
        if self.bias:
            bias_M = self.param("math_bias", nn.initializers.zeros, (count,), jnp.float32)
            weights["bias"] = join(jnp.zeros(table_VD.shape[0], jnp.float32), bias_M, first)
        return HeadOut(h_BTD, weights)

    def log_prob(self, out: HeadOut, targets: Targets, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"token": log p(target)[B, T]}."""
        found = cross_entropy.log_prob(out.hidden, out.weights["kernel"], targets.ids, **self._options(out, allowed))
        return {"token": found}

    def total_log_prob(
        self, out: HeadOut, targets: Targets, weights_BT: jax.Array, allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """The parts of `log_prob`, each summed with `weights_BT`; the form that a loss should use."""
        kernel, options = out.weights["kernel"], self._options(out, allowed)
        return {"token": cross_entropy.total_log_prob(out.hidden, kernel, targets.ids, weights_BT, **options)}

    def step_scores(
        self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None
    ) -> tuple[jax.Array, Numeral | None]:
        """(log mass[B, V], no numeral) of hidden states [B, D]; `allowed_BV` masks before the softmax."""
        return token.step_scores(out, self.size, allowed_BV), None

    def _options(self, out: HeadOut, allowed: Allowed | None) -> dict[str, Any]:
        bias = out.weights.get("bias")
        return dict(size=self.size, allowed=allowed, chunk_rows=self.chunk_rows, bias=bias)
