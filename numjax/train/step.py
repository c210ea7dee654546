"""The pure training and evaluation steps, and the training state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax

from numjax.errors import UsageError
from numjax.model import Model
from numjax.train.optim import frozen_mask
from numjax.types import Batch, Loss, TrainState

Metrics = dict[str, tuple[jax.Array, jax.Array]]


def compiler_options(platform: str) -> dict[str, Any] | None:
    """XLA compiler options for a training step on a platform.

    By default XLA's CPU compiler orders operations for concurrency. That gains nothing here, takes more memory, and
    runs the recomputation of `remat` so early that it saves none. On GPUs the option starts collectives earlier than
    the operations that wait for them. By default the TPU compiler turns gathers of parameters into loops of small
    products and transfers: for 1.3B parameters on 16 chips these send 35 GB per chip instead of 11.
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
    """A fresh state at step 0; with `teacher`, the teacher's parameters start as a copy of the model's."""
    params = init_params(model, batch, seed)
    return TrainState(
        jnp.int32(0), params, optimizer.init(params), jax.tree.map(jnp.copy, params) if teacher else None
    )


def find_teacher_objective(objectives: Mapping[str, Any]) -> Any:
    """The objective that has a momentum teacher (`momentum`, `each_microbatch`), or None.

    Raises:
      UsageError: several objectives have a teacher.
    """
    names = [name for name, objective in objectives.items() if objective.reads_teacher]
    if len(names) > 1:
        raise UsageError(f"objectives {' and '.join(names)} both have a teacher, and a run has one: keep one of them")
    return objectives[names[0]] if names else None


def weights_at(weights: Mapping[str, Any], step: jax.Array | None) -> dict[str, Any]:
    """Every objective's weight at a step; step None means the final value of a `Ramp`."""
    return {name: weight(step) if callable(weight) else weight for name, weight in weights.items()}


def losses(
    model: Model, objectives: Mapping[str, Any], params: Any, batch: Batch, key: jax.Array | None, ema: Any = None
) -> dict[str, Loss]:
    """Every objective's sums on a batch. Dropout is on if there is a key; the teacher `ema` has no dropout."""
    rngs = {} if key is None else {"dropout": key}
    outs, acts = model.apply({"params": params}, batch, deterministic=key is None, rngs=rngs)
    taught = None if ema is None else model.apply({"params": jax.lax.stop_gradient(ema)}, batch)[0]
    return _compute_losses(model, objectives, outs, acts, batch, key, taught)


def _compute_losses(
    model: Model,
    objectives: Mapping[str, Any],
    outs: Any,
    acts: Any,
    batch: Batch,
    key: jax.Array | None,
    taught: Any = None,
) -> dict[str, Loss]:
    loss_sums = {}
    for index, (name, objective) in enumerate(objectives.items()):
        extra: dict[str, Any] = {}
        if objective.draws:
            # A key of its own: an objective must not draw the numbers that dropout has drawn.
            extra["key"] = None if key is None else jax.random.fold_in(key, 2**31 - 1 - index)
        if objective.reads_teacher:
            if taught is None:  # evaluations have no teacher
                continue
            extra["taught"] = taught
        loss_sums[name] = objective(model.heads, outs, acts, batch, **extra)
    return loss_sums


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
    """(new state, metrics) after one optimiser step on `batch`, cut into `accumulate` microbatches of rows.

    The loss is Σ weight · (total / count) with totals and counts over the whole batch: the gradient is the same for
    any number of microbatches and any sharding. Counts depend on the data alone. With several microbatches, a pass
    over the whole batch computes them; the compiler drops its forward computation as dead code. A pass for each
    microbatch would put collectives into a loop beside those that gather the parameters: nothing orders the two, so
    the CPU devices of one process would wait for each other forever.

    A teacher is updated before its outputs are computed: once a step, or with each microbatch. Parameters that
    `rates` freeze (see `optim.adamw`) get no gradient.
    """
    key = jax.random.fold_in(jax.random.key(seed), state.step)
    weights, teacher = weights_at(weights, state.step), find_teacher_objective(objectives)
    each_microbatch = teacher is not None and teacher.each_microbatch

    def update_teacher(ema):
        tau = teacher.momentum  # type: ignore[union-attr]
        return jax.tree.map(lambda mean, new: tau * mean + (1 - tau) * new, ema, state.params)

    def weighted_loss(params, batch, key, ema, counts=None):
        if any(factor == 0 for _, factor in rates):
            constant_params = jax.lax.stop_gradient(params)
            params = jax.tree.map(
                lambda is_frozen, a, b: a if is_frozen else b, frozen_mask(params, rates), constant_params, params
            )
        loss_sums = losses(model, objectives, params, batch, key, ema)
        counts = counts or {name: loss.count for name, loss in loss_sums.items()}
        total = sum(weights[n] * loss.total / jnp.maximum(counts[n], 1) for n, loss in loss_sums.items())
        return total, loss_sums

    value_and_grad = jax.value_and_grad(weighted_loss, has_aux=True)
    ema = state.ema if teacher is None or (each_microbatch and accumulate > 1) else update_teacher(state.ema)
    if accumulate == 1:
        (_, loss_sums), grads = value_and_grad(state.params, batch, jax.random.fold_in(key, 0), ema)
    else:
        # Every accumulate-th row, so that each microbatch spans all devices of a sharded batch.
        micro = jax.tree.map(lambda x: jnp.moveaxis(x.reshape(-1, accumulate, *x.shape[1:]), 1, 0), batch)
        keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(jnp.arange(accumulate))
        batch_losses = losses(model, objectives, state.params, batch, key, ema)
        counts = {name: loss.count for name, loss in batch_losses.items()}

        def add(carry, inputs):
            sums_so_far, teacher_params = carry
            teacher_params = update_teacher(teacher_params) if each_microbatch else teacher_params
            (_, loss_sums), grads = value_and_grad(
                state.params, *inputs, teacher_params if each_microbatch else ema, counts
            )
            return (jax.tree.map(jnp.add, sums_so_far, (grads, loss_sums)), teacher_params), None

        first = jax.tree.map(lambda x: x[0], (micro, keys))
        (_, loss_sums), grads = jax.eval_shape(value_and_grad, state.params, *first, ema, counts)
        zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), (grads, loss_sums))
        ((grads, loss_sums), last), _ = jax.lax.scan(add, (zeros, ema if each_microbatch else None), (micro, keys))
        ema = last if each_microbatch else ema

    updates, opt_state = optimizer.update(grads, state.opt_state, state.params)
    params = optax.apply_updates(state.params, updates)
    one = jnp.float32(1)
    metrics = sums(loss_sums, weights) | {
        "grad_norm": (optax.tree.norm(grads), one),
        "learning_rate": (jnp.asarray(rate(state.step), jnp.float32), one),
    }
    return TrainState(state.step + 1, params, opt_state, ema), metrics


def eval_step(model: Model, objectives: Mapping[str, Any], weights: Mapping[str, Any], params: Any, batch: Batch):
    """(metric sums, head name → prediction for each row) on a batch, without dropout, without teachers, and with the
    final weights. If a teacher leaves only one objective, its weight is 1: its loss then compares with that of runs
    without a teacher."""
    outs, acts = model.apply({"params": params}, batch)
    loss_sums = _compute_losses(model, objectives, outs, acts, batch, None)
    predictions = {
        name: head.log_probs(outs[name]) for name, head in model.heads.items() if head.provides("log_probs")
    }
    predictions |= {name: head.best(outs[name]) for name, head in model.heads.items() if head.provides("best")}
    is_only = len(loss_sums) == 1 and len(objectives) > 1
    return sums(loss_sums, dict.fromkeys(loss_sums, 1.0) if is_only else weights_at(weights, None)), predictions


def sums(loss_sums: Mapping[str, Loss], weights: Mapping[str, Any]) -> Metrics:
    """Metric sums of the objectives: "loss" (weighted), "NAME" if there are several, and "NAME/PART"."""
    one = jnp.float32(1)
    total = sum(weights[n] * loss.total / jnp.maximum(loss.count, 1) for n, loss in loss_sums.items())
    out: Metrics = {"loss": (jnp.asarray(total, jnp.float32), one)}
    if len(loss_sums) == 1:
        ((name, only),) = loss_sums.items()
        out["loss"] = (only.total * weights[name], only.count)
    for name, loss in loss_sums.items():
        if len(loss_sums) > 1:
            out[name] = (loss.total, loss.count)
        out |= {f"{name}/{part}": pair for part, pair in loss.parts.items()}
    return out
