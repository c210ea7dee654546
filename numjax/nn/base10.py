"""Numerals as three digits of a decimal exponent and seventeen of a mantissa, the base-10 code that BitTokens is
compared with (Kreitner et al. 2025, arXiv 2510.06824).

Legend: K digits of a `Numeral`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from numjax.nn.numerals import from_digits, recount_digits
from numjax.types import Numeral

EXPONENT_DIGITS, MANTISSA_DIGITS, BIAS = 3, 17, 500
DIGITS = EXPONENT_DIGITS + MANTISSA_DIGITS
LOW, HIGH = -BIAS, 10**EXPONENT_DIGITS - 1 - BIAS  # the exponents that there are


def encode(numerals: Numeral) -> jax.Array:
    """The digits of the exponent of the first digit plus 500, and those of the mantissa d.ddd…, int32[..., 20].

    0 has exponent 0 and no digit but 0. A mantissa is rounded half-even to seventeen digits; a number that is too
    large becomes the largest, one that is too small 0. The authors' code takes a logarithm in floats, so that 10^23
    has the mantissa 0999…; here all is exact.
    """
    numerals = jax.tree.map(jnp.asarray, numerals)
    rounded = from_digits(numerals.sign, numerals.digits, numerals.exponent, MANTISSA_DIGITS)
    is_large, is_small = rounded.exponent > HIGH, rounded.exponent < LOW
    mantissa = jnp.where(is_large[..., None], 9, jnp.where(is_small[..., None], 0, rounded.digits))
    exponent = jnp.where(is_small, 0, jnp.minimum(rounded.exponent, HIGH)) + BIAS
    places = jnp.asarray([10**i for i in range(EXPONENT_DIGITS)][::-1])
    return jnp.concatenate([exponent[..., None] // places % 10, mantissa], axis=-1).astype(jnp.int32)


def decode(digits: jax.Array, sign: jax.Array, max_digits: int) -> Numeral:
    """The canonical number of digits int[..., 20] and a sign ±1, rounded half-even to K = `max_digits`."""
    places = jnp.asarray([10**i for i in range(EXPONENT_DIGITS)][::-1])
    exponent = (digits[..., :EXPONENT_DIGITS] * places).sum(-1) - BIAS
    return recount_digits(from_digits(sign, digits[..., EXPONENT_DIGITS:], exponent, max_digits))
