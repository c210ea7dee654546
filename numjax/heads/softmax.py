"""What the heads with a softmax over the vocabulary share: its table, and how `HeadOut`s of it are read.

Legend: B rows, T positions, D width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.nn import cross_entropy
from numjax.types import Allowed, HeadOut, Scores, Targets


def table(head: Any, table_VD: jax.Array | None, width: int) -> jax.Array:
    """The token embedding's table for a head that is tied, else a parameter "kernel" of its own."""
    if not head.tied:
        init = nn.initializers.normal(head.init_std)
        return head.param("kernel", init, (head.vocab_size, width), jnp.float32)
    if table_VD is None:
        raise ValueError("a tied head needs a token embedding in the model")
    return table_VD


class Softmax(protocols.Head):
    """p = softmax(h Wᵀ + b), with W[V, D] the "kernel" and b[V] the "bias", if there is one, of a `HeadOut`."""

    size: int
    chunk_rows: int | None
    by_token = True

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
        kernel, options = out.weights["kernel"], self._options(out, None)
        aim = cross_entropy.Aim(taught.hidden, taught.weights["kernel"], taught.weights.get("bias"))
        return -cross_entropy.total_soft_log_prob(out.hidden, kernel, aim, weights_BT, **options)

    def _options(self, out: HeadOut, allowed: Allowed | None) -> dict[str, Any]:
        bias = out.weights.get("bias")
        return dict(size=self.size, allowed=allowed, chunk_rows=self.chunk_rows, bias=bias)


class Writer(Softmax):
    """A softmax over the next token."""

    def step_scores(self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None) -> Scores:
        """Of hidden states [B, D]; `allowed_BV` masks before the softmax."""
        del key
        logits = cross_entropy.step_logits(out.hidden, out.weights, self._options(out, None)["size"])
        if allowed_BV is not None:
            logits = jnp.where(allowed_BV, logits, cross_entropy.FORBIDDEN)
        return Scores(jax.nn.log_softmax(logits, axis=-1))
