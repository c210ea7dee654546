"""Scaled dot-product attention, in full and against a key-value cache.

Legend: B rows, T queries, S keys (or cache slots), H heads, E width of a head.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp


class Cache(NamedTuple):
    """Keys and values of the positions read so far. Prompts are padded on the left, so that all rows write
    the same slot: one in-place update a layer and step.

    Attributes:
      keys, values: a tuple of [B, H, S, E], an entry a layer.
      valid: bool[B, S], False in padding.
      length: int32, slots filled.
    """

    keys: tuple[jax.Array, ...]
    values: tuple[jax.Array, ...]
    valid: jax.Array
    length: jax.Array


def empty_cache(layers: int, batch: int, slots: int, heads: int, size: int, dtype) -> Cache:
    """A cache of `slots` positions in which nothing is filled."""
    blank = jnp.zeros((batch, heads, slots, size), dtype)
    return Cache((blank,) * layers, (blank,) * layers, jnp.zeros((batch, slots), bool), jnp.int32(0))


def segment_mask(segment_ids_BT: jax.Array, causal: bool) -> jax.Array:
    """bool[B, 1, T, T]: position t sees position s of its own segment (and, if causal, s ≤ t)."""
    mask = segment_ids_BT[:, None, :, None] == segment_ids_BT[:, None, None, :]
    if causal:
        steps = jnp.arange(segment_ids_BT.shape[1])
        mask &= steps[:, None] >= steps[None, :]
    return mask


def attend(
    q_BTHE: jax.Array,
    k_BSHE: jax.Array,
    v_BSHE: jax.Array,
    mask: jax.Array | None,
    *,
    causal: bool = False,
    implementation: str = "auto",
) -> jax.Array:
    """Attention [B, T, H, E] with a float32 softmax.

    Args:
      q_BTHE, k_BSHE, v_BSHE: queries, keys and values.
      mask: bool, broadcastable to [B, H, T, S], or None for no mask but `causal`.
      causal: also hide later keys (implied by a causal mask; flash kernels want it said).
      implementation: "xla" or "cudnn" (both `jax.nn.dot_product_attention`), "plain" (two einsums: faster
        than "xla" on CPU), or "auto": plain on CPU, xla elsewhere.
    """
    if implementation == "auto":
        implementation = "plain" if jax.default_backend() == "cpu" else "xla"
    if implementation != "plain":
        return jax.nn.dot_product_attention(  # type: ignore[call-overload]
            q_BTHE,
            k_BSHE,
            v_BSHE,
            mask=mask,
            is_causal=causal,
            implementation=implementation,  # type: ignore[call-overload]
        )
    if causal and mask is None:
        steps_T, steps_S = jnp.arange(q_BTHE.shape[1]), jnp.arange(k_BSHE.shape[1])
        mask = (steps_T[:, None] >= steps_S[None, :])[None, None]
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q_BTHE, k_BSHE, v_BSHE))
    return jnp.swapaxes(_plain(q, k, v, mask), 1, 2)


def attend_cached(
    q_BTHE: jax.Array, k_BTHE: jax.Array, v_BTHE: jax.Array, cache: Cache, layer: int
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Attention of T new positions to themselves and to the cache.

    Returns:
      out[B, T, H, E] and the layer's keys and values with the new positions written from slot
      `cache.length` on.
    """
    start = (0, 0, cache.length, 0)
    q, k_new, v_new = (jnp.swapaxes(x, 1, 2) for x in (q_BTHE, k_BTHE, v_BTHE))
    keys = jax.lax.dynamic_update_slice(cache.keys[layer], k_new.astype(cache.keys[layer].dtype), start)
    values = jax.lax.dynamic_update_slice(cache.values[layer], v_new.astype(cache.values[layer].dtype), start)
    slots = jnp.arange(keys.shape[2])
    steps = cache.length + jnp.arange(q.shape[2])
    mask = (slots[None, :] <= steps[:, None])[None, None] & cache.valid[:, None, None, :]
    return jnp.swapaxes(_plain(q, keys, values, mask), 1, 2), keys, values


def _plain(q_BHTE, k_BHSE, v_BHSE, mask):
    scores = jnp.einsum("bhte,bhse->bhts", q_BHTE, k_BHSE, preferred_element_type=jnp.float32)
    scores *= q_BHTE.shape[-1] ** -0.5
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(v_BHSE.dtype)
    return jnp.einsum("bhts,bhse->bhte", weights, v_BHSE)
