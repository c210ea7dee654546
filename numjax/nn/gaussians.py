"""Gaussian densities of numbers: masses of cells, and quantiles of a mixture over powers of ten.

Legend: E exponents, Q levels.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

from numjax.types import Numeral

_NARROW = 0.1  # standard deviations: half of a cell whose density is nearly a parabola
_STEPS = 40  # of bisections; float32 has 24 bits


def log_mass(low: jax.Array, high: jax.Array, center: jax.Array, half: jax.Array) -> jax.Array:
    """The log mass of N(0, 1) between two ends, float32[...].

    A difference of two values of the distribution function loses the digits of a narrow cell, so there it is the
    density at the middle times the width, with the term of the second order.

    Args:
      low, high: the ends. center, half: their mean and half their difference, which the caller knows more exactly.
    """
    # In the lower tail differences are exact to more digits.
    is_above = low > 0
    start, end = jnp.where(is_above, -high, low), jnp.where(is_above, -low, high)
    wide = jnp.log(jnp.maximum(ndtr(end) - ndtr(start), 1e-37))
    curve = jnp.maximum(1 + (jnp.square(center) - 1) * jnp.square(half) / 6, 0.5)
    narrow = -0.5 * (jnp.square(center) + jnp.log(2 * jnp.pi)) + jnp.log(2 * jnp.maximum(half, 1e-37) * curve)
    return jnp.where(half < _NARROW, narrow, wide)


def find_cell(numerals: Numeral, keep: int) -> tuple[jax.Array, jax.Array]:
    """(center, half) of the mantissas that round to a number's own with `keep` digits, both float32[...].

    Below a power of ten numbers are ten times as dense: the cell of 1 ends nearer to 0. The cell of zero, which has
    no mantissa, means nothing.
    """
    size = jnp.abs(numerals.mantissa)
    above = jnp.full(size.shape, 0.5 * 10.0 ** (1 - keep), jnp.float32)
    below = jnp.where(size == 1, above / 10, above)
    return numerals.sign.astype(jnp.float32) * (size + (above - below) / 2), (above + below) / 2


def find_mixture_quantiles(
    log_weights: jax.Array,
    exponents: jax.Array,
    zero_mass: jax.Array,
    mean: jax.Array,
    deviation: jax.Array,
    levels: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Quantiles of m · 10^e with m ~ N(mean, deviation²) and e ~ `log_weights`, and of 0 with the mass `zero_mass`.

    Args:
      log_weights: float32[..., E]; their masses and `zero_mass` float32[...] sum to 1. exponents: int32[E].
      mean, deviation: float32[...]. levels: float32[..., Q].

    Returns:
      (mantissa float32[..., Q] with 1 ≤ abs < 10, or 0; exponent int32[..., Q]).
    """
    weights, exponents = jnp.exp(log_weights)[..., None, :], exponents.astype(jnp.float32)
    mean, deviation, zero_mass = mean[..., None, None], deviation[..., None, None], zero_mass[..., None]

    def below(mantissa, exponent):
        """P(m · 10^e ≤ mantissa · 10^exponent), of [..., n] each; 0 counts as no number."""
        ratio = jnp.power(10.0, jnp.clip(exponent[..., None] - exponents, -37, 37))
        return (weights * ndtr((mantissa[..., None] * ratio - mean) / deviation)).sum(-1)

    # Powers of ten from far below the least exponent, where a mantissa is nearly 0, to far above the largest.
    grid = exponents.min() - 12 + jnp.arange(exponents.shape[-1] + 24, dtype=jnp.float32)
    ones = jnp.ones((*levels.shape[:-1], grid.shape[-1]), jnp.float32)
    negative, positive = below(-ones, grid * ones), below(ones, grid * ones) + zero_mass
    at_zero = below(jnp.zeros_like(zero_mass), jnp.zeros_like(zero_mass))
    is_negative = levels <= at_zero
    # The last power of ten whose own number is still on the near side of the quantile.
    n_below = jnp.where(
        is_negative,
        (negative[..., None, :] >= levels[..., :, None]).sum(-1),
        (positive[..., None, :] < levels[..., :, None]).sum(-1),
    )
    is_zero = n_below == 0  # the mass of 0, or nearer to it than the least power
    exponent = grid[jnp.maximum(n_below - 1, 0)]

    def halve(_, ends):
        low, high = ends
        middle = (low + high) / 2
        mass = below(jnp.where(is_negative, -middle, middle), exponent)
        is_short = jnp.where(is_negative, mass >= levels, mass + zero_mass < levels)
        return jnp.where(is_short, middle, low), jnp.where(is_short, high, middle)

    ends = jnp.full(exponent.shape, 1.0, jnp.float32), jnp.full(exponent.shape, 10.0, jnp.float32)
    size = jax.lax.fori_loop(0, _STEPS, halve, ends)[1]
    mantissa = jnp.where(is_zero, 0.0, jnp.where(is_negative, -size, size))
    return mantissa, jnp.where(is_zero, 0, exponent).astype(jnp.int32)
