"""What a function may know, while it is traced, of the devices that it will run on.

`compile` traces the steps under their mesh, so that these functions say the same on a machine that has the devices
and on one that only plans for them. Without a mesh they do nothing and `platform` is the default backend.

Rows of a batch lie over the axes data and fsdp; heads and the MLP over tensor; the vocabulary over tensor and fsdp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AbstractMesh, PartitionSpec

ROWS = ("data", "fsdp")
TENSOR = "tensor"
VOCABULARY = ("tensor", "fsdp")


def platform() -> str:
    """ "cpu", "gpu" or "tpu": what is being compiled for."""
    device = getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None)
    found = getattr(device, "platform", None) or jax.default_backend()
    return "gpu" if found in ("cuda", "rocm") else found


def mesh() -> AbstractMesh | None:
    """The mesh of data, fsdp and tensor, where it has several devices."""
    found = jax.sharding.get_abstract_mesh()
    return None if found.empty or found.size == 1 or not {*ROWS, TENSOR} <= set(found.axis_names) else found


def alone() -> bool:
    """Whether what is traced will run on one device."""
    found = jax.sharding.get_abstract_mesh()
    return jax.device_count() == 1 if found.empty else found.size == 1


def spreads(rows: int, vocabulary: int | None = None) -> bool:
    """Whether `spread` can be used on so many rows, and a table of so many: there is a mesh, and it splits them."""
    return mesh() is not None and divides(rows, ROWS) and (vocabulary is None or divides(vocabulary, TENSOR))


def divides(size: int, axes: Any) -> bool:
    """Whether an array axis splits evenly over mesh axes: a name, several, or None."""
    found = mesh()
    if found is None or axes is None:
        return True
    parts = 1
    for name in (axes,) if isinstance(axes, str) else axes:
        parts *= found.shape[name]
    return size % parts == 0


def constrain(x: jax.Array, *axes: Any) -> jax.Array:
    """Lays x's leading axes over mesh axes; where one does not divide, x is left to the compiler."""
    if mesh() is None or not all(divides(size, axis) for axis, size in zip(axes, x.shape, strict=False)):
        return x
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*axes))


def sum_rows(gradient: jax.Array | None, split: bool | None, dtype: Any) -> jax.Array:
    """The sum over all rows of a gradient to a table [V, D] of which this device has seen its own rows.

    Called inside `spread`. `split` is None outside a mesh, else whether fsdp splits the vocabulary: then each device
    keeps its part of the sum. Devices exchange `dtype`, the compute type, as they do for other kernels.
    """
    assert gradient is not None
    if split is None:
        return gradient
    gradient = gradient.astype(dtype)
    if not split:
        return jax.lax.psum(gradient, ROWS)
    return jax.lax.psum(jax.lax.psum_scatter(gradient, "fsdp", scatter_dimension=0, tiled=True), "data")


def spread(function: Callable, in_specs: Any, out_specs: Any) -> Callable:
    """`function` on each device's part of its arguments; collectives inside it are its own business."""
    return jax.shard_map(function, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, check_vma=False)
