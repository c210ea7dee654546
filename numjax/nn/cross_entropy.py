"""Log-probabilities over a large vocabulary without a [B, T, V] array.

Legend: B rows, T positions, P positions of a chunk, N = B·T of a device, D width, V vocabulary (padded), C grammar
classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from numjax.nn import parallel, scored
from numjax.nn.einsum import einsum
from numjax.nn.parallel import ROWS, TENSOR, VOCABULARY
from numjax.types import Allowed

# Most rows and logits of one chunk: enough for full-speed matrix products, few enough to stay in cache on CPU. With
# 2,176 ids a step takes less than half as long as with all rows in one chunk.
CHUNK_ROWS, CHUNK_LOGITS = 256, 256 * 50_304

# exp underflows to zero from here, yet a row of forbidden tokens only stays finite.
FORBIDDEN = -1e30


class Teacher(NamedTuple):
    """The softmax to approximate: of `hidden`[B, T, D'], `kernel`[V, D'] and, if there is one, `bias`[V]."""

    hidden: jax.Array
    kernel: jax.Array
    bias: jax.Array | None


class _Rows(NamedTuple):
    """The inputs of some positions; each [B, P, …], [N, …] or [P, …]."""

    hidden: jax.Array
    targets: jax.Array
    weights: jax.Array
    classes: jax.Array | None
    teacher: jax.Array | None = None


def vocabulary_logits(
    hidden: jax.Array,
    kernel_VD: jax.Array,
    size: int,
    allowed: Allowed | None = None,
    banned: int | None = None,
    first: jax.Array | int = 0,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Masked float32 logits[..., V] of hidden[..., D] and, if there is one, a bias[V].

    Ids from `size` on only pad the vocabulary, and the id `banned` is never legal. `first` is the id of the kernel's
    first row, if the kernel is a part of a vocabulary's.
    """
    logits = einsum("...d,vd->...v", hidden, kernel_VD.astype(hidden.dtype), preferred_element_type=jnp.float32)
    if bias is not None:
        logits = logits + bias
    ids = first + jnp.arange(kernel_VD.shape[0])
    if not isinstance(first, int) or size < kernel_VD.shape[0]:
        logits = jnp.where(ids < size, logits, FORBIDDEN)
    if banned is not None:
        logits = jnp.where(ids == banned, FORBIDDEN, logits)
    if allowed is not None:
        logits = jnp.where(jnp.take(allowed.classes, allowed.class_of, axis=-1), logits, FORBIDDEN)
    return logits


def token_logits(
    hidden_BTD: jax.Array, kernel_VD: jax.Array, ids: jax.Array, bias_V: jax.Array | None = None
) -> jax.Array:
    """float32[..., n], the logits of tokens int32[n] only; the rows are gathered however the kernel is split."""
    rows = jnp.take(kernel_VD, jnp.asarray(ids, jnp.int32), axis=0).astype(hidden_BTD.dtype)
    logits = einsum("...d,nd->...n", hidden_BTD, rows, preferred_element_type=jnp.float32)
    return logits if bias_V is None else logits + jnp.take(bias_V, jnp.asarray(ids, jnp.int32))


def step_logits(
    hidden_BD: jax.Array, weights: Mapping[str, jax.Array], size: int, banned: int | None = None
) -> jax.Array:
    """`vocabulary_logits` of a decoder's few rows, from weights "kernel"[V, D] and, if there is one, "bias"[V].

    "turned"[D, V] replaces the kernel if it is given: see `transpose_kernel`.
    """
    kernel_VD, turned_DV = weights["kernel"].astype(hidden_BD.dtype), weights.get("turned")
    bias_V = weights.get("bias")
    wide = dict(preferred_element_type=jnp.float32)
    if turned_DV is not None:
        logits = jnp.matmul(hidden_BD, turned_DV, **wide)
    elif parallel.platform() == "cpu":
        # [V, D] · [D, B] reads the kernel in its own layout: 1.4 times as fast as [B, D] · [D, V]. The barrier keeps
        # the compiler from turning it back into that.
        logits = jax.lax.optimization_barrier(jnp.matmul(kernel_VD, hidden_BD.T, **wide)).T
    else:
        return vocabulary_logits(hidden_BD, kernel_VD, size, banned=banned, bias=bias_V)
    if bias_V is not None:
        logits = logits + bias_V
    ids = jnp.arange(kernel_VD.shape[0])
    legal = ids < size if banned is None else (ids < size) & (ids != banned)
    return jnp.where(legal, logits, FORBIDDEN)


def transpose_kernel(kernel_VD: jax.Array, rows: int, steps: int) -> jax.Array | None:
    """The kernel as [D, V] for `step_logits`, if the copy pays over `steps` steps; else None.

    On CPU one row times [D, V] takes half as long as with [V, D]; the copy takes as long as forty steps.
    """
    if parallel.platform() != "cpu" or rows > 1 or steps < 64:
        return None
    return jax.lax.optimization_barrier(kernel_VD.T)


def default_chunk_rows(vocabulary: int) -> int:
    """Rows of a chunk: few on CPU; on devices with more memory, as many as have sixteen times the logits."""
    if parallel.platform() == "cpu":
        return max(1, min(CHUNK_ROWS, CHUNK_LOGITS // vocabulary))
    return max(1, 16 * CHUNK_LOGITS // vocabulary)


def log_prob(
    hidden_BTD: jax.Array,
    kernel_VD: jax.Array,
    targets_BT: jax.Array,
    *,
    size: int,
    allowed: Allowed | None = None,
    banned: int | None = None,
    chunk_rows: int | None = None,
    bias: jax.Array | None = None,
) -> jax.Array:
    """log p(target)[B, T] in float32, in chunks of rows; the backward pass recomputes each chunk.

    For a loss use `total_log_prob`, which needs one matrix product less.
    """

    @jax.checkpoint
    def chunk(rows: _Rows) -> jax.Array:
        own_allowed = None if allowed is None else Allowed(rows.classes, allowed.class_of)
        logits = vocabulary_logits(rows.hidden, kernel_VD, size, own_allowed, banned, bias=bias)
        return _pick(logits, rows.targets) - jax.nn.logsumexp(logits, axis=-1)

    chunk_rows = chunk_rows or default_chunk_rows(kernel_VD.shape[0])
    rows, length = _chunks(hidden_BTD, targets_BT, jnp.ones(targets_BT.shape, jnp.float32), allowed, chunk_rows)
    out = jax.lax.map(chunk, rows)
    return jnp.moveaxis(out, 0, 1).reshape(targets_BT.shape[0], -1)[:, :length]


def total_log_prob(
    hidden_BTD: jax.Array,
    kernel_VD: jax.Array,
    targets_BT: jax.Array,
    weights_BT: jax.Array,
    *,
    size: int,
    allowed: Allowed | None = None,
    banned: int | None = None,
    chunk_rows: int | None = None,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Σ weights · log p(target), a float32 scalar, with gradients to `hidden_BTD`, `kernel_VD` and `bias`[V].

    The weights are known in the forward pass, so each chunk's logits give loss and gradient at once: three matrix
    products instead of four, and nothing of size [B, T, V] for the backward pass. Positions of weight 0 are left out:
    where only answers are scored, they are most. Over a mesh each device gathers its part of the kernel once and
    processes its own rows and its own part of the vocabulary. The kernel's gradient is summed once at the end: within
    a chunk, no collective is larger than one number per position.
    """
    classes = None if allowed is None else allowed.classes
    class_of = None if allowed is None else allowed.class_of
    static, weights_BT = (size, banned, chunk_rows), weights_BT.astype(jnp.float32)
    return _total(static, hidden_BTD, kernel_VD, bias, targets_BT, weights_BT, classes, class_of, None)


def total_soft_log_prob(
    hidden_BTD: jax.Array,
    kernel_VD: jax.Array,
    teacher: Teacher,
    weights_BT: jax.Array,
    *,
    size: int,
    allowed: Allowed | None = None,
    banned: int | None = None,
    chunk_rows: int | None = None,
    bias: jax.Array | None = None,
) -> jax.Array:
    """Σ weights · Σ_v p(v) log q(v), q of `hidden_BTD`, p of `teacher`; as `total_log_prob`. p gets no gradient."""
    if allowed is not None:
        raise ValueError("total_soft_log_prob takes no grammar mask: pass allowed=None")
    static, weights_BT = (size, banned, chunk_rows), weights_BT.astype(jnp.float32)
    targets_BT = jnp.zeros(weights_BT.shape, jnp.int32)
    return _total(static, hidden_BTD, kernel_VD, bias, targets_BT, weights_BT, None, None, teacher)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _total(static, hidden, kernel, bias, targets, weights, classes, class_of, teacher):
    return _run(static, False, hidden, kernel, bias, targets, weights, classes, class_of, teacher)[0]


def _forward(static, hidden, kernel, bias, targets, weights, classes, class_of, teacher):
    total, *gradients = _run(static, True, hidden, kernel, bias, targets, weights, classes, class_of, teacher)
    return total, tuple(gradients)


def _run(static, gradients, hidden, kernel, bias, *arrays):
    """(total,) or (total, d hidden, d kernel, d bias), each device on its own rows and its part of the vocabulary."""
    if not parallel.can_spread(hidden.shape[0], kernel.shape[0]):
        return _sum(static, gradients, None, hidden, kernel, bias, *arrays)
    split = parallel.divides(kernel.shape[0], VOCABULARY)
    row_spec, vocabulary_spec = PartitionSpec(ROWS), PartitionSpec(VOCABULARY if split else TENSOR)
    classes_spec = None if arrays[2] is None else row_spec
    class_of_spec = None if arrays[3] is None else PartitionSpec(TENSOR)
    bias_spec = None if bias is None else vocabulary_spec
    teacher = arrays[4]
    teacher_spec: Any = None
    if teacher is not None:
        teacher_spec = teacher._replace(
            hidden=row_spec, kernel=vocabulary_spec, bias=None if teacher.bias is None else vocabulary_spec
        )
    out_specs = (PartitionSpec(), row_spec, vocabulary_spec, bias_spec) if gradients else (PartitionSpec(),)
    body = parallel.spread(
        partial(_sum, static, gradients, split),
        (row_spec, vocabulary_spec, bias_spec, row_spec, row_spec, classes_spec, class_of_spec, teacher_spec),
        out_specs,
    )
    return body(hidden, kernel, bias, *arrays)


def _sum(static, gradients, split, hidden, kernel, bias, targets, weights, classes, class_of, teacher):
    """As `_run`; `split` is None outside a mesh, else whether fsdp splits the vocabulary too."""
    size, banned, chunk_rows = static
    spread, first = split is not None, 0

    def gather(x) -> Any:
        return jax.lax.all_gather(x, "fsdp", axis=0, tiled=True) if split and x is not None else x

    # Cast before gathering: half the bytes.
    kernel_VD, bias = gather(kernel.astype(hidden.dtype)), gather(bias)
    if spread:
        first = jax.lax.axis_index(TENSOR) * kernel_VD.shape[0]
    all_rows = _Rows(hidden, targets, weights, classes, None if teacher is None else teacher.hidden)
    flat_rows = jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), all_rows)
    chunk_size = min(chunk_rows or default_chunk_rows(kernel_VD.shape[0]), targets.size)
    order, rank, n_scored = _scored_first(flat_rows.weights, chunk_size)
    if spread:
        n_scored = jax.lax.pmax(n_scored, ROWS)  # collectives in a loop need as many rounds on all devices
    if teacher is not None:
        teacher = teacher._replace(
            kernel=gather(teacher.kernel.astype(teacher.hidden.dtype)), bias=gather(teacher.bias)
        )

    def sum_parts(x):
        return jax.lax.psum(x, TENSOR) if spread else x

    def normalise(logits):
        if not spread:
            return jax.nn.logsumexp(logits, axis=-1)
        top = jax.lax.pmax(logits.max(-1), TENSOR)
        return top + jnp.log(sum_parts(jnp.exp(logits - top[..., None]).sum(-1)))

    def chunk(index, carry):
        start = index * chunk_size
        chosen = jax.lax.dynamic_slice(order, (start,), (chunk_size,))
        rows = jax.tree.map(lambda x: jnp.take(x, chosen, axis=0), flat_rows)
        # Behind the last position the order only pads its chunk.
        rows = rows._replace(weights=jnp.where(start + jnp.arange(chunk_size) < targets.size, rows.weights, 0.0))
        allowed = None if class_of is None else Allowed(rows.classes, class_of)
        logits = vocabulary_logits(rows.hidden, kernel_VD, size, allowed, banned, first, bias)
        normaliser = normalise(logits)
        if teacher is None:
            ids = first + jnp.arange(kernel_VD.shape[0])
            target_probs = rows.targets[..., None] == ids
            # At most one id of a row is its target, so this picks rather than sums.
            target = (
                sum_parts(jnp.where(target_probs, logits, 0.0).sum(-1)) if spread else _pick(logits, rows.targets)
            )
        else:
            assert rows.teacher is not None
            teacher_logits = vocabulary_logits(rows.teacher, teacher.kernel, size, None, banned, first, teacher.bias)
            target_probs = jnp.exp(teacher_logits - normalise(teacher_logits)[..., None])
            target = sum_parts((target_probs * logits).sum(-1))
        total = carry[0] + _weighted(target - normaliser, rows.weights).sum()
        if not gradients:
            return (total,)
        # d/dlogits of Σ w log p = w (onehot, or the teacher's softmax, − softmax); one fused pass over the chunk.
        d_logits = rows.weights[..., None] * (target_probs - jnp.exp(logits - normaliser[..., None]))
        d_bias = None if bias is None else carry[2] + d_logits.sum(0)
        d_logits = d_logits.astype(hidden.dtype)
        d_hidden = einsum("pv,vd->pd", d_logits, kernel_VD, preferred_element_type=jnp.float32)
        d_hidden = jax.lax.dynamic_update_slice(carry[3], d_hidden.astype(hidden.dtype), (start, 0))
        # [D, V]: then the compiler transposes the narrow one of the two factors.
        d_kernel = carry[1] + einsum("pd,pv->dv", rows.hidden, d_logits, preferred_element_type=jnp.float32)
        return (total, d_kernel, d_bias, d_hidden)

    no_bias = None if bias is None else jnp.zeros(bias.shape, jnp.float32)
    no_hidden = jnp.zeros((len(order), hidden.shape[-1]), hidden.dtype)
    zeros = (jnp.float32(0), jnp.zeros(kernel_VD.shape[::-1], jnp.float32), no_bias, no_hidden)
    # `numjax.plan` reads the first bound: how many rounds there are at most.
    n_chunks, most_chunks = -(-n_scored // chunk_size), len(order) // chunk_size
    _, (total, *d_arrays) = jax.lax.while_loop(
        lambda state: (state[0] < most_chunks) & (state[0] < n_chunks),
        lambda state: (state[0] + 1, chunk(*state)),
        (jnp.int32(0), zeros if gradients else zeros[:1]),
    )
    if spread:
        total = jax.lax.psum(total, ROWS)
    if not gradients:
        return (total,)
    d_kernel_DV, d_bias, d_scored = d_arrays
    assert d_kernel_DV is not None and d_scored is not None
    d_hidden, d_kernel = jnp.take(d_scored, rank, axis=0).reshape(hidden.shape), d_kernel_DV.T
    d_bias = None if d_bias is None else parallel.sum_rows(d_bias, split, jnp.float32)
    return total, sum_parts(d_hidden), parallel.sum_rows(d_kernel, split, hidden.dtype).astype(kernel.dtype), d_bias


def _backward(static, saved, cotangent):
    d_hidden, d_kernel, d_bias = saved
    return (
        (d_hidden.astype(jnp.float32) * cotangent).astype(d_hidden.dtype),
        d_kernel * cotangent.astype(d_kernel.dtype),
        None if d_bias is None else d_bias * cotangent.astype(d_bias.dtype),
        None,
        None,
        None,
        None,
        None,
    )


_total.defvjp(_forward, _backward)


def _scored_first(weights_N: jax.Array, chunk_size: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(the positions, those with a weight first, and at the end zeros that fill the last chunk, int32; the place of
    each position in this order, int32[N]; the number of those with a weight)."""
    rank, n_scored = scored.rank_scored_first(weights_N != 0)
    return scored.invert(rank, rank.size + -rank.size % chunk_size), rank, n_scored


def _pick(logits, targets):
    return jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]


def _weighted(gain, weights):
    # A target that the mask forbids has an infinite gain; if it is not scored, it must not become 0 · ∞.
    return jnp.where(weights == 0, 0.0, gain) * weights


def _chunks(hidden, targets, weights, allowed, chunk_rows):
    """(the inputs as chunks of T, each leaf [chunks, B, P, …], padded with weight 0; T)."""
    batch, length = targets.shape
    count = max(1, -(-length * batch // chunk_rows))
    positions = -(-length // min(count, length))
    rows = _Rows(hidden, targets, weights, None if allowed is None else allowed.classes)

    def split(x):
        x = jnp.pad(x, [(0, 0), (0, -length % positions)] + [(0, 0)] * (x.ndim - 2))
        return jnp.moveaxis(x.reshape(batch, -1, positions, *x.shape[2:]), 1, 0)

    return jax.tree.map(split, rows), length
