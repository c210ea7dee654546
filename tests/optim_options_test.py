"""What the optimiser does when options are left out, and its options at their bounds, against float64."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numjax.errors import UsageError
from numjax.train import optim

RATE = optim.schedule("constant", 0.05, 10)
PARAMS = {"a": {"up_kernel": (3, 2), "up_bias": (2,)}, "b": {"kernel": (4,)}}
IS_KERNEL = {"a/up_kernel": True, "a/up_bias": False, "b/kernel": True}


def draw(rng, scale=1.0):
    """{path: values} of all parameters."""
    return {path: scale * rng.normal(size=PARAMS[path[0]][path[2:]]).astype(np.float32) for path in IS_KERNEL}


def nest(flat):
    return {"a": {name: flat[f"a/{name}"] for name in PARAMS["a"]}, "b": {"kernel": flat["b/kernel"]}}


def train(optimizer, start, gradients):
    params = nest(start)
    state = optimizer.init(params)
    for gradient in gradients:
        updates, state = optimizer.update(nest(gradient), state, params)
        params = optax.apply_updates(params, updates)
    return {
        "a/up_kernel": params["a"]["up_kernel"],
        "a/up_bias": params["a"]["up_bias"],
        "b/kernel": params["b"]["kernel"],
    }


def adamw(start, gradients, rate, *, first=0.9, second=0.95, epsilon=1e-8, decay_of=lambda path: 0.1, clip=1.0):
    """AdamW in float64 with the defaults that `optim.adamw` documents in its signature."""
    params = {path: value.astype(np.float64) for path, value in start.items()}
    means, squares = (dict.fromkeys(params, 0.0) for _ in range(2))
    for step, gradient in enumerate(gradients, 1):
        norm = math.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in gradient.values()))
        for path, g in gradient.items():
            g = g.astype(np.float64) * (min(1, clip / norm) if clip else 1)
            means[path] = first * means[path] + (1 - first) * g
            squares[path] = second * squares[path] + (1 - second) * g**2
            update = means[path] / (1 - first**step) / (np.sqrt(squares[path] / (1 - second**step)) + epsilon)
            params[path] = params[path] - rate * (update + IS_KERNEL[path] * decay_of(path) * params[path])
    return params


def check(actual, wanted):
    for path, value in wanted.items():
        np.testing.assert_allclose(actual[path], value, rtol=2e-5, atol=2e-6, err_msg=path)


def test_options_that_are_left_out_have_the_documented_values(rng):
    start, gradients = draw(rng), [draw(rng, scale) for scale in (2.0, 0.01, 5.0)]
    check(train(optim.adamw(RATE), start, gradients), adamw(start, gradients, 0.05))


def test_a_kernels_own_decay_changes_neither_epsilon_nor_the_others(rng):
    start, gradients = draw(rng), [draw(rng, 0.1) for _ in range(3)]
    optimizer = optim.adamw(RATE, epsilon=0.3, weight_decays=(("^b", 0.6), ("kernel", 0.2)))
    wanted = adamw(start, gradients, 0.05, epsilon=0.3, decay_of=lambda path: 0.6 if path[0] == "b" else 0.2)
    check(train(optimizer, start, gradients), wanted)


def test_factors_without_a_zero_scale_every_update_and_freeze_none(rng):
    start, gradients = draw(rng), [draw(rng) for _ in range(3)]
    whole = adamw(start, gradients[:1], 0.05)
    moved = train(optim.adamw(RATE, rates=(("up", 0.5), ("bias", 0.1))), start, gradients[:1])
    for path, factor in {"a/up_kernel": 0.5, "a/up_bias": 0.5, "b/kernel": 1.0}.items():
        wanted = start[path] + factor * (whole[path] - start[path])
        np.testing.assert_allclose(moved[path], wanted, rtol=2e-5, atol=2e-6, err_msg=path)


@pytest.mark.parametrize(
    ("rates", "frozen"),
    [
        ((), ()),
        ((("a/", 0),), ("a/up_kernel", "a/up_bias")),
        ((("kernel", 0.0), ("", 2)), ("a/up_kernel", "b/kernel")),
    ],
)
def test_frozen_values_are_counted_and_stay(rng, rates, frozen):
    start = draw(rng)
    assert optim.count_frozen(nest(start), rates) == sum(start[path].size for path in frozen)
    moved = train(optim.adamw(RATE, rates=rates), start, [draw(rng)])
    assert {path for path in start if (moved[path] == start[path]).all()} == {*frozen}


LAYERS = {"backbone": {"layers": {"up_kernel": np.zeros((3, 2, 2))}, "ln_scale": np.zeros(2)}}


@pytest.mark.parametrize(
    ("pattern", "factors"),
    [
        ("backbone/layer_[0-2]/", [0.5, 1]),
        ("^backbone/", [0.5, 0.5]),
        ("ln_scale", [1, 0.5]),
        ("up_kernel$", [0.5, 1]),
    ],
)
def test_stacked_layers_have_the_paths_of_single_ones(pattern, factors):
    assert sorted(jax.tree.leaves(optim.rate_factors(LAYERS, ((pattern, 0.5),)))) == sorted(factors)
    assert optim.find_unmatched(LAYERS, ((pattern, 0.5), ("backbone/layer_3/", 0), ("/layers/", 0))) == [
        "backbone/layer_3/",
        "/layers/",
    ]


def test_one_of_several_stacked_layers_has_no_factor_of_its_own():
    with pytest.raises(UsageError, match=r"part the layers of backbone/layers/up_k.*: set config\.backbone\.scan"):
        optim.rate_factors(LAYERS, (("backbone/layer_1/", 0.0),))


@pytest.mark.parametrize("name", optim.SCHEDULES)
def test_schedules_without_options_start_at_the_peak_and_end_at_zero(name):
    rate = optim.schedule(name, 0.2, 8)
    for step in range(11):
        part = min(step / 8, 1)
        shape = {"constant": 1, "linear": 1 - part, "cosine": (1 + math.cos(math.pi * part)) / 2}[name]
        assert float(rate(step)) == pytest.approx(0.2 * shape, abs=1e-7)


@pytest.mark.parametrize("name", optim.SCHEDULES)
def test_a_warm_up_as_long_as_the_run_only_rises(name):
    rate = optim.schedule(name, 0.2, 8, warmup=8)
    np.testing.assert_allclose([rate(jnp.asarray(step)) for step in range(9)], 0.2 * np.arange(9) / 8, rtol=1e-6)


def test_default_factors_are_one():
    params = nest({path: np.zeros(1) for path in IS_KERNEL})
    assert jax.tree.leaves(optim.rate_factors(params, (("bias", 3),))) == [3.0, 1.0, 1.0]
