"""Computes only the scored positions if they are few."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from numjax.nn import parallel

Take = Callable[[Any], Any]


def apply_at_scored(mask_BT: jax.Array, room: float, compute: Callable[[Take], Any]) -> Any:
    """compute(take), where take(tree of [B, T, …]) selects each row's scored positions into a fixed number of slots.

    It is for heads that do more at a position than a softmax over the vocabulary, whose losses leave out the others
    anyway (`cross_entropy.total_log_prob`). If a row has more scored positions than slots, the whole batch is
    computed, and `take` is the identity.

    Args:
      mask_BT: the scored positions; `compute` must not depend on the others.
      room: slots as a share of a row's positions; 0: all positions.
      compute: returns sums over positions, whose shapes do not depend on the number of positions.
    """
    length = mask_BT.shape[1]
    if not 0 < (n_slots := math.ceil(room * length)) < length:
        return compute(lambda x: x)

    def compute_few():
        # The others behind them fill the slots, so that no position has two.
        order = jax.vmap(invert)(rank_scored_first(mask_BT)[0])[:, :n_slots]

        def take_scored(x):
            return jnp.take_along_axis(x, order.reshape(*order.shape, *(1,) * (x.ndim - 2)), axis=1)

        return compute(lambda tree: jax.tree.map(take_scored, tree))

    return jax.lax.cond(mask_BT.sum(axis=1).max() <= n_slots, compute_few, lambda: compute(lambda x: x))


def rank_scored_first(mask_BT: jax.Array) -> tuple[jax.Array, jax.Array]:
    """(the place of each position if those of the mask come first, int32[..., T]; how many these are, int32[...])."""
    n_scored = mask_BT.sum(axis=-1, dtype=jnp.int32)
    of_others = n_scored[..., None] + jnp.cumsum(~mask_BT, axis=-1, dtype=jnp.int32)
    return jnp.where(mask_BT, jnp.cumsum(mask_BT, axis=-1, dtype=jnp.int32), of_others) - 1, n_scored


def invert(rank_T: jax.Array, length: int | None = None) -> jax.Array:
    """The positions in the order of their places, int32[length]; zeros behind the last."""
    order = jnp.zeros(length or rank_T.size, jnp.int32)
    return order.at[rank_T].set(jnp.arange(rank_T.size, dtype=jnp.int32), unique_indices=True)


def apply_at_few(mask_BT: jax.Array, room: float, compute: Callable[[Take], Any]) -> Any:
    """As `apply_at_scored`, with slots that the rows of a device share: where few rows have many scored positions.

    `take` flattens rows, so `compute` must not depend on the order of positions. For the backward pass nothing is
    kept, and `compute` runs again: otherwise room for all positions would be kept, however few are scored.
    """
    parts = parallel.count_parts(parallel.ROWS)
    parts = parts if mask_BT.shape[0] % parts == 0 else 1

    def flatten(tree):
        return jax.tree.map(lambda x: parallel.constrain(x.reshape(parts, -1, *x.shape[2:]), parallel.ROWS), tree)

    def compute_again(take: Take):
        return jax.checkpoint(lambda: compute(lambda tree: take(flatten(tree))))()

    return apply_at_scored(flatten(mask_BT), room, compute_again)
