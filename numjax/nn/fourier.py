"""Phases of a number's decimal places, and the directions of digits (FoNE; Zhou et al. 2025, arXiv 2502.09741).

Legend: P decimal places, M bases.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.nn.numerals import to_places
from numjax.types import Numeral

MOST = 1_000_000  # ten times a base fits into 32 bits


def parse_bases(text: str) -> tuple[int, ...]:
    """(2, 5) of "2+5".

    Raises:
      UsageError: these are no whole numbers from 2 to a million, or two digits have the same remainders by all.
    """
    bases = tuple(int(word) if word.isascii() and word.isdigit() else 0 for word in text.split("+"))
    if (
        min(bases) < 2
        or max(bases) > MOST
        or len({tuple(digit % base for base in bases) for digit in range(10)}) < 10
    ):
        raise UsageError(
            f"fone: bases={text!r} must be whole numbers from 2 to {MOST:,} joined by +, by which no two digits have "
            "the same remainders: 10, or 2+5"
        )
    return bases


def phases(numerals: Numeral, integer: int, fraction: int, bases: tuple[int, ...] = (10,)) -> jax.Array:
    """|x| mod T / T, float32[..., P, M] in [0, 1), for the periods T = base · 10^place.

    Places are −fraction … integer − 1. Computed from the digits: ⌊x / 10^place⌋ modulo the base is a whole number,
    and what is below the place is a tenth of the sum of the digit and the phase below it. So no large number is
    divided.
    """
    digits, _ = to_places(numerals, -fraction, integer + fraction)
    below, belows = jnp.zeros(digits.shape[:-1], jnp.float32), []
    above, remainders = jnp.zeros((*digits.shape[:-1], len(bases)), jnp.int32), []
    for place in range(digits.shape[-1]):
        belows.append(below)
        below = (digits[..., place].astype(jnp.float32) + below) / 10
    for place in reversed(range(digits.shape[-1])):
        above = (10 * above + digits[..., place, None]) % jnp.asarray(bases)
        remainders.append(above)
    steps = jnp.stack(remainders[::-1], axis=-2).astype(jnp.float32) + jnp.stack(belows, axis=-1)[..., None]
    return steps / jnp.asarray(bases, jnp.float32)


def code_digits(bases: tuple[int, ...]) -> np.ndarray:
    """(cos 2πj/base, sin 2πj/base) of the digits j, base after base, float32[2 M, 10]."""
    angles = [2 * np.pi * np.arange(10) / base for base in bases]
    return np.stack([f(angle) for angle in angles for f in (np.cos, np.sin)]).astype(np.float32)
