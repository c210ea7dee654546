"""Text and mathematics in one softmax, with separate or linked weights (MathGPT, section 3.3).

Legend: B rows, T positions, D width, V vocabulary, M mathematical symbols.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.heads import base as softmax
from numjax.nn import cross_entropy, spelling
from numjax.protocols import FromContext
from numjax.types import Allowed, HeadOut, Scores, Targets, Tokens


def join(table_VD: jax.Array, math_MD: jax.Array, first: int) -> jax.Array:
    """The table with `math_MD` as its rows from `first` on. Any trailing shape; no row moves between devices."""
    index_V = jnp.arange(table_VD.shape[0]) - first
    inside = ((index_V >= 0) & (index_V < math_MD.shape[0])).reshape(-1, *(1,) * (table_VD.ndim - 1))
    return jnp.where(inside, jnp.take(math_MD, jnp.clip(index_V, 0, math_MD.shape[0] - 1), axis=0), table_VD)


class Head(softmax.Writer, nn.Module):
    """p(x_t) = softmax([h W_text, h W_math + b]), under the grammar's mask.

    Attributes:
      width: D; vocab_size: V, padded; size: ids in use.
      symbol_range: (first mathematical id, number of ids); without it this is the tied `token` head.
      tied: W_text is the token embedding's table.
      bias: whether there is a b.
      linked: a symbol's row of W_math is added to the mean of the rows of the text tokens that spell it, so that a
        digit in a formula is likely where that digit in a text is.
      symbols: (first mathematical id, for each id from there on the text tokens that spell it).
      text: False leaves out all ids before `base`, for models that generate only formulas: the softmax then does not
        pay for a large vocabulary. Marks and symbols have their own weights, and a target of text has the loss NaN.
      base: the first id behind those of text.
      chunk_rows: rows of logits at a time; None chooses by vocabulary and backend.
    """

    width: FromContext[int]
    vocab_size: FromContext[int]
    size: FromContext[int]
    symbol_range: FromContext[tuple[int, int] | None] = None
    tied: bool = True
    bias: bool = True
    linked: bool = False
    symbols: FromContext[tuple[int, tuple[tuple[int, ...], ...]] | None] = None
    text: bool = True
    base: FromContext[int] = 0
    chunk_rows: int | None = None
    init_std: float = 0.02

    @classmethod
    def only_form(cls, options: Mapping[str, Any]) -> str:
        return "formula" if options.get("text") is False else ""

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens
        table_VD = softmax.choose_table(self, table_VD, self.width) if self.text or self.linked else None
        if self.symbol_range is None:
            return HeadOut(h_BTD, {"kernel": table_VD})
        first, count = self.symbol_range
        # Without text there is no table to join: the marks before the symbols need rows of `math_kernel` too.
        n_rows = count if self.text else self.vocab_size - self.base
        math_MD = self.param("math_kernel", nn.initializers.normal(self.init_std), (n_rows, self.width), jnp.float32)
        bias_M = self.param("math_bias", nn.initializers.zeros, (n_rows,), jnp.float32) if self.bias else None
        if self.linked and self.symbols is not None and table_VD is not None:
            mean_MD = spelling.mean_vectors(table_VD, self.symbols[1], partial(jnp.take, axis=0))
            start = 0 if self.text else first - self.base
            math_MD += jnp.pad(mean_MD, ((start, n_rows - start - count), (0, 0)))
        if not self.text:
            weights = {"kernel": math_MD, "bias": bias_M}
        else:
            assert table_VD is not None
            weights = {"kernel": join(table_VD, math_MD, first), "bias": None}
            if bias_M is not None:
                weights["bias"] = join(jnp.zeros(table_VD.shape[0], jnp.float32), bias_M, first)
        return HeadOut(h_BTD, {name: value for name, value in weights.items() if value is not None})

    def log_prob(self, out: HeadOut, targets: Targets, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"token": log p(target)[B, T]}."""
        return super().log_prob(out, *self._shift_ids(targets, allowed))

    def total_log_prob(
        self, out: HeadOut, targets: Targets, weights_BT: jax.Array, allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """The same, summed with weights, as in `base.Softmax`."""
        targets, allowed = self._shift_ids(targets, allowed)
        return super().total_log_prob(out, targets, weights_BT, allowed)

    def token_logits(self, out: HeadOut, ids: jax.Array) -> jax.Array:
        """As in `base.Softmax`; ids that are left out have no mass."""
        if self.text:
            return super().token_logits(out, ids)
        ids = jnp.asarray(ids)
        logits = super().token_logits(out, jnp.maximum(ids - self.base, 0))
        return jnp.where(ids >= self.base, logits, cross_entropy.FORBIDDEN)

    def step_scores(self, out: HeadOut, allowed_BV: jax.Array | None = None, key: jax.Array | None = None) -> Scores:
        """As in `base.Writer`; ids that are left out have no mass."""
        if self.text:
            return super().step_scores(out, allowed_BV, key)
        allowed_BM = None if allowed_BV is None else allowed_BV[:, self.base :]
        scores = super().step_scores(out, allowed_BM, key)
        mass_BV = jnp.pad(scores.mass, ((0, 0), (self.base, 0)), constant_values=cross_entropy.FORBIDDEN)
        return scores._replace(mass=mass_BV)

    def _shift_ids(self, targets: Targets, allowed: Allowed | None) -> tuple[Targets, Allowed | None]:
        """Targets and mask with ids counted from the first id that has a row."""
        if self.text:
            return targets, allowed
        # A left-out target must not become another token: there is no row at `vocab_size`.
        ids = jnp.where(targets.ids < self.base, self.vocab_size, targets.ids - self.base)
        if allowed is not None:
            allowed = allowed._replace(class_of=allowed.class_of[self.base :])
        return targets._replace(ids=ids), allowed

    def _options(self, out: HeadOut, allowed: Allowed | None) -> dict:
        options = super()._options(out, allowed)
        return options if self.text else options | {"size": self.size - self.base}
