"""The magnitude of a number, modulated by its residues (IntSeqBERT; arXiv 2603.05556).

Legend: R moduli 2 … M.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError, check_least
from numjax.nn import residues
from numjax.protocols import OptionOrContext
from numjax.types import Numeral


def residue_features(numerals: Numeral, most: int, fraction: int = 0) -> jax.Array:
    """(sin 2πr/m, cos 2πr/m) of the residue r of x · 10^fraction by m = 2 … most, float32[..., 2 R].

    A number that is not whole then, or has more digits than are kept, has no residues: its features are all 0, which
    is no point of a circle.
    """
    moduli = tuple(range(2, most + 1))
    number_residues, is_whole = residues.find_residues(numerals, moduli, fraction)
    angles = 2 * np.pi * number_residues.astype(jnp.float32) / np.asarray(moduli, np.float32)
    pairs = jnp.stack([jnp.sin(angles), jnp.cos(angles)], axis=-1).reshape(*angles.shape[:-1], -1)
    return jnp.where(is_whole[..., None], pairs, 0.0)


class Embed(protocols.Embed, nn.Module):
    """(1 + γ) ⊙ MLP([v, sign]) + β, with (γ, β) a linear function of the residue features (FiLM).

    Attributes:
      dim: D. hidden: width of the MLP, by default 2 · D. most: M, the largest modulus.
      fraction: residues are those of x · 10^fraction. The paper's numbers are whole, so it is 0; with more, decimals
        of so many places have residues too, but all whole numbers have those of a multiple of 10^fraction.
    """

    dim: OptionOrContext[int] = 64
    hidden: int = 0
    most: int = 101
    fraction: int = 0
    kind = "numeral"

    def __post_init__(self):
        super().__post_init__()
        if not 2 <= self.most <= 1000:
            raise UsageError(f"intseq: most must lie between 2 and 1000, not {self.most}")
        check_least("intseq", 1, dim=self.dim)
        check_least("intseq", 0, fraction=self.fraction, hidden=self.hidden)

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        del features
        numerals = jax.tree.map(jnp.asarray, numerals)
        size = jnp.stack([residues.log_magnitude(numerals), residues.sign_id(numerals) - 1.0], axis=-1)
        hidden = nn.gelu(nn.Dense(self.hidden or 2 * self.dim, name="up")(size))
        content = nn.Dense(self.dim, name="down")(hidden)
        film = nn.Dense(2 * self.dim, name="film")(residue_features(numerals, self.most, self.fraction))
        factor, shift = jnp.split(film, 2, axis=-1)
        return (1 + factor) * content + shift
