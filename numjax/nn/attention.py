"""Scaled dot-product attention, in full and against a key-value cache.

Keys and values may have fewer heads than queries. Each of their heads then serves a group of consecutive query heads
(grouped queries; Ainslie et al. 2023).

Legend: B rows, T queries, S keys (or cache slots), H heads, E width of a head.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from numjax.errors import UsageError
from numjax.nn import parallel
from numjax.nn.einsum import einsum
from numjax.nn.parallel import ROWS, TENSOR

IMPLEMENTATIONS = ("auto", "plain", "xla", "cudnn", "splash")
LANES = 128  # lanes of a TPU's vector unit: tiles are multiples of it


class Memory(NamedTuple):
    """An encoder's keys and values for a decoder's cross attention. They are computed once and never change. All
    beams of a row share them.

    Attributes:
      keys, values: tuples of [B, H, E, S] and of [B, H, S, E], one entry per layer of the decoder.
      valid: bool[B, S], False in the source's padding.
    """

    keys: tuple[jax.Array, ...]
    values: tuple[jax.Array, ...]
    valid: jax.Array


class Cache(NamedTuple):
    """Keys and values of the positions so far. Prompts are padded on the left, so that all rows write the same
    slot: one in-place update per layer and step.

    Attributes:
      keys, values: tuples of [B, H, E, S] and of [B, H, S, E], one entry per layer; without B for a single row.
        Keys are stored in the layout that their product with a few queries needs: with the queries of three beams it
        takes a quarter of the time on CPU.
      valid: bool[B, S], False in padding.
      length: int32, slots filled.
      visible: bool[B, T, S], the slots that each of the next T positions sees, its own included; None: every valid
        slot up to its own. Beams are positions of one row, and each sees its own past: nothing is ever moved.
      bias_indices: name → int32[B, S], the index of each slot for a bias (see `protocols.Positions.bias_index`).
      memory: keys and values of an encoder; None without one.
    """

    keys: tuple[jax.Array, ...]
    values: tuple[jax.Array, ...]
    valid: jax.Array
    length: jax.Array
    visible: jax.Array | None = None
    bias_indices: Mapping[str, jax.Array] = {}
    memory: Memory | None = None


def empty_cache(
    layers: int, batch: int, slots: int, heads: int, size: int, dtype: Any, biases: Iterable[str] = ()
) -> Cache:
    """An empty cache of `slots` slots; `heads` of keys, `biases` by name."""
    # Products drop an axis of size 1 by a reshape, and XLA then updates a copy of the cache.
    rows = (batch,) if batch > 1 else ()
    keys, values = (jnp.zeros((*rows, heads, *shape), dtype) for shape in ((size, slots), (slots, size)))
    empty = {name: jnp.zeros((batch, slots), jnp.int32) for name in biases}
    return Cache(
        (keys,) * layers, (values,) * layers, jnp.zeros((batch, slots), bool), jnp.int32(0), bias_indices=empty
    )


def segment_mask(segment_ids_BT: jax.Array, causal: bool) -> jax.Array:
    """bool[B, 1, T, T]: whether position t sees position s: both in one segment and, if causal, s ≤ t."""
    mask = segment_ids_BT[:, None, :, None] == segment_ids_BT[:, None, None, :]
    if causal:
        steps = jnp.arange(segment_ids_BT.shape[1])
        mask &= steps[:, None] >= steps[None, :]
    return mask


def attend(
    q_BTHE: jax.Array,
    k_BSHE: jax.Array,
    v_BSHE: jax.Array,
    segment_ids_BT: jax.Array | None = None,
    *,
    causal: bool = False,
    implementation: str = "auto",
    valid_BS: jax.Array | None = None,
    bias_BHTS: jax.Array | None = None,
    scale: float | None = None,
) -> jax.Array:
    """Attention [B, T, H, E] with a float32 softmax.

    Args:
      q_BTHE, k_BSHE, v_BSHE: queries, keys and values.
      segment_ids_BT: a position sees only its own segment (S = T); None for no segments.
      causal: hide later keys.
      valid_BS: which keys may be seen at all, where queries and keys come from two texts.
      bias_BHTS: float32, added to the scores; axes of size 1 are repeated.
      scale: factor of the scores, 1/√E by default.
      implementation: "plain" (two einsums), "xla" or "cudnn" (`jax.nn.dot_product_attention`), "splash" (the
        Pallas kernel for TPUs; interpreted and slow on other devices), or "auto": plain on CPU, where it is fastest;
        splash on TPU where its tiles fit; cudnn on GPU for 16-bit types without segments; else xla.

    Raises:
      UsageError: the implementation is unknown, or lengths or rows do not fit "splash".
    """
    if implementation not in IMPLEMENTATIONS:
        raise UsageError(f"attention must be one of {', '.join(IMPLEMENTATIONS)}, not {implementation!r}")
    plain = valid_BS is None and bias_BHTS is None and scale is None and q_BTHE.shape[2] == k_BSHE.shape[2]
    if implementation == "auto":
        implementation = _choose_implementation(q_BTHE, k_BSHE, segment_ids_BT, plain)
    if implementation == "splash":
        if not plain:
            raise UsageError(
                "attention=splash supports no second text, bias, scale or grouped heads: use auto or xla"
            )
        return _splash(q_BTHE, k_BSHE, v_BSHE, segment_ids_BT, causal)
    mask = None if segment_ids_BT is None else segment_mask(segment_ids_BT, causal)
    if valid_BS is not None:
        if causal and mask is None:
            mask = _causal_mask(q_BTHE, k_BSHE)
        valid = valid_BS[:, None, None, :]
        mask = valid if mask is None else mask & valid
    if implementation != "plain":
        return jax.nn.dot_product_attention(  # type: ignore[call-overload]
            q_BTHE,
            k_BSHE,
            v_BSHE,
            # cuDNN needs the bias in the queries' type.
            bias=bias_BHTS.astype(q_BTHE.dtype) if implementation == "cudnn" and bias_BHTS is not None else bias_BHTS,
            mask=mask,
            scale=scale,
            # A mask includes causality; without one, flash kernels need the flag.
            is_causal=causal and mask is None,
            implementation=implementation,  # type: ignore[call-overload]
        )
    if causal and mask is None:
        mask = _causal_mask(q_BTHE, k_BSHE)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q_BTHE, k_BSHE, v_BSHE))
    return jnp.swapaxes(_weighted_values(_scores(q, jnp.swapaxes(k, 2, 3), scale), v, mask, bias_BHTS), 1, 2)


def _causal_mask(q_BTHE, k_BSHE):
    steps_T, steps_S = jnp.arange(q_BTHE.shape[1]), jnp.arange(k_BSHE.shape[1])
    return (steps_T[:, None] >= steps_S[None, :])[None, None]


def _choose_implementation(q, k, segments, plain=True) -> str:
    platform = parallel.platform()
    if platform == "cpu":
        return "plain"
    if not plain:
        return "xla"
    tiles_fit = q.shape[1] == k.shape[1] and q.shape[1] % LANES == 0
    if platform == "tpu" and tiles_fit and (parallel.is_single_device() or parallel.can_spread(q.shape[0])):
        return "splash"
    is_16_bit = q.dtype in (jnp.bfloat16, jnp.float16)
    if platform == "gpu" and is_16_bit and segments is None and q.shape[-1] % 8 == 0 and q.shape[-1] <= 128:
        return "cudnn"
    return "xla"


def attend_memory(q_BTHE: jax.Array, memory: Memory, layer: int, scale: float | None = None) -> jax.Array:
    """Attention [B, T, H, E] of T positions to an encoder's keys and values for a layer."""
    mask = memory.valid[:, None, None, :]
    scores = _scores(jnp.swapaxes(q_BTHE, 1, 2), memory.keys[layer], scale)
    return jnp.swapaxes(_weighted_values(scores, memory.values[layer], mask), 1, 2)


def attend_cached(
    q_BTHE: jax.Array,
    k_BTHE: jax.Array,
    v_BTHE: jax.Array,
    cache: Cache,
    layer: int,
    bias_BHTS: jax.Array | None = None,
    scale: float | None = None,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Attention of T new positions to themselves and to the cache; `bias_BHTS` and `scale` as in `attend`.

    Returns:
      out[B, T, H, E] and the layer's keys and values, with the new positions from slot `cache.length` on.
    """
    q, k_new, v_new = (jnp.swapaxes(x, 1, 2) for x in (q_BTHE, k_BTHE, v_BTHE))
    single = cache.keys[layer].ndim == 3
    if single:
        q, k_new, v_new = (x[0] for x in (q, k_new, v_new))
    keys, values = cache.keys[layer], cache.values[layer]
    axis = values.ndim - 2
    k_new, v_new = jnp.swapaxes(k_new, -1, -2).astype(keys.dtype), v_new.astype(values.dtype)
    keys = jax.lax.dynamic_update_slice_in_dim(keys, k_new, cache.length, axis + 1)
    values = jax.lax.dynamic_update_slice_in_dim(values, v_new, cache.length, axis)
    rows = () if single else (ROWS,)
    keys, values = (parallel.constrain(x, *rows, TENSOR) for x in (keys, values))
    if cache.visible is None:
        slots = jnp.arange(keys.shape[-1])
        steps = cache.length + jnp.arange(q.shape[-2])
        mask = (slots[None, :] <= steps[:, None])[None, None] & cache.valid[:, None, None, :]
    else:
        mask = cache.visible[:, None]
    bias = bias_BHTS[0] if single and bias_BHTS is not None else bias_BHTS
    out = _weighted_values(_scores(q, keys, scale), values, mask[0] if single else mask, bias)
    return jnp.swapaxes(out[None] if single else out, 1, 2), keys, values


def _splash(q_BTHE, k_BSHE, v_BSHE, segment_ids_BT, causal):
    # Pallas takes a second to import and only TPUs need it.
    from jax.experimental.pallas.ops.tpu import splash_attention

    length = q_BTHE.shape[1]
    if length % LANES or k_BSHE.shape[1] != length:
        raise UsageError(f"attention=splash needs as many keys as queries, a multiple of {LANES}: use auto or xla")
    q_BTHE = q_BTHE * q_BTHE.shape[-1] ** -0.5
    block = next(size for size in (1024, 512, 256, LANES) if length % size == 0)
    sizes: Any = {f"block_{name}": block for name in ("q", "kv", "kv_compute", "q_dkv", "kv_dkv", "kv_dkv_compute")}

    def attend_part(q, k, v, *segments):
        mask = (
            splash_attention.CausalMask((length, length)) if causal else splash_attention.FullMask((length, length))
        )
        kernel = splash_attention.make_splash_mha_single_device(
            splash_attention.MultiHeadMask([mask] * q.shape[2]),
            block_sizes=splash_attention.BlockSizes(use_fused_bwd_kernel=True, **sizes),
            interpret=parallel.platform() != "tpu",
        )
        ids = None if not segments else splash_attention.SegmentIds(segments[0], segments[0])
        q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
        out: Any = jax.vmap(kernel)(q, k, v, ids)
        return jnp.swapaxes(out, 1, 2)

    segments = () if segment_ids_BT is None else (segment_ids_BT,)
    if parallel.mesh() is None:
        return attend_part(q_BTHE, k_BSHE, v_BSHE, *segments)
    if not parallel.can_spread(q_BTHE.shape[0]):
        raise UsageError(f"attention=splash: {q_BTHE.shape[0]} rows do not divide over data × fsdp: use auto or xla")
    # The compiler cannot split the kernel: each device runs it on its own rows and heads.
    heads = TENSOR if parallel.divides(q_BTHE.shape[2], TENSOR) else None
    wide, narrow = PartitionSpec(ROWS, None, heads), PartitionSpec(ROWS)
    body = parallel.spread(attend_part, (wide, wide, wide, *([narrow] * len(segments))), wide)
    return body(q_BTHE, k_BSHE, v_BSHE, *segments)


def _scores(q_BHTE, k_BHES, scale):
    heads = k_BHES.shape[-3]
    scores = einsum("...te,...es->...ts", _group_queries(q_BHTE, heads), k_BHES, preferred_element_type=jnp.float32)
    return scores.reshape(*q_BHTE.shape[:-1], -1) * (q_BHTE.shape[-1] ** -0.5 if scale is None else scale)


def _group_queries(x_BHTX, heads):
    """Makes queries that share keys rows of one product, so that no key is copied: [..., heads, H / heads · T, X]."""
    *rows, n_queries, length, width = x_BHTX.shape
    return x_BHTX if n_queries == heads else x_BHTX.reshape(*rows, heads, n_queries // heads * length, width)


def _weighted_values(scores, v_BHSE, mask, bias=None):
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(v_BHSE.dtype)
    out = einsum("...ts,...se->...te", _group_queries(weights, v_BHSE.shape[-3]), v_BHSE)
    return out.reshape(*weights.shape[:-1], -1)
