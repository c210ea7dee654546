"""A number as the phases of its decimal places (FoNE; Zhou et al. 2025, arXiv 2502.09741, section 3).

Legend: P periods, one per decimal place.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.numerals import to_places
from numjax.protocols import OptionOrContext
from numjax.types import NumberRange, Numeral


def phases(numerals: Numeral, integer: int, fraction: int) -> jax.Array:
    """|x| mod T / T for the periods T = 10^(1 − fraction), …, 10^integer, float32[..., P] in [0, 1).

    Computed from the digits: the phase of a place is a tenth of the sum of its digit and the phase below it, so no
    large number is divided.
    """
    digits, _ = to_places(numerals, -fraction, integer + fraction)
    phase, place_phases = jnp.zeros(digits.shape[:-1], jnp.float32), []
    for place in range(integer + fraction):
        phase = (digits[..., place].astype(jnp.float32) + phase) / 10
        place_phases.append(phase)
    return jnp.stack(place_phases, axis=-1)


class Embed(protocols.Embed, nn.Module):
    """(cos 2πφ, sin 2πφ) of every phase φ, the lowest place first, and the sign; it has no parameters.

    Digits at other places are ignored. Zero has all phases 0, which no text has.

    Attributes:
      dim: width, padded with zeros; 0: the number of features. integer, fraction: digits before and behind the point.
      signed: the last feature is −1 for negative numbers and 1 for others; the published code ignores signs.
      zero_as_text: all features of zero are 0, so that it looks like text, as in the published code.
    """

    dim: OptionOrContext[int] = 0
    integer: int = 9
    fraction: int = 4
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
        angles = 2 * jnp.pi * phases(numerals, self.integer, self.fraction)
        pairs = jnp.stack([jnp.cos(angles), jnp.sin(angles)], axis=-1).reshape(*angles.shape[:-1], -1)
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
