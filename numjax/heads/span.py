"""An answer as a span of the context: its start and its end (Devlin et al. 2019, section 4.2).

Legend: B rows, T positions, D width, L longest answer.
"""

from __future__ import annotations

from collections.abc import Mapping

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.nn.dense import project
from numjax.protocols import FromContext
from numjax.types import TYPES, Allowed, HeadOut, Tokens

FORBIDDEN = -1e30  # exp underflows to zero, yet a row without context stays finite


def legal_positions(tokens: Tokens) -> jax.Array:
    """Positions where an answer may be, bool[B, T]: the second text (type 1) without the mark that closes the row.

    Without types, all positions but padding.
    """
    used = tokens.segment_ids > 0
    if TYPES.name not in tokens.channels:
        return used
    last = used.sum(axis=1, keepdims=True) - 1
    return used & (tokens.first_types() == 1) & (jnp.arange(used.shape[1]) != last)


def best_span(start_BT: jax.Array, end_BT: jax.Array, longest: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(first position, last position, score), each [B], of the span with the largest start + end.

    A span holds 1 … `longest` positions. Of equal spans the one that starts first wins, then the shortest.
    """
    length = start_BT.shape[1]
    longest = min(longest, length)
    padded = jnp.pad(end_BT, ((0, 0), (0, longest - 1)), constant_values=-jnp.inf)
    end_BTL = jnp.stack([padded[:, extra : extra + length] for extra in range(longest)], axis=-1)
    scores = (start_BT[..., None] + end_BTL).reshape(start_BT.shape[0], -1)
    best_index = scores.argmax(axis=1)
    first = best_index // longest
    return first, first + best_index % longest, jnp.take_along_axis(scores, best_index[:, None], axis=1)[:, 0]


class Head(protocols.Head, nn.Module):
    """Two logits per position: of being the answer's first and its last position.

    Attributes:
      width: D.
      longest: most positions of a predicted answer (30 in BERT's code).
    """

    width: FromContext[int]
    longest: int = 30
    init_std: float = 0.02

    answers = "span"

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del table_VD
        kernel = self.param("kernel", nn.initializers.normal(self.init_std), (self.width, 2), jnp.float32)
        bias = self.param("bias", nn.initializers.zeros, (2,), jnp.float32)
        return HeadOut(h_BTD, {"kernel": kernel, "bias": bias, "legal": legal_positions(tokens)})

    def logits(self, out: HeadOut) -> tuple[jax.Array, jax.Array]:
        """(start, end), float32[B, T] each; `FORBIDDEN` outside the context."""
        logits_BT2 = project(out.hidden.astype(jnp.float32), out.weights["kernel"]) + out.weights["bias"]
        legal = out.weights["legal"]
        return jnp.where(legal, logits_BT2[..., 0], FORBIDDEN), jnp.where(legal, logits_BT2[..., 1], FORBIDDEN)

    def log_prob(self, out: HeadOut, targets: jax.Array, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"start", "end"}: log p[B] of int[B, 2], the first and last position of each answer."""
        del allowed
        scores = (jax.nn.log_softmax(logits, axis=-1) for logits in self.logits(out))
        log_probs = [jnp.take_along_axis(s, targets[:, i : i + 1], axis=1)[:, 0] for i, s in enumerate(scores)]
        return {"start": log_probs[0], "end": log_probs[1]}

    def best(self, out: HeadOut) -> jax.Array:
        """float32[B, 4]: first and last position of the best legal span, its score (start + end logit, comparable
        between windows of one text), and its log-probability."""
        start, end = self.logits(out)
        first, last, score = best_span(start, end, self.longest)
        norm = jax.nn.logsumexp(start, axis=-1) + jax.nn.logsumexp(end, axis=-1)
        return jnp.stack([first.astype(jnp.float32), last.astype(jnp.float32), score, score - norm], axis=-1)
