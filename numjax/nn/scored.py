"""Reading only those positions that are scored, where they are few."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

Take = Callable[[Any], Any]


def at_scored(mask_BT: jax.Array, room: float, read: Callable[[Take], Any]) -> Any:
    """read(take), where take(tree of [B, T, …]) leaves the scored positions of each row, in a fixed number of places.

    In masked language models a seventh of the positions are scored and the vocabulary is most of a head's work. A
    batch with a row that has more than there is room for is read whole, take being the identity.

    Args:
      mask_BT: what is scored; `read` must not depend on the rest.
      room: share of a row's positions to leave; 0: all.
      read: gives sums over positions, of the same shapes however many there are.
    """
    length = mask_BT.shape[1]
    if not 0 < (most := math.ceil(room * length)) < length:
        return read(lambda x: x)

    def few():
        order = jnp.argsort(~mask_BT, axis=1, stable=True)[:, :most]

        def one(x):
            return jnp.take_along_axis(x, order.reshape(*order.shape, *(1,) * (x.ndim - 2)), axis=1)

        return read(lambda tree: jax.tree.map(one, tree))

    return jax.lax.cond(mask_BT.sum(axis=1).max() <= most, few, lambda: read(lambda x: x))
