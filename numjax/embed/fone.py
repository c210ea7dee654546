"""A number as the phases of its decimal places (FoNE; Zhou et al. 2025, arXiv 2502.09741, section 3).

Legend: P decimal places, M bases.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError, check_least
from numjax.nn import fourier
from numjax.protocols import OptionOrContext
from numjax.types import NumberRange, Numeral


class Embed(protocols.Embed, nn.Module):
    """(cos 2πφ, sin 2πφ) of the M phases φ of every place, the lowest first, and the sign; it has no parameters.

    Digits at other places are ignored. Zero has all phases 0, which no text has.

    Attributes:
      dim: width, padded with zeros; 0: the number of features. integer, fraction: digits before and behind the point.
      bases: M numbers joined by "+": the periods of the place of 10^k are base · 10^k. The paper has 10, and in an
        ablation 2 and 5.
      signed: the last feature is −1 for negative numbers and 1 for others; the published code ignores signs.
      zero_as_text: all features of zero are 0, so that it looks like text, as in the published code.
    """

    dim: OptionOrContext[int] = 0
    integer: int = 9
    fraction: int = 4
    bases: str = "10"
    signed: bool = True
    zero_as_text: bool = False
    kind = "numeral"

    @property
    def number_range(self) -> NumberRange:
        """Numbers of at most `integer` digits before the point and `fraction` behind it."""
        return NumberRange(self.signed, places=self.fraction, high=self.integer - 1)

    @nn.compact
    def __call__(self, numerals: Numeral, features=None) -> jax.Array:
        del features
        check_least("fone", 0, integer=self.integer, fraction=self.fraction)
        check_least("fone", 1, places=self.integer + self.fraction)
        bases = fourier.parse_bases(self.bases)
        angles = 2 * jnp.pi * fourier.phases(numerals, self.integer, self.fraction, bases)
        pairs = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1).reshape(*angles.shape[:-2], -1)
        if self.signed:
            pairs = jnp.concatenate([pairs, numerals.sign.astype(jnp.float32)[..., None]], axis=-1)
        if self.zero_as_text:
            pairs = jnp.where((numerals.n_digits > 0)[..., None], pairs, 0)
        size = self.dim or pairs.shape[-1]
        if pairs.shape[-1] > size:
            raise UsageError(
                f"fone: {pairs.shape[-1]} features do not fit dim={size}: leave it 0, or read fewer places"
            )
        return jnp.pad(pairs, [(0, 0)] * (pairs.ndim - 1) + [(0, size - pairs.shape[-1])])
