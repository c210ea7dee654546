"""Optimisers and learning-rate schedules, from optax."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import optax
import optax.contrib

from numjax.errors import UsageError
from numjax.shard import path_name

SCHEDULES = ("constant", "cosine", "linear")
# Kernels with an axis of heads, see `backbone/` and `nn/attention.py`.
PER_HEAD = ("/qkv_kernel", "/q_kernel", "/kv_kernel")


def schedule(name: str, peak: float, steps: int, warmup: int = 0, floor: float = 0.0) -> Callable[[Any], Any]:
    """Linear warm-up to `peak` over `warmup` steps, then constant, or cosine or linear decay to floor·peak."""
    rest = max(1, steps - warmup)
    if name == "constant":
        main = optax.constant_schedule(peak)
    elif name == "cosine":
        main = optax.cosine_decay_schedule(peak, rest, alpha=floor)
    elif name == "linear":
        main = optax.linear_schedule(peak, floor * peak, rest)
    else:
        raise UsageError(f"optim.schedule must be one of {', '.join(SCHEDULES)}, not {name!r}")
    if warmup == 0:
        return main
    return optax.join_schedules([optax.linear_schedule(0.0, peak, warmup), main], [warmup])


@dataclasses.dataclass(frozen=True)
class Ramp:
    """A number that goes from `start` to `end` in a straight line over `steps` steps, and stays there."""

    start: float
    end: float
    steps: int

    def __call__(self, step: jax.Array | None) -> Any:
        """Its value at a step; None for the end."""
        if step is None or self.steps <= 0:
            return self.end
        return self.start + (self.end - self.start) * jnp.minimum(step / self.steps, 1)


def decays(params: Any) -> Any:
    """True for kernels: weight decay leaves tables, biases, norms and shared vectors alone."""
    return jax.tree_util.tree_map_with_path(lambda path, _: path_name(path).endswith("kernel"), params)


def factors(params: Any, rates: Sequence[tuple[str, float]], default: float = 1.0) -> Any:
    """For each parameter the factor of the first (path regex, factor) whose regex is found in its path, such as
    "backbone/layer_0/up_kernel"; else the default."""

    def factor(path: Any, _: Any) -> float:
        name = path_name(path)
        return next((float(value) for pattern, value in rates if re.search(pattern, name)), default)

    return jax.tree_util.tree_map_with_path(factor, params)


def freezes(params: Any, rates: Sequence[tuple[str, float]]) -> Any:
    """True for parameters whose factor is 0."""
    return jax.tree.map(lambda factor: factor == 0, factors(params, rates))


def frozen(params: Any, rates: Sequence[tuple[str, float]]) -> int:
    """How many numbers of all parameters stay as they are."""
    sizes = jax.tree.map(lambda x, stays: x.size * stays, params, freezes(params, rates))
    return sum(jax.tree.leaves(sizes))


def scaled(rates: Sequence[tuple[str, float]]) -> optax.GradientTransformation:
    """Multiplies a parameter's update by its factor."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        del params
        return jax.tree.map(jnp.multiply, updates, factors(updates, rates)), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def decayed(weight_decay: float, weight_decays: Sequence[tuple[str, float]]) -> optax.GradientTransformation:
    """Adds to the updates of kernels their weights times `weight_decay`, or times what the path has of its own."""

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        weights = factors(params, weight_decays, weight_decay)
        added = jax.tree.map(
            lambda u, p, w, kernel: u + w * p if kernel else u, updates, params, weights, decays(params)
        )
        return added, state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)


def matrices(params: Any) -> Any:
    """For each parameter the axes by which it is a matrix (`optax.contrib.MuonDimensionNumbers`); None for those that are
    none: tables, biases, norms, and the heads', of which each row is a vector of its own.

    The axes are those of `backbone/`: kernels of heads [D, …, H, E] turn D into H · E, all others [D, F]; what stands
    before or between counts each for itself.
    """

    def axes(path: Any, param: Any) -> Any:
        name = path_name(path)
        if not (name.startswith("backbone/") and name.endswith("kernel") and param.ndim > 1):
            return None
        if name.endswith(PER_HEAD):
            first = 0 if param.ndim == (3 if name.endswith("/q_kernel") else 4) else 1
            return optax.contrib.MuonDimensionNumbers(first, (param.ndim - 2, param.ndim - 1))
        return optax.contrib.MuonDimensionNumbers(param.ndim - 2, param.ndim - 1)

    return jax.tree_util.tree_map_with_path(axes, params)


def _adamw(rate, weight_decay, weight_decays, betas, epsilon) -> optax.GradientTransformation:
    if weight_decays:
        adam = optax.scale_by_adam(*betas, eps=epsilon)
        return optax.chain(adam, decayed(weight_decay, weight_decays), optax.scale_by_learning_rate(rate))
    return optax.adamw(rate, b1=betas[0], b2=betas[1], eps=epsilon, weight_decay=weight_decay, mask=decays)


def _muon(rate, weight_decay, weight_decays, betas, epsilon) -> optax.GradientTransformation:
    """Matrices by Muon (Jordan et al. 2024), with updates as large as AdamW's (Liu et al. 2025, section 2.2): the learning
    rate is that of AdamW, which has the rest, without weight decay."""
    if weight_decays:
        raise UsageError("optim.weight_decays are AdamW's: set optim.name=adamw, or leave them out")
    adam = dict(adam_b1=betas[0], adam_b2=betas[1], eps=epsilon)
    return optax.contrib.muon(
        rate,
        weight_decay=weight_decay,
        consistent_rms=0.2,
        muon_weight_dimension_numbers=matrices,
        **adam,
    )


OPTIMISERS = {"adamw": _adamw, "muon": _muon}


def optimiser(
    name: str,
    learning_rate: float,
    steps: int,
    *,
    schedule_name: str = "constant",
    warmup: int = 0,
    floor: float = 0.0,
    weight_decay: float = 0.1,
    betas: tuple[float, float] = (0.9, 0.95),
    epsilon: float = 1e-8,
    clip: float = 1.0,
    rates: Sequence[tuple[str, float]] = (),
    weight_decays: Sequence[tuple[str, float]] = (),
) -> tuple[optax.GradientTransformation, Callable[[Any], Any]]:
    """(the optimiser behind clipping by global norm, its schedule). `clip` 0 turns clipping off.

    Args:
      name: "adamw" or "muon".
      rates: (path regex, factor of the learning rate), see `factors`. Parameters with factor 0 stay as they are: they
        have no state and no share in the norm.
      weight_decays: (path regex, weight decay) of kernels that have another; the rate's factor counts for it too.

    Raises:
      UsageError: no optimiser or schedule has this name.
    """
    if name not in OPTIMISERS:
        raise UsageError(f"optim.name must be one of {', '.join(OPTIMISERS)}, not {name!r}")
    rate = schedule(schedule_name, learning_rate, steps, warmup, floor)
    inner = OPTIMISERS[name](rate, weight_decay, weight_decays, betas, epsilon)
    inner = optax.chain(optax.clip_by_global_norm(clip), inner) if clip else inner
    if not rates:
        return inner, rate
    kinds: Any = {False: optax.chain(inner, scaled(rates)), True: optax.set_to_zero()}
    if all(float(factor) for _, factor in rates):
        return kinds[False], rate
    return optax.multi_transform(kinds, lambda params: freezes(params, rates)), rate
