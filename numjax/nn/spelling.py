"""Vectors of symbols from the text tokens that spell them.

Legend: V vocabulary, M symbols, P tokens of all symbols, D width.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np


def mean_vectors(
    table_VD: jax.Array, pieces: tuple[tuple[int, ...], ...], lookup: Callable[..., jax.Array]
) -> jax.Array:
    """The mean vector of the tokens that spell each symbol, float32[M, D]; zero if there are none.

    Args:
      lookup: (table, ids[P, 1]) → [P, 1, D].
    """
    sizes = np.asarray([len(ids) for ids in pieces])
    ids_P = np.asarray([i for ids in pieces for i in ids], np.int32)
    owner_P = np.repeat(np.arange(len(pieces)), sizes)
    # Padded so that the rows split over a mesh; the padding belongs to no symbol.
    n_padding = -len(ids_P) % 128
    ids_P, owner_P = np.pad(ids_P, (0, n_padding)), np.pad(owner_P, (0, n_padding), constant_values=len(pieces))
    vectors_PD = lookup(table_VD, jnp.asarray(ids_P)[:, None])[:, 0].astype(jnp.float32)
    sums = jax.ops.segment_sum(vectors_PD, jnp.asarray(owner_P), len(pieces) + 1, indices_are_sorted=True)[:-1]
    return sums / np.maximum(sizes, 1)[:, None].astype(np.float32)
