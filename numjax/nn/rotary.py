"""Rotary position embedding: pairs of a head's dimensions turned by angles (Su et al. 2021, RoFormer, section 3.2).

Legend: B rows, T positions, H heads, E width of a head, P pairs that are turned.
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
    """Radians a position of each pair, float64[P]: base^(−p/P), changed for texts longer than those of the training.

    Args:
      scaling: "none"; "linear": all positions are divided by `factor` (Chen et al. 2023); "ntk": the base grows so
        that the slowest pair turns `factor` times slower (bloc97 2023); "yarn" and "llama3": pairs that turn less
        than `slow` times in `trained` positions are slowed by `factor`, those that turn more than `fast` times stay,
        and between them it changes over in the pair's number (YaRN, Peng et al. 2023, where slow=1 and fast=32) or in
        how often it turns (Llama 3.1, where slow=1 and fast=4).
      trained: positions of the training.
    """
    plain = base ** (-np.arange(pairs) / pairs)
    if scaling == "linear":
        return plain / factor
    if scaling == "ntk":
        return (base * factor ** (pairs / max(pairs - 1, 1))) ** (-np.arange(pairs) / pairs)
    if scaling == "yarn":
        # The pair that turns so often, as a real number.
        first, last = (pairs * math.log(trained / (turns * 2 * math.pi)) / math.log(base) for turns in (fast, slow))
        first, last = max(math.floor(first), 0), min(math.ceil(last), 2 * pairs - 1)
        kept = 1 - np.clip((np.arange(pairs) - first) / max(last - first, 1e-3), 0, 1)
        return plain * kept + plain / factor * (1 - kept)
    if scaling == "llama3":
        turns = trained * plain / (2 * math.pi)
        kept = np.clip((turns - slow) / (fast - slow), 0, 1)
        return plain * kept + plain / factor * (1 - kept)
    return plain


def sharpness(scaling: str, factor: float) -> float:
    """What YaRN multiplies turned queries and keys by, √(1/t) of its equation 15; 1 for the others."""
    return 0.1 * math.log(factor) + 1.0 if scaling == "yarn" and factor > 1 else 1.0


def turn(x_BTHE: jax.Array, angles_BTP: jax.Array, sharpness: float = 1.0) -> jax.Array:
    """x with pair p, dimensions p and p + P, turned by its angle; dimensions from 2·P on stay."""
    pairs = angles_BTP.shape[-1]
    cos, sin = (f(angles_BTP)[:, :, None, :] * sharpness for f in (jnp.cos, jnp.sin))
    first, second, rest = jnp.split(x_BTHE.astype(jnp.float32), (pairs, 2 * pairs), axis=-1)
    turned = [first * cos - second * sin, second * cos + first * sin, rest]
    return jnp.concatenate(turned, axis=-1).astype(x_BTHE.dtype)
