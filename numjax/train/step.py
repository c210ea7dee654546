"""The pure train and evaluation steps, and the state that they move."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from numjax.errors import UsageError
from numjax.model import Model
from numjax.train.optim import freezes
from numjax.types import Batch, Loss, TrainState

Metrics = dict[str, tuple[jax.Array, jax.Array]]


def compiler_options(platform: str) -> dict[str, Any] | None:
    """What to compile a training step for a platform with.

    XLA's CPU compiler orders for concurrency otherwise: that gains nothing here, takes more memory, and runs what
    `remat` would put off so early that it saves none. On GPUs collectives are moved away from what waits for them.
    The TPU compiler otherwise turns gathers of parameters into loops of small products and transfers: for 1.3B
    parameters on 16 chips these send 35 GB a chip instead of 11.
    """
    return {
        "cpu": {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"},
        "gpu": {"xla_gpu_enable_latency_hiding_scheduler": True},
        "tpu": {"xla_jf_spmd_threshold_for_windowed_einsum_mib": 1 << 20},
    }.get(platform)


def init_params(model: Model, batch: Batch, seed: jax.Array | int) -> Any:
    """Parameters for batches like `batch`, as nested dicts."""
    # Step keys are fold_in(seed, step ≥ 0); the largest index keeps initialisation apart from them.
    key = jax.random.fold_in(jax.random.key(seed), 2**31 - 1)
    return model.init({"params": key}, batch)["params"]


def init_state(
    model: Model, optimizer: optax.GradientTransformation, batch: Batch, seed: jax.Array | int, teacher: bool = False
) -> TrainState:
    """A fresh state at step 0; with a `teacher`, which starts out as the student."""
    params = init_params(model, batch, seed)
    return TrainState(
        jnp.int32(0), params, optimizer.init(params), jax.tree.map(jnp.copy, params) if teacher else None
    )


def teaching(objectives: Mapping[str, Any]) -> Any:
    """The objective that has a momentum teacher (`momentum`, `each_microbatch`), or None.

    Raises:
      UsageError: several have.
    """
    found = [name for name, objective in objectives.items() if objective.reads_teacher]
    if len(found) > 1:
        raise UsageError(f"objectives {' and '.join(found)} both have a teacher, and there is one")
    return objectives[found[0]] if found else None


def weights_at(weights: Mapping[str, Any], step: jax.Array | None) -> dict[str, Any]:
    """Every objective's weight at a step; None for the end of those that change."""
    return {name: weight(step) if callable(weight) else weight for name, weight in weights.items()}


def losses(
    model: Model, objectives: Mapping[str, Any], params: Any, batch: Batch, key: jax.Array | None, ema: Any = None
) -> dict[str, Loss]:
    """Every objective's sums on a batch. Dropout is on when a key is given; the teacher `ema` has none."""
    rngs = {} if key is None else {"dropout": key}
    outs, acts = model.apply({"params": params}, batch, deterministic=key is None, rngs=rngs)
    taught = None if ema is None else model.apply({"params": jax.lax.stop_gradient(ema)}, batch)[0]
    return _each(model, objectives, outs, acts, batch, key, taught)


def _each(
    model: Model,
    objectives: Mapping[str, Any],
    outs: Any,
    acts: Any,
    batch: Batch,
    key: jax.Array | None,
    taught: Any = None,
) -> dict[str, Loss]:
    found = {}
    for place, (name, objective) in enumerate(objectives.items()):
        more: dict[str, Any] = {}
        if objective.draws:
            # Its own key: one that draws must not draw what dropout has drawn.
            more["key"] = None if key is None else jax.random.fold_in(key, 2**31 - 1 - place)
        if objective.reads_teacher:
            if taught is None:  # evaluations have no teacher
                continue
            more["taught"] = taught
        found[name] = objective(model.heads, outs, acts, batch, **more)
    return found


def train_step(
    model: Model,
    objectives: Mapping[str, Any],
    weights: Mapping[str, Any],
    optimizer: optax.GradientTransformation,
    rate: Callable[[Any], Any],
    accumulate: int,
    seed: jax.Array | int,
    state: TrainState,
    batch: Batch,
    rates: Sequence[tuple[str, float]] = (),
) -> tuple[TrainState, Metrics]:
    """One optimiser step on `batch`, cut into `accumulate` microbatches of rows.

    The loss is Σ weight · (total / count) with totals and counts over the whole batch: the same gradient for
    any number of microbatches and any sharding. Counts depend on the data alone, so with several
    microbatches a pass over the whole batch, whose forward computation the compiler drops as dead code, finds
    them. A pass for each microbatch would put collectives into a loop beside those that gather the parameters:
    nothing orders the two, and CPU devices of one process then wait for each other for ever.

    A teacher moves towards the parameters before it is asked: once a step, or with each microbatch. To
    parameters that `rates` freeze (see `optim.adamw`) nothing is carried back.
    """
    key = jax.random.fold_in(jax.random.key(seed), state.step)
    weights, teacher = weights_at(weights, state.step), teaching(objectives)
    often = teacher is not None and teacher.each_microbatch

    def moved(ema):
        tau = teacher.momentum  # type: ignore[union-attr]
        return jax.tree.map(lambda mean, new: tau * mean + (1 - tau) * new, ema, state.params)

    def weighted(params, batch, key, ema, counts=None):
        if any(factor == 0 for _, factor in rates):
            held = jax.lax.stop_gradient(params)
            params = jax.tree.map(lambda stays, a, b: a if stays else b, freezes(params, rates), held, params)
        found = losses(model, objectives, params, batch, key, ema)
        counts = counts or {name: loss.count for name, loss in found.items()}
        total = sum(weights[n] * loss.total / jnp.maximum(counts[n], 1) for n, loss in found.items())
        return total, found

    value_and_grad = jax.value_and_grad(weighted, has_aux=True)
    ema = state.ema if teacher is None or (often and accumulate > 1) else moved(state.ema)
    if accumulate == 1:
        (_, found), grads = value_and_grad(state.params, batch, jax.random.fold_in(key, 0), ema)
    else:
        # Every accumulate-th row, so that each microbatch spans all devices of a sharded batch.
        micro = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(-1, accumulate, *x.shape[1:]), 1, 0), batch)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(accumulate))
        whole = losses(model, objectives, state.params, batch, key, ema)
        counts = {name: loss.count for name, loss in whole.items()}

        def add(carry, inputs):
            sums_so_far, mine = carry
            mine = moved(mine) if often else mine
            (_, found), grads = value_and_grad(state.params, *inputs, mine if often else ema, counts)
            return (jax.tree.map(jnp.add, sums_so_far, (grads, found)), mine), None

        first = jax.tree.map(lambda x: x[0], (micro, keys))
        (_, found), grads = jax.eval_shape(value_and_grad, state.params, *first, ema, counts)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), (grads, found))
        ((grads, found), last), _ = jax.lax.scan(add, (zeros, ema if often else None), (micro, keys))
        ema = last if often else ema

    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    one = jnp.float32(1)
    metrics = sums(found, weights) | {
        "grad_norm": (optax.tree.norm(grads), one),
        "learning_rate": (jnp.asarray(rate(state.step), jnp.float32), one),
    }
    return TrainState(state.step + 1, params, opt_state, ema), metrics


def eval_step(model: Model, objectives: Mapping[str, Any], weights: Mapping[str, Any], params: Any, batch: Batch):
    """(metric sums, what each classifier says) on a batch, without dropout, without what a teacher says, and with the
    weights that are reached in the end. The only objective beside a teacher's is not weighed: its loss then compares
    with that of runs without a teacher."""
    outs, acts = model.apply({"params": params}, batch)
    found = _each(model, objectives, outs, acts, batch, None)
    said = {name: head.log_probs(outs[name]) for name, head in model.heads.items() if head.provides("log_probs")}
    said |= {name: head.best(outs[name]) for name, head in model.heads.items() if head.provides("best")}
    alone = len(found) == 1 and len(objectives) > 1
    return sums(found, dict.fromkeys(found, 1.0) if alone else weights_at(weights, None)), said


def sums(found: Mapping[str, Loss], weights: Mapping[str, Any]) -> Metrics:
    """Objectives' sums by name: "loss" (weighted), "NAME" where there are several, and "NAME/PART"."""
    one = jnp.float32(1)
    total = sum(weights[n] * loss.total / jnp.maximum(loss.count, 1) for n, loss in found.items())
    out: Metrics = {"loss": (jnp.asarray(total, jnp.float32), one)}
    if len(found) == 1:
        ((name, only),) = found.items()
        out["loss"] = (only.total * weights[name], only.count)
    for name, loss in found.items():
        if len(found) > 1:
            out[name] = (loss.total, loss.count)
        out |= {f"{name}/{part}": pair for part, pair in loss.parts.items()}
    return out
