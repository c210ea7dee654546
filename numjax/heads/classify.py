"""One label for a text."""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.types import Allowed, HeadOut, Tokens


class Head(nn.Module):
    """A linear classifier on one position's hidden state.

    Attributes:
      width: D; num_classes: the labels.
      pool: "end" (the last position of the text, which holds [EOS]), "first" ([CLS], for encoders) or
        "last_padded" (the last position of the padded row, as in NumGPT's code, which pools padding).
    """

    width: int
    num_classes: int
    pool: str = "end"
    init_std: float = 0.02

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del table_VD
        init = nn.initializers.normal(self.init_std)
        kernel = self.param("kernel", init, (self.width, self.num_classes), jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (self.num_classes,), jnp.float32)
        if self.pool == "end":
            at = jnp.maximum((tokens.segment_ids > 0).sum(axis=1) - 1, 0)
        elif self.pool == "first":
            at = jnp.zeros(h_BTD.shape[0], jnp.int32)
        elif self.pool == "last_padded":
            at = jnp.full(h_BTD.shape[0], h_BTD.shape[1] - 1)
        else:
            raise UsageError(f"classify: pool must be end, first or last_padded, not {self.pool!r}")
        pooled = jnp.take_along_axis(h_BTD, at[:, None, None], axis=1)[:, 0]
        return HeadOut(pooled, {"kernel": kernel, "bias": bias})

    def log_probs(self, out: HeadOut) -> jax.Array:
        """Log-probability of every class, float32[B, classes]."""
        logits = out.hidden.astype(jnp.float32) @ out.weights["kernel"] + out.weights["bias"]
        return jax.nn.log_softmax(logits, axis=-1)

    def log_prob(self, out: HeadOut, targets: jax.Array, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"label": log p(targets)[B]} for int[B] labels."""
        del allowed
        return {"label": jnp.take_along_axis(self.log_probs(out), targets[:, None], axis=1)[:, 0]}
