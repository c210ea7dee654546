"""A learned vector per token."""

from __future__ import annotations

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from numjax import protocols
from numjax.nn import parallel
from numjax.nn.parallel import ROWS, TENSOR, VOCABULARY
from numjax.protocols import FromContext
from numjax.types import Tokens


def lookup(table_VD: jax.Array, ids_BT: jax.Array, dtype: str = "float32") -> jax.Array:
    """table[ids], [B, T, D], rounded to `dtype`.

    Over a mesh each device gathers its part of the table once and sums the gradient once; XLA's plain gather
    would move the whole float32 table twice.
    """
    if not parallel.can_spread(ids_BT.shape[0], table_VD.shape[0]):
        return jnp.take(table_VD, ids_BT, axis=0).astype(dtype).astype(table_VD.dtype)
    static = (parallel.divides(table_VD.shape[0], VOCABULARY), dtype, *table_VD.shape, table_VD.dtype.name)
    return _spread_lookup(static, table_VD, ids_BT)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _spread_lookup(static, table_VD, ids_BT):
    split, dtype, *_ = static

    def look_up_part(table, ids):
        table = table.astype(dtype)
        table = jax.lax.all_gather(table, "fsdp", axis=0, tiled=True) if split else table
        index, is_local = _local_index(ids, table.shape[0])
        return jax.lax.psum(jnp.where(is_local[..., None], jnp.take(table, index, axis=0), 0), TENSOR)

    rows = PartitionSpec(ROWS)
    return parallel.spread(look_up_part, (_table_spec(split), rows), rows)(table_VD, ids_BT).astype(table_VD.dtype)


def _lookup_forward(static, table_VD, ids_BT):
    return _spread_lookup(static, table_VD, ids_BT), ids_BT


def _lookup_backward(static, ids_BT, d_BTD):
    split, compute_dtype, vocabulary, width, dtype = static

    def scatter_part(ids, d):
        size = vocabulary // jax.lax.axis_size(TENSOR)
        index, is_local = _local_index(ids, size)
        d_table = jnp.zeros((size, width), dtype).at[index].add(jnp.where(is_local[..., None], d, 0).astype(dtype))
        return parallel.sum_rows(d_table, split, compute_dtype).astype(dtype)

    rows = PartitionSpec(ROWS)
    return parallel.spread(scatter_part, (rows, rows), _table_spec(split))(ids_BT, d_BTD), None


_spread_lookup.defvjp(_lookup_forward, _lookup_backward)


def _local_index(ids, size):
    """(index into this device's part of the table, whether the id is in that part)."""
    index = ids - jax.lax.axis_index(TENSOR) * size
    is_local = (index >= 0) & (index < size)
    return jnp.where(is_local, index, 0), is_local


def _table_spec(split):
    return PartitionSpec(VOCABULARY if split else TENSOR)


class Embed(protocols.Embed, nn.Module):
    """Token embedding TE (NumGPT eq. 5).

    Attributes:
      dim: width D.
      vocab_size: V, padded.
      init_std: standard deviation of the initial vectors.
      dtype: compute type; vectors are read in it.
    """

    dim: FromContext[int]
    vocab_size: FromContext[int]
    init_std: float = 0.02
    dtype: FromContext[str] = "float32"
    kind = "token"

    def setup(self):
        shape = (self.vocab_size, self.dim)
        self.table = self.param("table", nn.initializers.normal(self.init_std), shape, jnp.float32)

    def __call__(self, tokens: Tokens) -> jax.Array:
        return lookup(self.table, tokens.ids, self.dtype)
