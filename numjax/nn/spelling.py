"""Symbols by the text tokens that spell them.

Legend: V vocabulary, M symbols, P tokens of all symbols together, D width.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def means(table_VD: jax.Array, pieces: tuple[tuple[int, ...], ...], lookup: Callable[..., jax.Array]) -> jax.Array:
    """Mean vector of the tokens that spell each symbol, float32[M, D]; zero where there are none.

    Args:
      lookup: (table, ids[P, 1]) → [P, 1, D].
    """
    sizes = np.asarray([len(one) for one in pieces])
    ids_P = np.asarray([i for one in pieces for i in one], np.int32)
    owner_P = np.repeat(np.arange(len(pieces)), sizes)
    # Padded so that the rows split over a mesh; what pads belongs to no symbol.
    room = -len(ids_P) % 128
    ids_P, owner_P = np.pad(ids_P, (0, room)), np.pad(owner_P, (0, room), constant_values=len(pieces))
    vectors_PD = lookup(table_VD, jnp.asarray(ids_P)[:, None])[:, 0].astype(jnp.float32)
    sums = jax.ops.segment_sum(vectors_PD, jnp.asarray(owner_P), len(pieces) + 1, indices_are_sorted=True)[:-1]
    return sums / np.maximum(sizes, 1)[:, None].astype(np.float32)
