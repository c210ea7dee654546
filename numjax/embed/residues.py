"""A number as characters of its residues, its digits and its magnitude (of our own; see `heads/residues`).

Legend: R primes 7 … M, F features of a residue, P decimal places.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import residue_codes, residues
from numjax.nn.numerals import to_places
from numjax.protocols import OptionOrContext
from numjax.types import Numeral

# (cos 2πj/10, sin 2πj/10) of the digits j.
_CIRCLE = np.stack([f(2 * np.pi * np.arange(10) / 10) for f in (np.cos, np.sin)], axis=-1).astype(np.float32)


class Embed(protocols.Embed, nn.Module):
    """[codes of the residues, a point of a circle for each digit, 1 + log10 |x|, sign]; it has no parameters.

    The residues of decimals are exact too, see `nn.residues.find_decimal_residues`. A sum turns the additive
    characters of `nn/residue_codes`, and a product the multiplicative ones; comparison and rounding need digits and
    magnitude.
    A number with more digits than are kept has no residues: their features are all 0.

    Attributes:
      dim: width, padded with zeros; 0: the number of features.
      most: M. harmonics: characters of each kind. multiplies: with multiplicative characters and the flag of 0.
      emphasis: factor of these. A model learns sums sooner than products, and unlearns features that have not helped
        it by then.
      integer, fraction: places whose digits are features.
      alone: without digits and magnitude, so that a longer number looks like any other.
    """

    dim: OptionOrContext[int] = 0
    most: int = 53
    harmonics: int = 1
    multiplies: bool = True
    emphasis: float = 3.0
    integer: int = 13
    fraction: int = 5
    alone: bool = False
    kind = "numeral"

    def __post_init__(self):
        super().__post_init__()
        residue_codes.check_options(self.most, self.harmonics)

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        del features
        numerals = jax.tree.map(jnp.asarray, numerals)
        primes = residue_codes.list_primes(self.most)
        codes = residue_codes.make_codes(primes, self.harmonics, self.multiplies)
        additive, multiplicative = np.split(codes, [2 * self.harmonics], axis=-1)
        codes = jnp.asarray(np.concatenate([additive, self.emphasis * multiplicative], axis=-1))
        number_residues, is_known = residues.find_decimal_residues(numerals, primes)
        of_residues = jnp.where(is_known[..., None, None], codes[np.arange(len(primes)), number_residues], 0.0)
        shape = numerals.sign.shape
        views = [of_residues.reshape(*shape, -1), residues.sign_id(numerals)[..., None] - 1.0]
        if not self.alone:
            digits, _ = to_places(numerals, -self.fraction, self.integer + self.fraction)
            of_digits = jnp.asarray(_CIRCLE)[digits].reshape(*shape, -1)
            views[1:1] = [of_digits, residues.log_magnitude(numerals)[..., None]]
        vector = jnp.concatenate(views, axis=-1)
        width = self.dim or vector.shape[-1]
        if vector.shape[-1] > width:
            raise UsageError(
                f"residues: {vector.shape[-1]} features do not fit dim={width}: leave it 0, or lower most"
            )
        return jnp.pad(vector, [(0, 0)] * (vector.ndim - 1) + [(0, width - vector.shape[-1])])
