"""Where arrays live: a mesh of data, fsdp and tensor axes, and ordered (path regex → axes) rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from numjax.errors import UsageError

AXES = ("data", "fsdp", "tensor")

# First match wins. A spec names a mesh axis (or None) for each array axis, counted from the last, so that a
# stack of scanned layers shards as one layer does.
DEFAULT_RULES = (
    (r"(table|heads_[^/]*/kernel)$", ("tensor", "fsdp")),
    (r"qkv_kernel$", ("fsdp", None, "tensor", None)),
    (r"qkv_bias$", (None, "tensor", None)),
    (r"out_kernel$", ("tensor", None, "fsdp")),
    (r"up_kernel$", ("fsdp", "tensor")),
    (r"up_bias$", ("tensor",)),
    (r"down_kernel$", ("tensor", "fsdp")),
    (r"fuse_[^/]*/kernel$", (None, "fsdp")),
    (r".*", ()),
)

# An axis this small is replicated when it does not divide; a larger one is refused.
SMALL = 4096


def make_mesh(data: int = -1, fsdp: int = 1, tensor: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh over all devices; −1 (once) takes what the other axes leave.

    Raises:
      UsageError: the axes do not multiply to the number of devices.
    """
    devices = jax.devices() if devices is None else devices
    sizes = {"data": data, "fsdp": fsdp, "tensor": tensor}
    free = [name for name, size in sizes.items() if size == -1]
    fixed = int(np.prod([size for size in sizes.values() if size != -1]))
    if len(free) == 1 and len(devices) % fixed == 0:
        sizes[free[0]] = len(devices) // fixed
    if int(np.prod(list(sizes.values()))) != len(devices) or min(sizes.values()) < 1:
        shape = " × ".join(f"{name}={size}" for name, size in sizes.items())
        raise UsageError(f"mesh {shape} does not fit {len(devices)} devices: set one axis of config.mesh to -1")
    return jax.make_mesh(tuple(sizes.values()), AXES, axis_types=(AxisType.Auto,) * len(AXES), devices=devices)


def mesh_of(config: Any) -> Mesh:
    """The mesh of a config's `mesh` block."""
    return make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """Rows over the data and fsdp axes."""
    return NamedSharding(mesh, PartitionSpec(("data", "fsdp")))


def replicated(mesh: Mesh) -> NamedSharding:
    """The same array everywhere."""
    return NamedSharding(mesh, PartitionSpec())


def shardings(tree: Any, mesh: Mesh, rules: Sequence[tuple[str, Sequence[str | None]]] = ()) -> Any:
    """A NamedSharding for each leaf of `tree` (arrays or their shapes) by the first rule its path matches.

    `rules` come before `DEFAULT_RULES`. A small axis that the mesh does not divide is replicated and logged.

    Raises:
      UsageError: a large axis does not divide.
    """
    compiled = [(re.compile(pattern), tuple(spec)) for pattern, spec in (*rules, *DEFAULT_RULES)]

    def place(path, leaf):
        name = path_name(path)
        if getattr(leaf, "ndim", 0) == 0:
            return replicated(mesh)
        spec = next(spec for pattern, spec in compiled if pattern.search(name))
        spec = spec[-leaf.ndim :] if len(spec) > leaf.ndim else spec
        axes = [None] * (leaf.ndim - len(spec)) + list(spec)
        for i, axis in enumerate(axes):
            if axis is None or leaf.shape[i] % mesh.shape[axis] == 0:
                continue
            if leaf.shape[i] > SMALL:
                raise UsageError(
                    f"{name}: axis {i} of {leaf.shape[i]} does not divide over {axis}={mesh.shape[axis]}: "
                    "change config.mesh or pad the axis"
                )
            logging.info("%s: axis %d of %d is replicated, not split over %s", name, i, leaf.shape[i], axis)
            axes[i] = None
        return NamedSharding(mesh, PartitionSpec(*axes))

    return jax.tree_util.tree_map_with_path(place, tree)


def path_name(path: Sequence[Any]) -> str:
    """A pytree path as a/b/c."""
    return "/".join(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path)


def put(batch: Any, mesh: Mesh) -> Any:
    """This process's rows of a batch as global arrays, rows split over the mesh."""
    sharding = batch_sharding(mesh)
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(sharding, np.asarray(x)), batch)


def place(tree: Any, layout: NamedSharding) -> Any:
    """Arrays that every process holds whole, as global arrays laid out in one way."""

    def one(x):
        x = np.asarray(x)
        return jax.make_array_from_callback(x.shape, layout, lambda index: x[index])

    return jax.tree.map(one, tree)
