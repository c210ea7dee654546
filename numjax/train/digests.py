"""Digests of arrays: whether a restored array is the one that was saved.

Checkpoint files hold no checksum of the values in them: a flipped bit comes back as another parameter, and nothing is
said. A digest here is the sum over all elements, modulo 2^32, of a bijection of (bits, place). So it is one small
reduction where the array lies, does not depend on how it is split over devices or processes, changes with any single
element for certain, and misses other damage once in 4 · 10^9 times.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numjax.runtime import shard

_WORD = jnp.uint32


def of(tree: Any) -> dict[str, str]:
    """{path: "type[shape] digest"} of a tree of arrays.

    With several processes all must call it: each sum is a computation over all devices.
    """
    flat = {shard.path_name(path): jnp.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    # Collectives of CPU devices deadlock when several are under way.
    blocking = jax.default_backend() == "cpu" and jax.device_count() > 1
    found = {}
    for name, leaf in flat.items():
        found[name] = _jitted(_mesh(leaf))(leaf)
        if blocking:
            jax.block_until_ready(found[name])
    sums = jax.device_get(found)
    return {name: f"{leaf.dtype}{list(leaf.shape)} {int(sums[name]):08x}" for name, leaf in flat.items()}


@functools.cache
def _jitted(mesh):
    # A compilation a shape, not one for all leaves: layers are alike, and a model may have hundreds.
    return jax.jit(_digest, out_shardings=None if mesh is None else shard.replicated(mesh))


def _mesh(leaf: jax.Array):
    return leaf.sharding.mesh if isinstance(leaf.sharding, jax.sharding.NamedSharding) else None


def _digest(x: jax.Array) -> jax.Array:
    """The digest, uint32[]."""
    bits, shape = _bits(x), x.shape
    # Places count on axis by axis: flattening would gather what is sharded.
    place = jnp.zeros(shape, _WORD)
    for axis in range(len(shape)):
        stride = int(np.prod(shape[axis + 1 :], dtype=np.int64)) % 2**32
        place += jax.lax.broadcasted_iota(_WORD, shape, axis) * _WORD(stride)
    return jnp.sum(_mix(bits ^ _mix(place + _WORD(0x9E3779B9))), dtype=_WORD)


def _bits(x: jax.Array) -> jax.Array:
    if x.dtype == jnp.bool_:
        return x.astype(_WORD)
    if x.dtype.itemsize > 4:
        halves = jax.lax.bitcast_convert_type(x, _WORD)  # [..., 2]
        return _mix(halves[..., 0]) ^ halves[..., 1]
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: _WORD}[x.dtype.itemsize]
    return jax.lax.bitcast_convert_type(x, unsigned).astype(_WORD)


def _mix(h: jax.Array) -> jax.Array:
    """MurmurHash3's finaliser: a bijection of 32 bits in which each depends on all."""
    h = (h ^ (h >> 16)) * _WORD(0x85EBCA6B)
    h = (h ^ (h >> 13)) * _WORD(0xC2B2AE35)
    return h ^ (h >> 16)
