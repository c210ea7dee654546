"""AdamW, its schedules, clipping and decay, against a run of the documented formulas in float64."""

from __future__ import annotations

import math

import jax
import numpy as np
import optax
import pytest

from numjax.errors import UsageError
from numjax.train import optim

STEPS = 20
SHAPES = {
    "backbone": {"layer_0": {"up_kernel": (5, 7), "up_bias": (7,), "ln_1": {"scale": (5,)}}},
    "embeds_token": {"table": (11, 5)},
    "heads_next": {"kernel": (11, 5)},
}
PATHS = ["backbone/layer_0/ln_1/scale", "backbone/layer_0/up_bias", "backbone/layer_0/up_kernel"]
PATHS += ["embeds_token/table", "heads_next/kernel"]


def learning_rate(step: int, *, name: str, peak: float, warmup: int, floor: float) -> float:
    """Returns the rate: linear from 0 to the peak in the warm-up, then constant, linear or half a cosine to floor."""
    if step < warmup:
        return peak * step / warmup
    part = min((step - warmup) / (STEPS - warmup), 1)
    if name == "constant":
        return peak
    if name == "linear":
        return peak * (1 - part * (1 - floor))
    return peak * (floor + (1 - floor) * (1 + math.cos(math.pi * part)) / 2)


def adamw_float64(start, gradients, *, rate, betas, epsilon, clip, decay_of, factor_of):
    """Loshchilov and Hutter 2019, algorithm 2, with clipping by global norm: {path: float64} after all steps."""
    params = {path: value.astype(np.float64) for path, value in start.items()}
    first = {path: np.zeros(value.shape) for path, value in params.items()}
    second = {path: np.zeros(value.shape) for path, value in params.items()}
    for step, gradient in enumerate(gradients):
        active = {path: g.astype(np.float64) for path, g in gradient.items() if factor_of(path)}
        norm = math.sqrt(sum((g**2).sum() for g in active.values()))
        for path, g in active.items():
            if clip and norm > clip:
                g = g * clip / norm
            first[path] = betas[0] * first[path] + (1 - betas[0]) * g
            second[path] = betas[1] * second[path] + (1 - betas[1]) * g**2
            mean = first[path] / (1 - betas[0] ** (step + 1))
            variance = second[path] / (1 - betas[1] ** (step + 1))
            update = mean / (np.sqrt(variance) + epsilon) + decay_of(path) * params[path]
            params[path] = params[path] - rate(step) * factor_of(path) * update
    return params


def flatten(tree) -> dict[str, np.ndarray]:
    leaves = jax.tree.leaves(tree)
    return dict(zip(PATHS, map(np.asarray, leaves), strict=True))


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
@pytest.mark.parametrize(
    "case",
    [
        dict(),
        dict(clip=0.0),
        dict(betas=(0.5, 0.7), epsilon=1e-3, weight_decay=0.3),
        dict(warmup=0, floor=0.0),
        dict(rates=(("layer_0/up", 0.25), ("table", 0.0)), weight_decays=(("heads", 0.7),)),
    ],
    ids=["default", "no clipping", "betas", "no warm-up", "rates"],
)
def test_twenty_steps_follow_the_formulas(rng, schedule, case):
    options = dict(warmup=6, floor=0.1, weight_decay=0.2, betas=(0.9, 0.95), epsilon=1e-8, clip=1.5) | case
    is_shape = lambda x: isinstance(x, tuple)  # noqa: E731
    start = jax.tree.map(lambda shape: rng.normal(size=shape).astype(np.float32), SHAPES, is_leaf=is_shape)
    # Norms lie on both sides of the clip and have very different sizes.
    sizes = 10.0 ** rng.uniform(-2, 2, STEPS)
    gradients = [
        jax.tree.map(lambda x, size=size: (size * rng.normal(size=x.shape) / 10).astype(np.float32), start)
        for size in sizes
    ]
    rate = optim.schedule(schedule, 0.05, STEPS, options["warmup"], options["floor"])
    optimizer = optim.adamw(rate, **{name: x for name, x in options.items() if name not in ("warmup", "floor")})

    @jax.jit
    def step(params, state, gradient):
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    params, state = start, optimizer.init(start)
    for gradient in gradients:
        params, state = step(params, state, gradient)

    rates, decays = dict(options.pop("rates", ())), dict(options.pop("weight_decays", ()))
    schedule_options = dict(name=schedule, peak=0.05, warmup=options.pop("warmup"), floor=options.pop("floor"))
    decay = options.pop("weight_decay")

    def match_path(table, path, default):
        return next((value for word, value in table.items() if word in path), default)

    expected = adamw_float64(
        flatten(start),
        [flatten(gradient) for gradient in gradients],
        rate=lambda step: learning_rate(step, **schedule_options),
        decay_of=lambda path: match_path(decays, path, decay) if path.endswith("kernel") else 0.0,
        factor_of=lambda path: match_path(rates, path, 1.0),
        **options,
    )
    for path, value in flatten(params).items():
        np.testing.assert_allclose(value, expected[path], rtol=2e-5, atol=2e-6, err_msg=path)
    for index in (0, 1, 5, 6, 7, 13, 19):
        assert float(rate(index)) == pytest.approx(learning_rate(index, **schedule_options), rel=1e-5, abs=1e-9)


def test_an_unknown_schedule_is_refused():
    with pytest.raises(UsageError, match=r"optim\.schedule must be one of constant, cosine, linear, not 'step'"):
        optim.schedule("step", 0.1, 10)
