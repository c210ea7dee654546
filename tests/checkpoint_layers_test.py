"""Layers on disk and in memory: one entry each, and stacked, as inverses, in any tree."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from numjax.train import optim
from numjax.train.checkpoint import is_stacked, split_layers, stack_layers


class State(NamedTuple):
    params: dict
    moments: tuple


def tree(rng, n_layers):
    """Parameters with stacked layers, and an optimiser's state of the same form in tuples and lists."""

    def params():
        layers = {"up_kernel": rng.normal(size=(n_layers, 3, 2)), "ln": {"scale": rng.normal(size=(n_layers, 5))}}
        return {"backbone": {"layers": layers, "ln_scale": rng.normal(size=4)}, "table": rng.normal(size=(6, 2))}

    return State(params(), (params(), [params(), np.float64(3)]))


@pytest.mark.parametrize("n_layers", [1, 2, 12])
def test_layers_come_apart_in_their_order_and_together_again(rng, n_layers):
    whole = tree(rng, n_layers)
    split = split_layers(whole)
    assert isinstance(split, State) and isinstance(split.moments, tuple) and isinstance(split.moments[1], list)
    for before, after in ((whole.params, split.params), (whole.moments[1][0], split.moments[1][0])):
        stacked, backbone = before["backbone"]["layers"], after["backbone"]
        assert set(backbone) == {"ln_scale", *(f"layer_{i}" for i in range(n_layers))}
        for i in range(n_layers):
            np.testing.assert_array_equal(backbone[f"layer_{i}"]["up_kernel"], stacked["up_kernel"][i])
            np.testing.assert_array_equal(backbone[f"layer_{i}"]["ln"]["scale"], stacked["ln"]["scale"][i])
        np.testing.assert_array_equal(after["table"], before["table"])
    jax.tree.map(np.testing.assert_allclose, stack_layers(split), jax.tree.map(jnp.asarray, whole))
    assert jax.tree.structure(stack_layers(split)) == jax.tree.structure(whole)


def test_trees_without_layers_stay_as_they_are(rng):
    plain = {"backbone": {"layer_norm": rng.normal(size=2), "layer_x": rng.normal(size=2)}}
    assert (
        jax.tree.structure(split_layers(plain))
        == jax.tree.structure(stack_layers(plain))
        == jax.tree.structure(plain)
    )
    assert is_stacked({"backbone": {"layers": {}}}) and not is_stacked(plain) and not is_stacked({})


@pytest.mark.parametrize("pattern", ["table", "^backbone/", "up_kernel", "ln_scale", ""])
def test_an_optimisers_state_with_frozen_parameters_comes_together_again(pattern, rng):
    params = jax.tree.map(jnp.asarray, tree(rng, 3).params)
    state = optim.adamw(lambda count: 1e-3, rates=((pattern, 0.0),)).init(params)
    split = split_layers(state)
    assert "layers" not in str(jax.tree_util.tree_leaves_with_path(split))
    back = stack_layers(split)
    assert jax.tree.structure(back) == jax.tree.structure(state)
    jax.tree.map(np.testing.assert_array_equal, back, state)


def test_shapes_lose_the_layers_axis_and_its_sharding():
    mesh = jax.make_mesh((1, 1), ("fsdp", "tensor"))
    sharding = NamedSharding(mesh, PartitionSpec(None, "fsdp", "tensor"))
    shapes = {"layers": {"kernel": jax.ShapeDtypeStruct((2, 4, 6), jnp.float32, sharding=sharding)}}
    for name in ("layer_0", "layer_1"):
        kernel = split_layers(shapes)[name]["kernel"]
        assert kernel.shape == (4, 6) and kernel.sharding.spec == PartitionSpec("fsdp", "tensor")
