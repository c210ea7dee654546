"""One label for a text."""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import lstm
from numjax.nn.dropout import dropout
from numjax.nn.einsum import einsum
from numjax.nn.parallel import ROWS, constrain
from numjax.protocols import FromContext
from numjax.types import Allowed, HeadOut, Tokens


def attention_pool(h_BTD: jax.Array, scorer_D: jax.Array, valid_BT: jax.Array) -> jax.Array:
    """c = Σ_t α_t h_t with α = softmax_t(h_t · w), float32[B, D]; padding is masked. Zero for an empty row."""
    h_BTD = h_BTD.astype(jnp.float32)
    scores = jnp.where(valid_BT, h_BTD @ scorer_D, -jnp.inf)
    # A row of only padding has no largest score.
    top = jnp.where(valid_BT.any(axis=1, keepdims=True), scores.max(axis=1, keepdims=True), 0)
    weights_BT = jnp.exp(scores - jax.lax.stop_gradient(top))
    weights_BT = weights_BT / jnp.maximum(weights_BT.sum(axis=1, keepdims=True), 1e-30)
    return einsum("bt,btd->bd", weights_BT, h_BTD)


class Head(protocols.Head, nn.Module):
    """A linear classifier on one position's hidden state, on a weighted mean of all, or on an LSTM's last state.

    Attributes:
      width: D; num_classes: the task's labels.
      pool: "end" (the last position of the text, which holds [EOS]), "first" ([CLS], for encoders), "attention"
        (c = Σ α_t h_t with α = softmax(w·h) over the row's text, DICE section 5.1), "lstm" (the last state of an LSTM
        of `hidden`, whose input at each step is `columns` positions side by side: a table's rows, as LUNA does for
        fraud) or "last_padded" (the last position of the padded row, as in NumGPT's code, which pools padding).
      pooler: a dense layer with tanh before the classes, as in BERT with pool="first".
      dropout: on the pooled vector, in training.
      use_bias: whether the classes have biases; without, a logit is the product of c and a class embedding.
    """

    width: FromContext[int]
    num_classes: FromContext[int]
    pool: str = "end"
    pooler: bool = False
    use_bias: bool = True
    hidden: int = 0
    columns: int = 1
    dropout: float = 0.0
    init_std: float = 0.02

    answers = "classify"

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del table_VD
        init = nn.initializers.normal(self.init_std)
        width = (self.hidden or self.width * self.columns) if self.pool == "lstm" else self.width
        kernel = self.param("kernel", init, (width, self.num_classes), jnp.float32)
        weights = {"kernel": kernel}
        if self.use_bias:
            weights["bias"] = self.param("bias", nn.initializers.zeros, (self.num_classes,), jnp.float32)
        if self.pool == "attention":
            scorer = self.param("attention", init, (self.width,), jnp.float32)
            pooled = attention_pool(h_BTD, scorer, tokens.segment_ids > 0)
        elif self.pool == "lstm":
            pooled = self._last_state(h_BTD, tokens, width)
        else:
            # Rows stay on their devices: XLA of jax 0.11 aborts if it splits this gather and its gradient otherwise.
            index = self._pool_position(tokens)[:, None, None]
            pooled = constrain(jnp.take_along_axis(constrain(h_BTD, ROWS), index, axis=1)[:, 0], ROWS)
        if self.pooler:
            square = self.param("pooler_kernel", init, (width, width), jnp.float32)
            shift = self.param("pooler_bias", nn.initializers.zeros, (width,), jnp.float32)
            pooled = jnp.tanh(pooled.astype(jnp.float32) @ square + shift)
        if self.dropout and self.has_rng("dropout"):
            pooled = dropout(pooled, self.dropout, self.make_rng("dropout"))
        return HeadOut(pooled, weights)

    def _pool_position(self, tokens: Tokens) -> jax.Array:
        """The position whose hidden state is pooled, int32[B]."""
        rows, length = tokens.segment_ids.shape
        if self.pool == "end":
            return jnp.maximum((tokens.segment_ids > 0).sum(axis=1) - 1, 0)
        if self.pool == "first":
            return jnp.zeros(rows, jnp.int32)
        if self.pool == "last_padded":
            return jnp.full(rows, length - 1)
        raise UsageError(f"classify: pool must be end, first, attention, lstm or last_padded, not {self.pool!r}")

    def _last_state(self, h_BTD: jax.Array, tokens: Tokens, hidden: int) -> jax.Array:
        rows, length, row_width = *h_BTD.shape[:2], self.columns * self.width
        if length % self.columns:
            raise UsageError(f"classify: {length} positions are no whole rows of columns={self.columns}")
        x = h_BTD.astype(jnp.float32).reshape(rows, length // self.columns, row_width)
        _, last = lstm.lstm(
            x, lstm.declare_weights(self.param, "lstm", row_width, hidden), tokens.segment_ids[:, :: self.columns]
        )
        return last.hidden

    def log_probs(self, out: HeadOut) -> jax.Array:
        """Log-probability of every class, float32[B, classes]."""
        logits = out.hidden.astype(jnp.float32) @ out.weights["kernel"] + out.weights.get("bias", 0)
        return jax.nn.log_softmax(logits, axis=-1)

    def log_prob(self, out: HeadOut, targets: jax.Array, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"label": log p(targets)[B]} for int[B] labels."""
        del allowed
        return {"label": jnp.take_along_axis(self.log_probs(out), targets[:, None], axis=1)[:, 0]}
