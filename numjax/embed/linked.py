"""Mathematical symbols linked with the text tokens that spell them (MathGPT, section 3.2).

Legend: V vocabulary, M mathematical symbols, P text tokens of all symbols together, D width, H hidden width.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed.token import lookup
from numjax.nn.spelling import mean_vectors
from numjax.protocols import FromContext
from numjax.types import Tokens


def link(mean_MD: jax.Array, down_DH: jax.Array, up_HD: jax.Array) -> jax.Array:
    """m + tanh(m A) B: the text's mean vector with a small learned shift."""
    return mean_MD + jnp.tanh(mean_MD @ down_DH) @ up_HD


class Embed(protocols.Embed, nn.Module):
    """Token embedding whose mathematical rows are computed from text rows; special symbols have their own rows.

    Attributes:
      dim: width D. vocab_size: V, padded.
      symbols: (first mathematical id, for each id from there on the text tokens that spell it, none for special
        symbols); without it this is the plain token embedding.
      hidden: H.
      init_std: of the table. special_std: of the special symbols' vectors (1 in the released code).
      word_dropout: rate at which text tokens become zero in training, so that no answer depends on one word; symbols
        are never dropped.
      dtype: compute type; vectors are read in it.
    """

    dim: FromContext[int]
    vocab_size: FromContext[int]
    symbols: FromContext[tuple[int, tuple[tuple[int, ...], ...]] | None] = None
    hidden: int = 10
    init_std: float = 0.02
    special_std: float = 0.02
    word_dropout: float = 0.0
    dtype: FromContext[str] = "float32"
    kind = "token"

    def setup(self):
        normal = nn.initializers.normal
        self.table = self.param("table", normal(self.init_std), (self.vocab_size, self.dim), jnp.float32)
        if self.symbols is not None:
            linked = self._linked()
            std = 0.1 * (2 / (self.dim + self.hidden)) ** 0.5
            self.special = self.param("special", normal(self.special_std), (int((~linked).sum()), self.dim))
            self.down = self.param("down", normal(std), (self.dim, self.hidden), jnp.float32)
            self.up = self.param("up", normal(std), (self.hidden, self.dim), jnp.float32)

    def _linked(self) -> np.ndarray:
        assert self.symbols is not None
        return np.asarray([len(pieces) > 0 for pieces in self.symbols[1]])

    def tables(self) -> Mapping[str, jax.Array]:
        """{"symbols": the vectors of all symbols, [M, D]}, which depend only on parameters. Computed once a step."""
        if self.symbols is None:
            return {}
        linked = self._linked()
        mean_MD = mean_vectors(self.table, self.symbols[1], partial(lookup, dtype=self.dtype))
        symbols_MD = link(mean_MD, self.down, self.up)
        if not linked.all():
            special_MD = jnp.take(self.special, np.where(linked, 0, np.cumsum(~linked) - 1), axis=0)
            symbols_MD = jnp.where(linked[:, None], symbols_MD, special_MD)
        return {"symbols": symbols_MD}

    def __call__(self, tokens: Tokens, tables: Mapping[str, jax.Array] | None = None) -> jax.Array:
        text_BTD = lookup(self.table, tokens.ids, self.dtype)
        if self.word_dropout and self.has_rng("dropout"):
            kept_BT = jax.random.bernoulli(self.make_rng("dropout"), 1 - self.word_dropout, tokens.ids.shape)
            text_BTD = text_BTD * kept_BT[..., None].astype(text_BTD.dtype)
        if self.symbols is None:
            return text_BTD
        symbols_MD = (self.tables() if tables is None else tables)["symbols"]
        index = tokens.ids - self.symbols[0]
        inside = (index >= 0) & (index < symbols_MD.shape[0])
        math_BTD = jnp.take(symbols_MD, jnp.where(inside, index, 0), axis=0).astype(self.dtype)
        return jnp.where(inside[..., None], math_BTD.astype(text_BTD.dtype), text_BTD)
