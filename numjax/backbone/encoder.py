"""An encoder: every position sees its whole text. The defaults are BERT's (Devlin et al. 2019).

RoBERTa (Liu et al. 2019) is positions learned:offset=2, types=(1,), norm_epsilon=1e-5.

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.backbone.stack import Transformer
from numjax.errors import UsageError
from numjax.types import TYPES, Tokens


class Backbone(Transformer):
    """See `stack.TransformerOptions`. Padding is a segment of its own, so no text sees it.

    Attributes:
      types: number of token types, one table each if the channel "types" is [B, T, n]. A type beyond its table counts
        as the last, so that RoBERTa's single type stands for all.
      types_std: standard deviation of all tables of types but the first; None: `init_std`. With 0 a pretrained stack,
        which has one table, is at first unchanged: the sum of random tables would be as large as its input.
    """

    max_length: int = 512
    norm_epsilon: float = 1e-12
    norm_place: str = "post"
    embed_norm: bool = True
    mlp: str = "gelu"
    shrink: bool = False
    types: Sequence[int] = (2,)
    types_std: float | None = None
    writes = False
    causal = False

    @property
    def is_single_text(self) -> bool:
        return False

    def setup(self):
        super().setup()
        tables = []
        for i, count in enumerate(self.types):
            std = self.init_std if i == 0 or self.types_std is None else self.types_std
            shape = (count, self.width)
            tables.append(self.param(f"types_{i}", nn.initializers.normal(std), shape, jnp.float32))
        self.type_tables = tables

    def __call__(self, x_BTD: jax.Array, tokens: Tokens, *, cache: Any = None, deterministic: bool = True):
        """(hidden states of the last layer, every layer's output by name, no cache)."""
        if cache is not None:
            raise UsageError("an encoder reads whole texts and cannot generate: use backbone decoder")
        return super().__call__(x_BTD, tokens, deterministic=deterministic)

    def init_cache(self, rows: int, slots: int) -> Any:
        raise self.lacks("writes nothing: choose backbone decoder or encoder_decoder")

    def _begin(self, x_BTD: jax.Array, tokens: Tokens) -> jax.Array:
        has_types = TYPES.name in tokens.channels
        ids = tokens.channels[TYPES.name] if has_types else jnp.zeros_like(tokens.ids)
        ids = ids[..., None] if ids.ndim == 2 else ids
        if has_types and ids.shape[-1] < len(self.types):
            raise UsageError(f"backbone.types={tuple(self.types)}: the scheme gives {ids.shape[-1]} types a position")
        for i, (table, count) in enumerate(zip(self.type_tables, self.types, strict=True)):
            x_BTD = x_BTD + jnp.take(table, jnp.minimum(ids[..., min(i, ids.shape[-1] - 1)], count - 1), axis=0)
        return super()._begin(x_BTD, tokens)
