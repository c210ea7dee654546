"""DICE: deterministic, corpus-independent number embeddings on a circle or a sphere (Sundararaman et al. 2020).

The same formulas run on the host in float64 (`Embed.host_features`, tables, probes) and on the device in
float32, for numbers that a decoder generates. One step in [0, 9999] changes a cosine by 5e-8, less than
float32 resolves: compare such vectors by chord length, never by 1 − cos.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.protocols import OptionOrContext
from numjax.types import Numeral

FORMS = ("2", "d")
PLACES = 20  # digits that random angles depend on, for any `data.digits`
OUT_OF_RANGE = ("random", "clamp", "error")


def angle(value, low: float, high: float):
    """θ = π (x − low) / (high − low), in [0, π] inside the range (DICE eq. 4; the offset −low matters)."""
    return np.pi * (value - low) / (high - low)


def on_circle(theta):
    """DICE-2: (cos θ, sin θ)[..., 2]; the angle between two numbers is π |x − y| / (high − low)."""
    xp = theta.__array_namespace__()
    return xp.stack([xp.cos(theta), xp.sin(theta)], axis=-1)


def on_sphere(theta, dim: int, as_printed: bool = False):
    """DICE-D, [..., dim]: v_d = sin^(d−1) θ cos θ for d < dim, and v_dim = sin^(dim−1) θ.

    Args:
      theta: angles, any shape.
      dim: D ≥ 2.
      as_printed: v_dim = sin^dim θ as in eq. 6 of the paper. The norm then is not 1: it dips to 0.87 at
        D = 2 and 0.9994 at D = 300, and D = 2 is not DICE-2.
    """
    xp = theta.__array_namespace__()
    sine, powers = xp.sin(theta)[..., None], xp.arange(dim, dtype=theta.dtype)
    rising = sine**powers
    last = rising[..., -1:] * (sine if as_printed else 1)
    return xp.concatenate([rising[..., :-1] * xp.cos(theta)[..., None], last], axis=-1)


def hash_numerals(numerals: Numeral, seed: int):
    """Hashes each number with the seed: uint32[...], the same on host and device.

    For a number of more than `PLACES` digits, the hash may depend on how many digits are kept."""
    xp = numerals.digits.__array_namespace__()

    def word(x):
        return x.astype(xp.int32).astype(xp.uint32)

    # The sign has a bit of its own: a negated exponent must not look like a negated number.
    mixed = (word(numerals.exponent) * np.uint32(0x9E3779B1)) ^ np.uint32(seed & 0xFFFFFFFF)
    negative = (numerals.sign < 0) & (numerals.digits != 0).any(-1)  # −0 is 0
    mixed = mixed ^ (word(negative) * np.uint32(0x7FEB352D))
    zero = word(xp.zeros_like(numerals.exponent))
    for place in range(max(PLACES, numerals.digits.shape[-1])):
        # The hash does not depend on how many digits are kept: missing places count as 0.
        digit = word(numerals.digits[..., place]) if place < numerals.digits.shape[-1] else zero
        mixed = (mixed ^ digit) * np.uint32(0x01000193)
        mixed = mixed ^ (mixed >> np.uint32(15))
    mixed = (mixed ^ (mixed >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    return (mixed ^ (mixed >> np.uint32(13))) * np.uint32(0xC2B2AE35)


def seeded_angle(numerals: Numeral, seed: int):
    """An angle in [−π, π) that depends only on the number and the seed: the same on host and device."""
    xp = numerals.digits.__array_namespace__()
    # float32 holds the upper 24 bits exactly: the angle stays below π.
    return np.pi * ((hash_numerals(numerals, seed) >> np.uint32(8)).astype(xp.float32) / 2.0**23 - 1.0)


def rotation(dim: int, columns: int, seed: int) -> np.ndarray:
    """The first `columns` columns of Q from the QR of a seeded N(0, 1) matrix, float64[dim, columns]."""
    gaussian = np.random.default_rng(seed).standard_normal((dim, dim))
    return np.linalg.qr(gaussian)[0][:, :columns]


def dice(
    numerals: Numeral,
    dim: int,
    form: str,
    low: float,
    high: float,
    out_of_range: str,
    as_printed: bool,
    seed: int,
):
    """DICE vectors [..., dim] of the numerals: float64 for NumPy arrays, float32 for JAX arrays.

    Raises:
      DataError: a number lies outside [low, high] and `out_of_range` is "error" (host only).
    """
    xp = numerals.digits.__array_namespace__()
    value = float64_value(numerals) if xp is np else numerals.value
    if out_of_range == "error" and xp is np:
        outside = numerals.valid & ((value < low) | (value > high))
        if outside.any():
            worst = value[outside][0]
            raise DataError(f"{worst:g} lies outside DICE's range [{low:g}, {high:g}]: widen low and high")
    theta = angle(xp.clip(value, low, high), low, high)
    if out_of_range == "random":
        inside = (value >= low) & (value <= high)
        theta = xp.where(inside, theta, seeded_angle(numerals, seed).astype(theta.dtype))
    directions = on_circle(theta) if form == "2" else on_sphere(theta, dim, as_printed)
    rotation_matrix = xp.asarray(rotation(dim, directions.shape[-1], seed).T, dtype=directions.dtype)
    # Accelerators would round float32 factors to sixteen bits.
    rotated: Any = (
        directions @ rotation_matrix if xp is np else jnp.matmul(directions, rotation_matrix, precision="highest")
    )
    return rotated


def float64_value(numerals: Numeral) -> np.ndarray:
    """The float64 nearest to the number, [...], on the host: infinite beyond the largest, and −0 keeps its sign."""
    digits = numerals.digits
    last = np.where(digits > 0, np.arange(digits.shape[-1]), 0).max(-1)  # the last place that is not 0
    power = numerals.exponent - last
    # Up to 15 digits, and times or over a power of ten up to 22, both factors are exact: the result is rounded once.
    is_short = (last < 15) & (np.abs(power) <= 22)
    shifts = np.clip(last[..., None] - np.arange(digits.shape[-1]), 0, 15)
    whole = np.where(is_short, (digits * 10 ** shifts.astype(np.int64)).sum(-1), 0).astype(np.float64)
    powers = 10.0 ** np.minimum(np.abs(power), 22)
    size = np.where(power < 0, whole / powers, whole * powers)
    for index in map(tuple, np.argwhere(~is_short)):
        text = "".join(map(str, digits[index].tolist()))
        size[index] = float(f"{text[0]}.{text[1:]}e{int(numerals.exponent[index])}")
    return numerals.sign * size


class Embed(protocols.Embed, nn.Module):
    """DICE as an embedding; it has no parameters.

    Attributes:
      dim: D.
      form: "2" (circle, orders every pair) or "d" (sphere, whose cosine distance is not monotone).
      low, high: the range [a, b]; DICE chooses it so that about 2% of the numbers lie outside.
      out_of_range: "random" (an angle seeded by the number's digits), "clamp" or "error" (for numbers of the input;
        numbers that a model generates on the device cannot raise an error and are clamped).
      as_printed: use the exponent D of eq. 6 instead of D − 1.
      seed: of the rotation and the random angles.
    """

    dim: OptionOrContext[int] = 64
    form: str = "2"
    low: float = 0.0
    high: float = 1e5
    out_of_range: str = "random"
    as_printed: bool = False
    seed: int = 0
    kind = "numeral"

    def _vectors(self, numerals: Numeral):
        if self.form not in FORMS:
            raise UsageError(f"dice: form must be one of {', '.join(FORMS)}, not {self.form!r}")
        if self.out_of_range not in OUT_OF_RANGE:
            raise UsageError(
                f"dice: out_of_range must be one of {', '.join(OUT_OF_RANGE)}, not {self.out_of_range!r}"
            )
        if self.dim < 2:
            raise UsageError(f"dice: dim must be at least 2, not {self.dim}")
        if not (self.low < self.high and np.isfinite(self.high - self.low)):
            raise UsageError(f"dice: low must be below high, both finite, not {self.low:g} and {self.high:g}")
        if self.seed < 0:
            raise UsageError(f"dice: seed must be 0 or more, not {self.seed}")
        return dice(numerals, self.dim, self.form, self.low, self.high, self.out_of_range, self.as_printed, self.seed)

    def host_vectors(self, numerals: Numeral) -> np.ndarray:
        """The vectors in float64, [..., dim]; rounding to float32 would be too coarse for comparing distances."""
        return self._vectors(numerals)

    def host_features(self, numerals: Numeral, surfaces=None) -> dict[str, np.ndarray]:
        """The vectors themselves, computed in float64 and rounded once: {"vector": float32[N, dim]}."""
        del surfaces
        return {"vector": self._vectors(numerals).astype(np.float32)}

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        if features and "vector" in features:
            return features["vector"]
        return jnp.asarray(self._vectors(numerals), jnp.float32)
