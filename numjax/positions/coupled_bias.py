"""A bias of the attention scores for each distance between decimal places: position coupling (Cho et al. 2024, arXiv
2405.20671) with relative positions (Shaw et al. 2018; T5).

Legend: B rows, T positions of queries, S of keys, H heads.
"""

from __future__ import annotations

import jax

from numjax.positions import base, coupled
from numjax.types import Tokens


class Positions(coupled.Coupling):
    """b[h, distance of the places of key and query], up to `span` in either direction; further places share the last.

    Attention then depends only on how many places two digits are apart. Nothing is learned for a place itself, so
    places beyond those of training are not new. Pairs of which one is no digit have a bias of their own.

    Attributes, besides those of `coupled.Coupling`:
      span: the largest distance with a bias of its own; both directions have one.
      gain: the biases are parameters times this, so that few steps make attention sharp.
    """

    span: int = 4
    gain: float = 10.0
    init_std: float = 0.1

    def setup(self):
        super().setup()
        self.distances = base.add_distances(self)

    def bias_index(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """The position of each digit, 1 at other tokens, int32[B, T]."""
        del deterministic
        return tokens.channel("significance")[..., 0]

    def bias(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """float32[B, H, T, S]."""
        return self.gain * base.look_up_distances(self.distances, query - 1, key - 1)
