"""The product of a sequence with a kernel, and its parts."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from numjax.nn import parallel


def project(x: jax.Array, kernel: jax.Array, preferred_element_type: Any = None) -> jax.Array:
    """x[..., D] times kernel[D, ...]: [..., ...].

    On one CPU device this is a product of two matrices, with one axis for rows and positions. Otherwise XLA's CPU
    compiler transposes copies of x and of the result's gradient, to sum over both axes for the kernel's gradient.
    Across devices the axes stay apart, so that each keeps its sharding.
    """
    if parallel.platform() != "cpu" or not parallel.is_single_device():
        return jnp.tensordot(x, kernel, 1, preferred_element_type=preferred_element_type)
    matrices = x.reshape(-1, x.shape[-1]), kernel.reshape(kernel.shape[0], -1)
    product = jnp.matmul(*matrices, preferred_element_type=preferred_element_type)
    return product.reshape(*x.shape[:-1], *kernel.shape[1:])


def separate(x: jax.Array, axis: int) -> list[jax.Array]:
    """The parts of x along an axis, without it. Their gradients are joined to one array, where those of slices, as of
    `jnp.unstack`, are padded with zeros and summed."""
    return [part.squeeze(axis) for part in jnp.split(x, x.shape[axis], axis)]
