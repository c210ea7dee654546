"""A bias of the attention scores for each distance between the powers of two limbs (for the scheme `limbs`; of our
own, after `coupled_bias`).

Legend: B rows, T positions of queries, S of keys, H heads.
"""

from __future__ import annotations

import jax

from numjax.positions import base, limbs
from numjax.types import Tokens


class Positions(limbs.Alignment):
    """b[h, distance of the powers of key and query], up to `span` in either direction; further ones share the last.

    Attention then depends only on how many powers two limbs are apart, so larger numbers than those of
    training are not new. Pairs of which one is no limb have a bias of their own.

    Attributes, besides those of `limbs.Alignment`: span, gain, init_std as in `coupled_bias`.
    """

    span: int = 4
    gain: float = 10.0
    init_std: float = 0.1

    def setup(self):
        super().setup()
        self.distances = base.add_distances(self)

    def bias_index(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """The power of each limb, from 1, and 0 at other tokens, int32[B, T]."""
        del deterministic
        return tokens.channel("limb_power")[..., 0]

    def bias(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """float32[B, H, T, S]."""
        return self.gain * base.look_up_distances(self.distances, query, key)
