"""Rotary position embedding: angles rotate pairs of a head's dimensions (Su et al. 2021, RoFormer, section 3.2).

Legend: B rows, T positions, H heads, E width of a head, P rotated pairs.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

SCALINGS = ("none", "linear", "ntk", "yarn", "llama3")


def frequencies(
    pairs: int,
    base: float = 10_000.0,
    scaling: str = "none",
    factor: float = 1.0,
    trained: int = 8192,
    slow: float = 1.0,
    fast: float = 4.0,
) -> np.ndarray:
    """Radians per position of each pair, float64[P]: base^(−p/P), scaled for texts longer than those of training.

    Args:
      scaling: "none"; "linear": all positions are divided by `factor` (Chen et al. 2023); "ntk": the base grows so
        that the slowest pair rotates `factor` times slower (bloc97 2023); "yarn" and "llama3": pairs with fewer than
        `slow` rotations in `trained` positions are slowed by `factor`, those with more than `fast` are unchanged, and
        the pairs between are interpolated by the pair's number (YaRN, Peng et al. 2023, where slow=1 and fast=32) or
        by its rotations (Llama 3.1, where slow=1 and fast=4).
      trained: number of positions in training.
    """
    rates = base ** (-np.arange(pairs) / pairs)
    if scaling == "linear":
        return rates / factor
    if scaling == "ntk":
        return (base * factor ** (pairs / max(pairs - 1, 1))) ** (-np.arange(pairs) / pairs)
    if scaling == "yarn":
        # The number of the pair that rotates so often, as a real number.
        first, last = (pairs * math.log(trained / (turns * 2 * math.pi)) / math.log(base) for turns in (fast, slow))
        first, last = max(math.floor(first), 0), min(math.ceil(last), 2 * pairs - 1)
        unscaled_share = 1 - np.clip((np.arange(pairs) - first) / max(last - first, 1e-3), 0, 1)
        return rates * unscaled_share + rates / factor * (1 - unscaled_share)
    if scaling == "llama3":
        turns = trained * rates / (2 * math.pi)
        unscaled_share = np.clip((turns - slow) / (fast - slow), 0, 1)
        return rates * unscaled_share + rates / factor * (1 - unscaled_share)
    return rates


def sharpness(scaling: str, factor: float) -> float:
    """The factor of rotated queries and keys: √(1/t) of YaRN's equation 15; 1 for other scalings."""
    return 0.1 * math.log(factor) + 1.0 if scaling == "yarn" and factor > 1 else 1.0


def turn(x_BTHE: jax.Array, angles_BTP: jax.Array, sharpness: float = 1.0) -> jax.Array:
    """Rotates pair p of x, dimensions p and p + P, by its angle; dimensions from 2·P on are unchanged."""
    pairs = angles_BTP.shape[-1]
    cos, sin = (f(angles_BTP)[:, :, None, :] * sharpness for f in (jnp.cos, jnp.sin))
    first, second, rest = jnp.split(x_BTHE.astype(jnp.float32), (pairs, 2 * pairs), axis=-1)
    rotated = [first * cos - second * sin, second * cos + first * sin, rest]
    return jnp.concatenate(rotated, axis=-1).astype(x_BTHE.dtype)
