"""The next token as a softmax over the vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.nn import cross_entropy
from numjax.types import Allowed, HeadOut, Numeral, Targets, Tokens


def step_scores(out: HeadOut, size: int, allowed_BV: jax.Array | None) -> jax.Array:
    """Log mass[B, V] of hidden states [B, D]; `allowed_BV` masks before the softmax."""
    logits = cross_entropy.step_logits(out.hidden, out.weights, size)
    if allowed_BV is not None:
        logits = jnp.where(allowed_BV, logits, cross_entropy.FORBIDDEN)
    return jax.nn.log_softmax(logits, axis=-1)


class Head(nn.Module):
    """p(x_t) = softmax(h W) (NumGPT eq. 9).

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use.
      tied: W is the token embedding's table. scaled: h is divided by √D before (T5's tied table).
      bias: one is added to the logits (BART's).
      chunk_rows: rows of logits at a time; None chooses by vocabulary and backend.
    """

    width: int
    vocab_size: int
    size: int
    tied: bool = True
    scaled: bool = False
    bias: bool = False
    chunk_rows: int | None = None
    init_std: float = 0.02

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        if not self.tied:
            init = nn.initializers.normal(self.init_std)
            table_VD = self.param("kernel", init, (self.vocab_size, self.width), jnp.float32)
        if table_VD is None:
            raise ValueError("a tied head needs a token embedding in the model")
        weights = {"kernel": table_VD}
        if self.bias:
            weights["bias"] = self.param("bias", nn.initializers.zeros, (self.vocab_size,), jnp.float32)
        return HeadOut(h_BTD * self.width**-0.5 if self.scaled else h_BTD, weights)

    def log_prob(self, out: HeadOut, targets: Targets, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"token": log p(target)[B, T]}."""
        kernel, options = out.weights["kernel"], self._options(out, allowed)
        return {"token": cross_entropy.log_prob(out.hidden, kernel, targets.ids, **options)}

    def total_log_prob(
        self, out: HeadOut, targets: Targets, weights_BT: jax.Array, allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """The parts of `log_prob`, each summed with `weights_BT`; the form that a loss should use."""
        kernel, options = out.weights["kernel"], self._options(out, allowed)
        return {"token": cross_entropy.total_log_prob(out.hidden, kernel, targets.ids, weights_BT, **options)}

    def total_cross_entropy(self, out: HeadOut, taught: HeadOut, weights_BT: jax.Array) -> jax.Array:
        """−Σ weights · Σ_v p(v) log q(v), p of `taught`, which gets no gradient, and q of `out`."""
        options, kernel = self._options(out, None), out.weights["kernel"]
        aim = cross_entropy.Aim(taught.hidden, taught.weights["kernel"], taught.weights.get("bias"))
        return -cross_entropy.total_soft_log_prob(out.hidden, kernel, aim, weights_BT, **options)

    def step_scores(
        self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None
    ) -> tuple[jax.Array, Numeral | None]:
        """(log mass[B, V], no numeral) of hidden states [B, D]; `allowed_BV` masks before the softmax."""
        del key
        return step_scores(out, self.size, allowed_BV), None

    def _options(self, out: HeadOut, allowed: Allowed | None) -> dict[str, Any]:
        bias = out.weights.get("bias")
        return dict(size=self.size, allowed=allowed, chunk_rows=self.chunk_rows, bias=bias)
