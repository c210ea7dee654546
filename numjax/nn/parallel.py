"""What a traced function can find out about the devices that it will run on.

`compile` traces the steps under their mesh, so these functions return the same on a machine that has the devices and
on one that only plans for them. Without a mesh they do nothing and `platform` is the default backend.

Rows of a batch are split over the axes data and fsdp; heads and the MLP over tensor; the vocabulary over tensor and
fsdp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.sharding import AbstractMesh, PartitionSpec

ROWS = ("data", "fsdp")
TENSOR = "tensor"
VOCABULARY = ("tensor", "fsdp")


def platform() -> str:
    """ "cpu", "gpu" or "tpu": the platform that the program is compiled for."""
    device = getattr(jax.sharding.get_abstract_mesh(), "abstract_device", None)
    name = getattr(device, "platform", None) or jax.default_backend()
    return "gpu" if name in ("cuda", "rocm") else name


def mesh() -> AbstractMesh | None:
    """The mesh of data, fsdp and tensor if it has several devices, else None."""
    context_mesh = jax.sharding.get_abstract_mesh()
    return (
        None
        if context_mesh.empty or context_mesh.size == 1 or not {*ROWS, TENSOR} <= set(context_mesh.axis_names)
        else context_mesh
    )


def is_single_device() -> bool:
    """Whether the traced program will run on one device."""
    context_mesh = jax.sharding.get_abstract_mesh()
    return jax.device_count() == 1 if context_mesh.empty else context_mesh.size == 1


def can_spread(rows: int, vocabulary: int | None = None) -> bool:
    """Whether `spread` works for so many rows and a table of so many: there is a mesh, and it splits them evenly."""
    return mesh() is not None and divides(rows, ROWS) and (vocabulary is None or divides(vocabulary, TENSOR))


def count_parts(axes: Any) -> int:
    """Into how many parts mesh axes (a name, several, or None) split an array axis; 1 without a mesh."""
    active_mesh = mesh()
    if active_mesh is None or axes is None:
        return 1
    return math.prod(active_mesh.shape[name] for name in ((axes,) if isinstance(axes, str) else axes))


def divides(size: int, axes: Any) -> bool:
    """Whether an array axis of `size` splits evenly over mesh axes: a name, several, or None."""
    return size % count_parts(axes) == 0


def constrain(x: jax.Array, *axes: Any) -> jax.Array:
    """Splits x's leading axes over mesh axes; if one does not divide, the compiler decides."""
    if mesh() is None or not all(divides(size, axis) for axis, size in zip(axes, x.shape, strict=False)):
        return x
    return jax.lax.with_sharding_constraint(x, PartitionSpec(*axes))


def sum_rows(gradient: jax.Array | None, split: bool | None, dtype: Any) -> jax.Array:
    """Sums a gradient to a table [V, D] over all rows; each device passes that of its own rows.

    Call it inside `spread`. `split` is None outside a mesh, else whether fsdp splits the vocabulary: then each device
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
    """`function`, run on each device's part of its arguments; it does its own collectives."""
    return jax.shard_map(function, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, check_vma=False)
