"""A random vector per number, which only shows whether two numbers are equal: the baseline of every probe."""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed.dice import hash_numerals
from numjax.protocols import OptionOrContext
from numjax.types import Numeral


def random_vectors(numerals: Numeral, dim: int, seed: int):
    """float32[..., dim], independent N(0, 1/dim), so of length about 1; they depend only on the value and the seed.

    Host and device differ only in the last digits of a logarithm and a cosine.
    """
    xp = numerals.digits.__array_namespace__()
    first_hash, second_hash = (hash_numerals(numerals, seed ^ salt)[..., None] for salt in (0, 0x5BD1E995))
    counter = xp.arange(dim, dtype=xp.uint32)

    def uniform(salt: int):
        """Uniform in (0, 1): the upper 23 bits and a half."""
        mixed = (first_hash ^ (counter * np.uint32(0x9E3779B1))) + (second_hash * np.uint32(salt))
        for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B)):
            mixed = (mixed ^ (mixed >> np.uint32(shift))) * np.uint32(factor)
        mixed = mixed ^ (mixed >> np.uint32(16))
        return ((mixed >> np.uint32(9)).astype(xp.float32) + np.float32(0.5)) * np.float32(2.0**-23)

    radius = xp.sqrt(np.float32(-2.0 / dim) * xp.log(uniform(0x85EBCA6B)))
    return radius * xp.cos(np.float32(2 * np.pi) * uniform(0xC2B2AE35))


class Embed(protocols.Embed, nn.Module):
    """Random vectors; they have no parameters.

    Attributes:
      dim: D. seed: seed of the vectors.
    """

    dim: OptionOrContext[int] = 64
    seed: int = 0
    kind = "numeral"

    def host_features(self, numerals: Numeral, surfaces=None) -> dict[str, np.ndarray]:
        """{"vector": float32[N, dim]}."""
        del surfaces
        return {"vector": random_vectors(numerals, self.dim, self.seed)}

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        if features and "vector" in features:
            return features["vector"]
        return random_vectors(jax.tree.map(jnp.asarray, numerals), self.dim, self.seed)
