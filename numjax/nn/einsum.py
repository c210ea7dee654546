"""Einsum that JAX traces once for each spec and shapes."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp


@functools.partial(jax.jit, static_argnames=("spec", "precision", "preferred_element_type"), inline=True)
def einsum(spec: str, *arrays: Any, precision: Any = None, preferred_element_type: Any = None) -> jax.Array:
    """`jnp.einsum` of arrays by `spec`, such as "btd,vd->btv".

    `jnp.einsum` makes a new jitted function at each call, and JAX keeps the last 2,048 of them with what it traced:
    13 MB and more.
    """
    return jnp.einsum(spec, *arrays, precision=precision, preferred_element_type=preferred_element_type)
