"""The size and sign of the number at a position: a transform, then two outputs (LUNA, section 3.2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.nn.dense import project
from numjax.nn.dropout import dropout
from numjax.nn.norm import layer_norm
from numjax.protocols import FromContext
from numjax.types import Allowed, HeadOut, Numeral, Targets, Tokens

SMALLEST = 1e-7  # is added to |v| so that zero has a logarithm
LARGEST = 80.0  # limit of ln |v|: one "7e12345678" in a text must not dominate the loss


def target(numerals: Numeral) -> jax.Array:
    """[ln(1e-7 + |v|), sgn v] of each number, float32[..., 2]; the logarithm is at most `LARGEST`."""
    is_nonzero = (numerals.digits != 0).any(axis=-1)
    size = jnp.where(is_nonzero, jnp.minimum(numerals.log10 * np.log(10), LARGEST), -jnp.inf)
    sign = jnp.where(is_nonzero, numerals.sign, 0).astype(jnp.float32)
    return jnp.stack([jnp.logaddexp(jnp.float32(np.log(SMALLEST)), size), sign], axis=-1)


class Head(protocols.Head, nn.Module):
    """(size, sign) = norm(gelu(h W + b)) V + c, in float32.

    Attributes:
      width: D; inner: width after the transform, 0 for D.
      dropout: rate on h, in training.
      epsilon: of the layer norm.
    """

    width: FromContext[int]
    inner: int = 0
    dropout: float = 0.1
    epsilon: float = 1e-5
    init_std: float = 0.02

    densities: ClassVar[tuple[str, ...]] = ("number",)

    answers = "masked"

    @nn.compact
    def __call__(self, h_BTD: jax.Array, tokens: Tokens, table_VD: jax.Array | None = None) -> HeadOut:
        del tokens, table_VD
        ones, zeros, normal = nn.initializers.ones, nn.initializers.zeros, nn.initializers.normal(self.init_std)
        if self.has_rng("dropout"):
            h_BTD = dropout(h_BTD, self.dropout, self.make_rng("dropout"))
        h_BTD = h_BTD.astype(jnp.float32)
        inner = self.inner or self.width
        kernel = self.param("transform_kernel", normal, (self.width, inner), jnp.float32)
        h_BTD = project(h_BTD, kernel) + self.param("transform_bias", zeros, (inner,), jnp.float32)
        scale, shift = self.param("ln_scale", ones, (inner,)), self.param("ln_bias", zeros, (inner,))
        h_BTD = layer_norm(jax.nn.gelu(h_BTD, approximate=False), scale, shift, self.epsilon)
        weights = {
            "kernel": self.param("value_kernel", normal, (inner, 2), jnp.float32),
            "bias": self.param("value_bias", zeros, (2,), jnp.float32),
        }
        return HeadOut(h_BTD, weights)

    def error(self, out: HeadOut, numerals: Numeral) -> jax.Array:
        """The mean of the two squared errors at each position, float32[B, T]."""
        prediction = project(out.hidden, out.weights["kernel"]) + out.weights["bias"]
        is_number = numerals.valid[..., None]
        # Values at positions without a number must stay finite.
        return jnp.square(jnp.where(is_number, prediction - jnp.where(is_number, target(numerals), 0), 0)).mean(
            axis=-1
        )

    def log_prob(self, out: HeadOut, targets: Targets, allowed: Allowed | None = None) -> Mapping[str, jax.Array]:
        """{"number": log density of two Gaussians of variance 1[B, T]}, which is −`error` − ln 2π; 0 in text."""
        del allowed
        if targets.numerals is None:
            return {"number": jnp.zeros(targets.ids.shape, jnp.float32)}
        density = -self.error(out, targets.numerals) - np.log(2 * np.pi)
        return {"number": jnp.where(targets.numerals.valid, density, 0.0)}

    def total_log_prob(
        self, out: HeadOut, targets: Targets, weights_BT: jax.Array, allowed: Allowed | None = None
    ) -> Mapping[str, jax.Array]:
        """The part of `log_prob` summed with `weights_BT`."""
        return {"number": (self.log_prob(out, targets, allowed)["number"] * weights_BT).sum()}
