"""Normalisation."""

from __future__ import annotations

import jax
import jax.numpy as jnp


def layer_norm(x: jax.Array, scale: jax.Array, bias: jax.Array, epsilon: float = 1e-5) -> jax.Array:
    """Layer normalisation over the last axis, computed in float32 and returned in x's dtype."""
    x32 = x.astype(jnp.float32)
    mean = x32.mean(axis=-1, keepdims=True)
    variance = jnp.square(x32 - mean).mean(axis=-1, keepdims=True)
    return ((x32 - mean) * jax.lax.rsqrt(variance + epsilon) * scale + bias).astype(x.dtype)


def rms_norm(x: jax.Array, scale: jax.Array, epsilon: float = 1e-6) -> jax.Array:
    """x divided by its root mean square along the last axis (Zhang & Sennrich 2019), via float32, in x's dtype."""
    x32 = x.astype(jnp.float32)
    return (x32 * jax.lax.rsqrt(jnp.square(x32).mean(axis=-1, keepdims=True) + epsilon) * scale).astype(x.dtype)
