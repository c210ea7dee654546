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
from numjax.protocols import Told
from numjax.types import Allowed, Estimate, HeadOut, Numeral, Scores, Targets


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
    answers = "masked"

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

    def token_logits(self, out: HeadOut, ids: jax.Array) -> jax.Array:
        """float32[B, T, n] of tokens int32[n]."""
        return cross_entropy.logits_of(out.hidden, out.weights["kernel"], ids, out.weights.get("bias"))

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

    answers = "language_model"

    def step_scores(self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None) -> Scores:
        """Of hidden states [B, D]; `allowed_BV` masks before the softmax."""
        del key
        logits = cross_entropy.step_logits(out.hidden, out.weights, self._options(out, None)["size"])
        if allowed_BV is not None:
            logits = jnp.where(allowed_BV, logits, cross_entropy.FORBIDDEN)
        return Scores(jax.nn.log_softmax(logits, axis=-1))


class NumberWriter(Writer, nn.Module):
    """A softmax over the next token, [NUM] among them, and behind [NUM] the number that it stands for.

    What schemes that write a number in one place share; each says how likely a number is, and which is likeliest.

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use; num_id: id of [NUM]; digits: K of numerals.
      tied, chunk_rows: as of `heads/token`.
    """

    width: Told[int]
    vocab_size: Told[int]
    size: Told[int]
    num_id: Told[int]
    digits: Told[int] = 20
    tied: bool = True
    chunk_rows: int | None = None
    init_std: float = 0.02
    numbers = True

    def number_log_prob(self, out: HeadOut, numerals: Numeral) -> Mapping[str, jax.Array]:
        """Named parts of log p(number), each [B, T], of numerals [B, T]; what they say elsewhere is not read."""
        raise NotImplementedError

    def number(self, out: HeadOut, key: jax.Array | None) -> tuple[Numeral, Estimate | None]:
        """(the canonical numbers of hidden states [B, D], what is known of them), the likeliest or, with a key,
        drawn."""
        raise NotImplementedError

    def log_prob(self, out: HeadOut, targets: Targets, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"token": …} and the parts of the number, each [B, T], zero where there is none."""
        return dict(super().log_prob(out, targets, allowed)) | self._number_parts(out, targets)

    def total_log_prob(
        self, out: HeadOut, targets: Targets, weights_BT: jax.Array, allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """The parts of `log_prob`, each summed with `weights_BT`; the form that a loss should use."""
        found = dict(super().total_log_prob(out, targets, weights_BT, allowed))
        return found | {k: (v * weights_BT).sum() for k, v in self._number_parts(out, targets).items()}

    def step_scores(self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None) -> Scores:
        """Of hidden states [B, D]; `allowed_BV` masks before the softmax."""
        return Scores(super().step_scores(out, allowed_BV, key).mass, *self.number(out, key))

    def _number_parts(self, out: HeadOut, targets: Targets) -> dict[str, jax.Array]:
        if targets.numerals is None or targets.numeral_index is None:
            return {}
        at_number = (targets.numeral_index >= 0) & (targets.ids == self.num_id)
        parts = self.number_log_prob(out, targets.numerals)
        return {name: jnp.where(at_number, part, 0.0) for name, part in parts.items()}
