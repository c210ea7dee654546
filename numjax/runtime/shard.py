"""Shards arrays over devices: a mesh of data, fsdp and tensor axes, and ordered (path regex → axes) rules."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from absl import logging
from jax.experimental import mesh_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from numjax.errors import UsageError
from numjax.runtime import processes

AXES = ("data", "fsdp", "tensor")

# The first match counts. A spec names mesh axes (one, several or None) for each array axis, counted from the last, so
# stacked layers shard like single ones. fsdp splits no last axis: TPUs would all-reduce the gradients there instead
# of reduce-scattering them.
DEFAULT_RULES = (
    (r"(table|heads_[^/]*/kernel)$", (("tensor", "fsdp"), None)),
    (r"heads_[^/]*/bias$", (("tensor", "fsdp"),)),
    (r"kv_kernel$", ("fsdp", None, "tensor", None)),
    (r"kv_bias$", (None, "tensor", None)),
    (r"/q_kernel$", ("fsdp", "tensor", None)),
    (r"/q_bias$", ("tensor", None)),
    (r"(out|down)_kernel$", (("tensor", "fsdp"), None)),
    (r"(up|gate)_kernel$", ("fsdp", "tensor")),
    (r"up_bias$", ("tensor",)),
    (r"fuse_[^/]*/kernel$", (None, "fsdp")),
    (r".*", ()),
)

# An axis up to this size is replicated if the mesh does not divide it; a larger one is an error.
SMALL = 4096


def axis_sizes(count: int, data: int = -1, fsdp: int = 1, tensor: int = 1) -> tuple[int, ...]:
    """Sizes of the axes over `count` devices; −1 (once) stands for the rest. UsageError if they do not fit."""
    sizes = [data, fsdp, tensor]
    fixed = int(np.prod([size for size in sizes if size != -1]))
    if sizes.count(-1) == 1 and fixed and count % fixed == 0:
        sizes[sizes.index(-1)] = count // fixed
    if int(np.prod(sizes)) != count or min(sizes) < 1:
        shape = " × ".join(f"{name}={size}" for name, size in zip(AXES, sizes, strict=True))
        raise UsageError(f"mesh {shape} does not fit {count} devices: set one axis of config.mesh to -1")
    return tuple(sizes)


def make_mesh(data: int = -1, fsdp: int = 1, tensor: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """A mesh over all devices (or these), see `axis_sizes`."""
    devices = devices or jax.devices()
    sizes = axis_sizes(len(devices), data, fsdp, tensor)
    # `jax.make_mesh` does not split a dimension of a torus: a 4×4×4 torus would have no axis of size 8.
    device_grid = mesh_utils.create_device_mesh(sizes, list(devices), allow_split_physical_axes=True)
    return Mesh(device_grid, AXES, axis_types=(AxisType.Auto,) * len(AXES))


def mesh_from_config(config: Any) -> Mesh:
    """The mesh of a config's `mesh` block."""
    return make_mesh(config.mesh.data, config.mesh.fsdp, config.mesh.tensor)


def batch_sharding(mesh: Mesh) -> NamedSharding:
    """The sharding of a batch: rows over the data and fsdp axes."""
    return NamedSharding(mesh, PartitionSpec(("data", "fsdp")))


def replicated(mesh: Mesh) -> NamedSharding:
    """The sharding of an array that every device holds whole."""
    return NamedSharding(mesh, PartitionSpec())


def shardings(tree: Any, mesh: Mesh, rules: Sequence[tuple[str, Sequence[str | None]]] = ()) -> Any:
    """A NamedSharding for each leaf of `tree` (arrays or their shapes) by the first rule that matches its path.

    `rules` come before `DEFAULT_RULES`. A small axis that the mesh does not divide is replicated, which is logged.

    Raises:
      UsageError: the mesh does not divide a large axis; a rule is no pattern with axes of the mesh.
    """
    _check_rules(rules, mesh)
    compiled = [(re.compile(pattern), tuple(spec)) for pattern, spec in (*rules, *DEFAULT_RULES)]

    def choose_sharding(path, leaf):
        name = path_name(path)
        if getattr(leaf, "ndim", 0) == 0:
            return replicated(mesh)
        spec = next(spec for pattern, spec in compiled if pattern.search(name))
        spec = spec[-leaf.ndim :] if len(spec) > leaf.ndim else spec
        axes = [None] * (leaf.ndim - len(spec)) + list(spec)
        for i, axis in enumerate(axes):
            mesh_axes = (axis,) if isinstance(axis, str) else tuple(axis or ())
            parts = int(np.prod([mesh.shape[part] for part in mesh_axes]))
            if leaf.shape[i] % parts == 0:
                continue
            problem = f"{name}: axis {i} of {leaf.shape[i]} does not divide over {' × '.join(mesh_axes)}={parts}"
            if leaf.shape[i] > SMALL:
                raise UsageError(f"{problem}: change config.mesh, or config.scheme.pad_multiple")
            axes[i] = mesh_axes[0] if len(mesh_axes) > 1 and leaf.shape[i] % mesh.shape[mesh_axes[0]] == 0 else None
            logging.info("%s: split over %s only", problem, axes[i])
        return NamedSharding(mesh, PartitionSpec(*axes))

    return jax.tree_util.tree_map_with_path(choose_sharding, tree)


def _check_rules(rules: Sequence[tuple[str, Sequence[str | None]]], mesh: Mesh) -> None:
    for rule in rules:
        try:
            pattern, spec = rule
            re.compile(pattern)
            axes = {
                axis for part in spec if part is not None for axis in ((part,) if isinstance(part, str) else part)
            }
        except (re.error, TypeError, ValueError) as error:
            raise UsageError(f"config.mesh.rules: {rule!r} is no (pattern, axes): {error}") from None
        if unknown := axes - {*mesh.axis_names}:
            raise UsageError(
                f"config.mesh.rules: {rule!r} names {', '.join(map(repr, sorted(map(str, unknown))))}: the axes are "
                f"{', '.join(mesh.axis_names)}"
            )


def path_name(path: Sequence[Any]) -> str:
    """A pytree path as text, a/b/c."""
    return "/".join(str(getattr(k, "key", getattr(k, "name", getattr(k, "idx", k)))) for k in path)


def put(batch: Any, mesh: Mesh) -> Any:
    """This process's rows of a batch as global arrays, split over the mesh: see `processes.row_shards`."""
    return processes.join_rows(batch, batch_sharding(mesh), *processes.row_shards(mesh))


def distribute(tree: Any, layout: NamedSharding) -> Any:
    """Arrays that every process holds whole, as global arrays with this sharding."""
    return jax.tree.map(lambda x: jax.make_array_from_callback(np.shape(x), layout, np.asarray(x).__getitem__), tree)
