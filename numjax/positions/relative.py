"""A learned bias of the scores for each bucket of distances (T5; Raffel et al. 2020, section 2.1).

Legend: B rows, H heads, T queries, S keys.
"""

from __future__ import annotations

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.protocols import FromContext


def relative_buckets(relative: jax.Array, two_sided: bool, buckets: int = 32, furthest: int = 128) -> jax.Array:
    """T5's bucket of each key position − query position, int32 in the shape of `relative`.

    Half of a side's buckets hold one distance each; the others grow by a constant factor up to `furthest`, and the
    last one holds all larger distances. Keys behind the query have their own buckets if `two_sided`, else the bucket
    of distance 0.
    """
    side = buckets // 2 if two_sided else buckets
    distance = jnp.abs(relative) if two_sided else jnp.maximum(-relative, 0)
    n_exact = side // 2
    growth = jnp.log(jnp.maximum(distance, 1).astype(jnp.float32) / n_exact) / np.log(furthest / n_exact)
    log_bucket = jnp.minimum(n_exact + (growth * (side - n_exact)).astype(jnp.int32), side - 1)
    bucket = jnp.where(distance < n_exact, distance, log_bucket)
    return bucket + jnp.where(relative > 0, side, 0) if two_sided else bucket


class Positions(protocols.Positions, nn.Module):
    """A bias per head and bucket, shared by all layers of a stack; in an encoder each side has its own buckets.

    Attributes:
      buckets: number of buckets. furthest: the distance from which on all distances share a bucket.
    """

    stack: FromContext[protocols.Stack | None] = None
    buckets: int = 32
    furthest: int = 128

    def setup(self):
        stack = self.require_stack()
        n_exact = (self.buckets if stack.causal else self.buckets // 2) // 2
        if not 1 <= n_exact < self.furthest:
            raise UsageError(
                f"positions relative: with buckets={self.buckets} {n_exact} distances of a side have their own: "
                f"there must be at least one, and fewer than furthest={self.furthest}"
            )
        init = nn.initializers.normal(stack.width**-0.5)
        self.distances = self.param("distances", init, (self.buckets, stack.heads), jnp.float32)

    def bias(self, query_BT: jax.Array, key_BS: jax.Array) -> jax.Array:
        """float32[B, H, T, S]."""
        relative = key_BS[:, None, :] - query_BT[:, :, None]
        index = relative_buckets(relative, not self.require_stack().causal, self.buckets, self.furthest)
        return jnp.moveaxis(jnp.take(self.distances, index, axis=0), -1, 1)
