"""Digests of arrays, to check that a restored array is the saved one.

Checkpoint files hold no checksums of their values: a flipped bit silently changes a parameter. A digest here is the
sum over all elements, modulo 2^32, of a bijection of (bits, index). So it is one small reduction on the array's own
devices, does not depend on how the array is split over devices or processes, always changes if a single element
changes, and misses other damage once in 4 · 10^9 times.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numjax.runtime import shard

_WORD = jnp.uint32


def digest_arrays(tree: Any) -> dict[str, str]:
    """{path: "type[shape] digest"} of a tree of arrays.

    With several processes, all must call it: each sum is a computation over all devices.
    """
    flat = {shard.path_name(path): jnp.asarray(leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)}
    # Collectives of CPU devices deadlock when several are under way.
    blocking = jax.default_backend() == "cpu" and jax.device_count() > 1
    device_sums = {}
    for name, leaf in flat.items():
        device_sums[name] = _jitted(_mesh(leaf))(leaf)
        if blocking:
            jax.block_until_ready(device_sums[name])
    sums = jax.device_get(device_sums)
    return {name: f"{leaf.dtype}{list(leaf.shape)} {int(sums[name]):08x}" for name, leaf in flat.items()}


@functools.cache
def _jitted(mesh):
    # One compilation per shape, not one for all leaves: layers have equal shapes, and a model may have hundreds.
    return jax.jit(_digest, out_shardings=None if mesh is None else shard.replicated(mesh))


def _mesh(leaf: jax.Array):
    return leaf.sharding.mesh if isinstance(leaf.sharding, jax.sharding.NamedSharding) else None


def _digest(x: jax.Array) -> jax.Array:
    """The digest, uint32[]."""
    bits, shape = _bits(x), x.shape
    # The index in the flat array, summed axis by axis: flattening would gather a sharded array.
    index = jnp.zeros(shape, _WORD)
    for axis in range(len(shape)):
        stride = int(np.prod(shape[axis + 1 :], dtype=np.int64)) % 2**32
        index += jax.lax.broadcasted_iota(_WORD, shape, axis) * _WORD(stride)
    return jnp.sum(_mix(bits ^ _mix(index + _WORD(0x9E3779B9))), dtype=_WORD)


def _bits(x: jax.Array) -> jax.Array:
    if x.dtype == jnp.bool_:
        return x.astype(_WORD)
    if x.dtype.itemsize > 4:
        halves = jax.lax.bitcast_convert_type(x, _WORD)  # [..., 2]
        return _mix(halves[..., 0]) ^ halves[..., 1]
    unsigned = {1: jnp.uint8, 2: jnp.uint16, 4: _WORD}[x.dtype.itemsize]
    return jax.lax.bitcast_convert_type(x, unsigned).astype(_WORD)


def _mix(h: jax.Array) -> jax.Array:
    """MurmurHash3's finaliser: a bijection of 32 bits in which each output bit depends on all input bits."""
    h = (h ^ (h >> 16)) * _WORD(0x85EBCA6B)
    h = (h ^ (h >> 13)) * _WORD(0xC2B2AE35)
    return h ^ (h >> 16)
