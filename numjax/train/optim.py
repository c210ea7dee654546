"""Optimisers and learning-rate schedules, from optax."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from numjax.errors import UsageError
from numjax.runtime.shard import path_name
from numjax.train.checkpoint import STACKED

SCHEDULES = ("constant", "cosine", "linear")


def check_schedule(name: str) -> None:
    """Raises UsageError if there is no such schedule."""
    if name not in SCHEDULES:
        raise UsageError(f"optim.schedule must be one of {', '.join(SCHEDULES)}, not {name!r}")


def schedule(name: str, peak: float, steps: int, warmup: int = 0, floor: float = 0.0) -> Callable[[Any], Any]:
    """Linear warm-up to `peak` over `warmup` steps, then constant, or cosine or linear decay to floor·peak."""
    check_schedule(name)
    rest = max(1, steps - warmup)
    if name == "constant":
        main = optax.constant_schedule(peak)
    elif name == "cosine":
        main = optax.cosine_decay_schedule(peak, rest, alpha=floor)
    else:
        main = optax.linear_schedule(peak, floor * peak, rest)
    if warmup == 0:
        return main
    return optax.join_schedules([optax.linear_schedule(0.0, peak, warmup), main], [warmup])


def list_rates(options: Any, steps: int) -> np.ndarray:
    """float32[steps]: the learning rate of each step, by the config's block `optim`. The compiled step takes it as an
    input: whoever changes the learning rate, its schedule or the number of steps compiles nothing again."""
    rate = schedule(options.schedule, options.learning_rate, steps, options.warmup, options.floor)
    return np.asarray(jax.jit(jax.vmap(lambda step: jnp.asarray(rate(step), jnp.float32)))(jnp.arange(steps)))


def decay_mask(params: Any) -> Any:
    """The parameters that weight decay applies to: True for kernels, False for tables, biases, norms and shared
    vectors."""
    return jax.tree_util.tree_map_with_path(lambda path, _: path_name(path).endswith("kernel"), params)


def rate_factors(params: Any, rates: Sequence[tuple[str, float]], default: float = 1.0) -> Any:
    """For each parameter the factor of the first (path regex, factor) whose regex matches within its path, such as
    "backbone/layer_0/up_kernel"; else the default. The paths are the same where layers are stacked in memory.

    Raises:
      UsageError: layers that are stacked have several factors.
    """

    def factor(path: Any, x: Any) -> float:
        names = _list_paths(path_name(path), x)
        factors = {
            next((float(value) for pattern, value in rates if re.search(pattern, name)), default) for name in names
        }
        if len(factors) > 1:
            raise UsageError(
                f"optim.rates or optim.weight_decays part the layers of {path_name(path)}, which are one array with "
                "backbone.scan=True: set config.backbone.scan=False"
            )
        return factors.pop()

    return jax.tree_util.tree_map_with_path(factor, params)


def find_unmatched(params: Any, rates: Sequence[tuple[str, float]]) -> list[str]:
    """The patterns that match the path of no parameter."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    names = [name for path, x in leaves for name in _list_paths(path_name(path), x)]
    return [pattern for pattern, _ in rates if not any(re.search(pattern, name) for name in names)]


def _list_paths(name: str, x: Any) -> list[str]:
    """The paths on disk of a parameter: of stacked layers one for each layer."""
    head, stacked, tail = name.partition(f"/{STACKED}/")
    return [f"{head}/layer_{i}/{tail}" for i in range(x.shape[0])] if stacked else [name]


def frozen_mask(params: Any, rates: Sequence[tuple[str, float]]) -> Any:
    """The frozen parameters: True where the factor is 0."""
    return jax.tree.map(lambda factor: factor == 0, rate_factors(params, rates))


def count_frozen(params: Any, rates: Sequence[tuple[str, float]]) -> int:
    """Number of frozen values in all parameters."""
    sizes = jax.tree.map(lambda x, is_frozen: x.size * is_frozen, params, frozen_mask(params, rates))
    return sum(jax.tree.leaves(sizes))


def scale_updates(rates: Sequence[tuple[str, float]]) -> optax.GradientTransformation:
    """A transformation that multiplies a parameter's update by its factor."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        return jax.tree.map(jnp.multiply, updates, rate_factors(updates, rates)), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def add_weight_decay(weight_decay: float, weight_decays: Sequence[tuple[str, float]]) -> optax.GradientTransformation:
    """A transformation that adds weight · decay to the updates of kernels. The decay is that of the first pattern in
    `weight_decays` that matches the path, else `weight_decay`."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        weights = rate_factors(params, weight_decays, weight_decay)
        new_updates = jax.tree.map(
            lambda u, p, w, is_kernel: u + w * p if is_kernel else u, updates, params, weights, decay_mask(params)
        )
        return new_updates, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def adamw(
    rate: Callable[[Any], Any],
    *,
    weight_decay: float = 0.1,
    betas: tuple[float, float] = (0.9, 0.95),
    epsilon: float = 1e-8,
    clip: float = 1.0,
    rates: Sequence[tuple[str, float]] = (),
    weight_decays: Sequence[tuple[str, float]] = (),
) -> optax.GradientTransformation:
    """AdamW after clipping by global norm. `clip` 0 turns clipping off.

    Args:
      rate: the learning rate by step, such as a `schedule`.
      rates: (path regex, factor of the learning rate), see `rate_factors`. Parameters with factor 0 are frozen: they
        have no optimiser state and do not count in the gradient norm.
      weight_decays: (path regex, weight decay) of kernels with another decay; the rate's factor applies to it too.
    """
    if weight_decays:
        adam = optax.scale_by_adam(*betas, eps=epsilon)
        inner = optax.chain(adam, add_weight_decay(weight_decay, weight_decays), optax.scale_by_learning_rate(rate))
    else:
        inner = optax.adamw(rate, b1=betas[0], b2=betas[1], eps=epsilon, weight_decay=weight_decay, mask=decay_mask)
    inner = optax.chain(optax.clip_by_global_norm(clip), inner) if clip else inner
    if not rates:
        return inner
    kinds: Any = {False: optax.chain(inner, scale_updates(rates)), True: optax.set_to_zero()}
    if all(float(factor) for _, factor in rates):
        return kinds[False]
    return optax.multi_transform(kinds, lambda params: frozen_mask(params, rates))
