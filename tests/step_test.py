"""The train step: exact sums whatever the microbatches, one seed one run, nothing leaves the device."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.model import Model
from numjax.runtime import shard
from numjax.train import optim
from numjax.train.step import compiler_options, eval_step, init_params, init_state, losses, train_step
from numjax.types import Batch, TrainState
from tests import drawn
from tests.conftest import ROOT
from tests.sharded import MESHES

ROWS = 8
NLL = build("objectives", {"name": "nll", "head": "next"})
LABEL = build("objectives", {"name": "nll", "head": "label", "label": "label"})


@pytest.fixture(scope="module")
def everything():
    """A NumGPT with a second head, random parameters, and a batch whose rows score unlike counts."""
    rng = np.random.default_rng(5)
    base = drawn.model({"name": "prototype", "exponent_dim": 4}, {"name": "mixture"})
    heads = dict(base.heads) | {"label": build("heads", {"name": "classify", "num_classes": 3}, **drawn.KNOWN)}
    model = Model(base.embeds, base.fusions, base.backbone, heads)
    found = drawn.batch(rng, lengths=[[1 + b, 1] for b in range(ROWS)], length=drawn.DECODER["max_length"])
    counts = found.targets.mask.sum(1)
    assert len(set(counts.tolist())) == ROWS
    found = found._replace(valid=np.arange(ROWS) < ROWS - 1)
    return model, drawn.draw(model, rng, found), found


def step_of(model, weights, accumulate, dropout=0.0):
    """A jitted step of plain gradient descent: how far it moves is the gradient."""
    if dropout:
        model = model.clone(backbone=model.backbone.clone(dropout=dropout, layers=1))
    objectives = {name: {"next": NLL, "label": LABEL}[name] for name in weights}
    optimizer = optax.sgd(1.0)
    body = functools.partial(train_step, model, objectives, weights, optimizer, lambda step: 1.0, accumulate)
    return jax.jit(body), lambda params: TrainState(jnp.int32(3), params, optimizer.init(params))


def moved(before, after):
    return jax.tree.map(lambda a, b: np.asarray(b) - np.asarray(a), before, after)


@pytest.fixture(scope="module")
def together(everything):
    """(gradient, metrics) of two weighted objectives, by number of microbatches."""
    model, params, found = everything
    out = {}
    for accumulate in (1, 2, 4):
        step, state = step_of(model, {"next": 0.7, "label": 2.0}, accumulate)
        after, metrics = step(0, state(params), found)
        out[accumulate] = moved(params, after.params), metrics
    return out


@pytest.mark.parametrize("accumulate", [2, 4])
def test_any_number_of_microbatches_has_the_same_loss_and_gradient(together, accumulate):
    (want, expected), (found, metrics) = together[1], together[accumulate]
    for a, b in zip(jax.tree.leaves(want), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-5 * max(1, np.abs(a).max()), rtol=1e-4)
    assert set(metrics) == set(expected)
    for name in expected:
        np.testing.assert_allclose(metrics[name], expected[name], rtol=1e-5, err_msg=name)


def test_the_gradient_is_that_of_the_weighted_means(everything, together):
    model, params, found = everything

    def loss(params):
        parts = losses(model, {"next": NLL, "label": LABEL}, params, found, None)
        return 0.7 * parts["next"].total / found.targets.mask.sum() + 2.0 * parts["label"].total / (ROWS - 1)

    value, grads = jax.jit(jax.value_and_grad(loss))(params)
    mine, metrics = together[1]
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(mine), strict=True):
        np.testing.assert_allclose(b, -a, atol=1e-5, rtol=1e-4)
    assert metrics["loss"][0] / metrics["loss"][1] == pytest.approx(float(value), rel=1e-5)
    norm = np.sqrt(sum(float((g**2).sum()) for g in jax.tree.leaves(grads)))
    assert metrics["grad_norm"][0] == pytest.approx(norm, rel=1e-4)


def test_metrics_are_sums_and_counts_that_add_up(everything, together):
    _, _, found = everything
    _, metrics = together[1]
    scored = found.targets.mask.sum()
    parts = [f"next/{name}" for name in ("selector", "token", "exponent", "mantissa")]
    assert all(metrics[name][1] == scored for name in [*parts, "next", "next/mass"])
    assert sum(metrics[name][0] for name in parts) == pytest.approx(float(metrics["next"][0]), rel=1e-5)
    without = metrics["next"][0] - metrics["next/mantissa"][0]
    assert metrics["next/mass"][0] == pytest.approx(float(without), rel=1e-4)
    assert metrics["label"][1] == metrics["label/accuracy"][1] == ROWS - 1
    assert 0 <= metrics["label/accuracy"][0] <= ROWS - 1


def test_rows_that_only_fill_the_batch_count_for_nothing(everything):
    model, params, found = everything
    scored = jax.jit(functools.partial(eval_step, model, {"next": NLL, "label": LABEL}, {"next": 1.0, "label": 1.0}))
    filled = found._replace(
        targets=found.targets._replace(mask=found.targets.mask & (np.arange(ROWS) < 5)[:, None]),
        valid=np.arange(ROWS) < 5,
    )
    rng = np.random.default_rng(6)
    other = drawn.batch(rng, lengths=[[9, 2]] * ROWS, length=drawn.DECODER["max_length"])
    mixed: Batch = jax.tree.map(lambda a, b: np.concatenate([a[:5], b[5:]]), filled, other)
    mixed = mixed._replace(targets=mixed.targets._replace(mask=filled.targets.mask), valid=filled.valid)
    for name, value in scored(params, filled)[0].items():
        np.testing.assert_allclose(scored(params, mixed)[0][name], value, rtol=1e-5, err_msg=name)


def test_as_published_divides_by_all_positions(everything):
    model, params, found = everything
    published = build("objectives", {"name": "nll", "head": "next", "average": "all"})
    (mine,), (theirs,) = (
        jax.jit(lambda p, o=o: tuple(losses(model, {"next": o}, p, found, None).values()))(params)
        for o in (NLL, published)
    )
    assert theirs.total == pytest.approx(float(mine.total), rel=1e-6)
    assert theirs.count == found.inputs.ids.size and mine.count == found.targets.mask.sum()


def test_a_seed_makes_a_run(everything):
    model, params, found = everything
    step, state = step_of(model, {"next": 1.0}, 2, dropout=0.3)
    start = state(params)
    first, metrics = step(0, start, found)
    again, same = step(0, start, found)
    for a, b in zip(jax.tree.leaves((first, metrics)), jax.tree.leaves((again, same)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert int(first.step) == int(start.step) + 1
    other, _ = step(1, start, found)
    later, _ = step(0, start._replace(step=start.step + 1), found)
    drops = [moved(params, s.params)["backbone"]["layer_0"]["up_kernel"] for s in (first, other, later)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(drops[i] - drops[j]).max() > 1e-4  # another seed, another step: other masks


def test_microbatches_drop_out_independently(everything):
    model, params, found = everything
    twice: Batch = jax.tree.map(lambda x: np.repeat(x[:1], 2, axis=0), found._replace(valid=np.ones(ROWS, bool)))
    step, state = step_of(model, {"label": 1.0}, 2, dropout=0.5)
    alone, one = step_of(model, {"label": 1.0}, 1, dropout=0.5)
    both = moved(params, step(0, state(params), twice)[0].params)["heads_label"]["kernel"]
    half = jax.tree.map(lambda x: x[:1], twice)
    single = moved(params, alone(0, one(params), half)[0].params)["heads_label"]["kernel"]
    # The first microbatch has the key of a batch of one; had the second the same, the mean would be equal.
    assert np.abs(both - single).max() > 1e-4


def test_initialisation_follows_the_seed_and_what_the_parts_ask_for(everything):
    model, _, found = everything
    init = jax.jit(functools.partial(init_params, model))
    first, again, other = init(found, 0), init(found, 0), init(found, 1)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    table = "embeds_token", "table"
    assert np.abs(first[table[0]][table[1]] - other[table[0]][table[1]]).max() > 0.01
    assert {x.dtype for x in jax.tree.leaves(first)} == {jnp.dtype("float32")}
    up = np.asarray(first["backbone"]["layer_0"]["up_kernel"])
    down = np.asarray(first["backbone"]["layer_1"]["down_kernel"])
    assert up.std() == pytest.approx(0.02, rel=0.1)
    assert down.std() == pytest.approx(0.02 / np.sqrt(2 * 2), rel=0.1)
    state = jax.eval_shape(lambda: init_state(model, optim.adamw(1e-3, 10)[0], found, 0))
    assert state.step.shape == () and state.step.dtype == jnp.int32


def test_evaluation_neither_drops_nor_donates(everything):
    model, params, found = everything
    dropping = model.clone(backbone=model.backbone.clone(dropout=0.5))
    objectives = {"next": NLL, "label": LABEL}
    on_device, batch = jax.device_put(params), jax.device_put(found)
    lowered = jax.jit(functools.partial(eval_step, dropping, objectives, {"next": 1.0, "label": 1.0})).lower(
        on_device, batch
    )
    assert "tf.aliasing_output" not in lowered.as_text() and "jax.buffer_donor" not in lowered.as_text()
    compiled = lowered.compile()
    (first, said), (again, _) = compiled(on_device, batch), compiled(on_device, batch)
    jax.tree.map(np.testing.assert_array_equal, first, again)
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(on_device), params)
    np.testing.assert_allclose(np.exp(said["label"]).sum(-1), 1, atol=1e-5)
    assert set(said) == {"label"}


HOST = ("callback", "infeed", "outfeed", "device_put", "host_local", "print")


def host_primitives(jaxpr) -> list[str]:
    """Primitives of a program, at any depth, that talk to the host."""
    found = []
    for equation in jaxpr.eqns:
        if any(word in equation.primitive.name for word in HOST):
            found.append(equation.primitive.name)
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                found += host_primitives(inner)
    return found


@pytest.mark.parametrize("accumulate", [1, 2])
def test_nothing_moves_between_host_and_device_inside_a_step(everything, accumulate):
    model, params, found = everything
    objectives, weights = {"next": NLL, "label": LABEL}, {"next": 1.0, "label": 1.0}
    optimizer, rate = optim.adamw(1e-3, 10, schedule_name="cosine", warmup=2)
    dropping = model.clone(backbone=model.backbone.clone(dropout=0.1))
    body = functools.partial(train_step, dropping, objectives, weights, optimizer, rate, accumulate)
    state = TrainState(jnp.int32(0), params, optimizer.init(params))
    jaxpr = jax.make_jaxpr(body)(0, state, found).jaxpr
    assert host_primitives(jaxpr) == []

    def talks(x):
        jax.debug.print("{}", x)
        return jax.lax.map(lambda y: jax.pure_callback(lambda z: z, y, y), x)

    assert len(host_primitives(jax.make_jaxpr(talks)(jnp.ones(3)).jaxpr)) == 2  # the probe finds them


@pytest.fixture(scope="module")
def on_meshes(tmp_path_factory):
    """What two steps and an evaluation leave on every mesh of `sharded.py`: {mesh: {name: array}}."""
    path = tmp_path_factory.mktemp("sharded") / "found.npz"
    command = [sys.executable, "-m", "tests.sharded", str(path)]
    done = subprocess.run(command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, dict[str, np.ndarray]] = {name: {} for name in MESHES}
    with np.load(path) as arrays:
        for key in arrays.files:
            mesh, name = key.split(":", 1)
            found[mesh][name] = arrays[key]
    return found


@pytest.mark.parametrize("mesh", ["data", "fsdp", "all"])
def test_sharded_is_single_device(on_meshes, mesh):
    """Losses, accuracies, dropout, gradients through two clipped steps with momentum, and what evaluation says."""
    alone, found = on_meshes["alone"], on_meshes[mesh]
    assert set(found) == set(alone)
    moved = 0.0
    for name, want in alone.items():
        if name.startswith("share/"):
            continue
        if name.startswith("params/"):
            moved = max(moved, np.abs(want - alone[name.replace("params/", "init/")]).max())
        # Sums over a batch are large; parameters, momentum and log-probabilities are not.
        np.testing.assert_allclose(found[name], want, rtol=1e-5, atol=1e-5, err_msg=name)
    assert moved > 0.1, "equal because nothing was learned"
    counts = {name: value for name, value in found.items() if name.startswith("metrics/") and name.endswith("/1")}
    for name, value in counts.items():
        assert value == alone[name], "counts are exact"


def test_devices_meet_in_one_loop_only(on_meshes):
    """That over the microbatches: see `sharded.loops`."""
    assert {mesh: int(found["share/loops"]) for mesh, found in on_meshes.items()} == {
        "alone": 0,
        "data": 1,
        "fsdp": 1,
        "all": 1,
    }


def test_a_mesh_holds_each_array_in_the_shares_that_its_rules_say(on_meshes):
    def share(mesh, name):
        return float(on_meshes[mesh][f"share/{name}"])

    alone = {k: v for k, v in on_meshes["alone"].items() if k.startswith("share/") and k != "share/loops"}
    assert all(v == 1 for v in alone.values())
    layer = "params/backbone/layer_0"
    for name, by_mesh in {
        "params/embeds_token/table": (1, 1 / 8, 1 / 4),
        f"{layer}/qkv_kernel": (1, 1 / 8, 1 / 4),
        f"{layer}/qkv_bias": (1, 1, 1 / 2),
        f"{layer}/out_kernel": (1, 1 / 8, 1 / 4),
        f"{layer}/up_kernel": (1, 1 / 8, 1 / 4),
        f"{layer}/down_kernel": (1, 1 / 8, 1 / 4),
        f"{layer}/ln_1_scale": (1, 1, 1),
        "params/heads_next/kernel": (1, 1 / 8, 1 / 4),
        "params/fuse_numeral/kernel": (1, 1 / 8, 1 / 2),
        "batch/inputs/ids": (1 / 8, 1 / 8, 1 / 4),
        "batch/inputs/numerals/digits": (1 / 8, 1 / 8, 1 / 4),
        "batch/labels/label": (1 / 8, 1 / 8, 1 / 4),
    }.items():
        assert tuple(share(mesh, name) for mesh in ("data", "fsdp", "all")) == by_mesh, name
    momenta = [key for key in on_meshes["all"] if key.startswith("share/momentum/") and "up_kernel" in key]
    assert momenta and all(on_meshes["all"][key] == 1 / 4 for key in momenta), "the optimiser's state goes along"


def test_the_compiler_takes_the_options():
    # What only the TPU compiler knows is tried by the plans of tests/plan_test.py.
    for platform in ("cpu", "gpu"):
        double = jax.jit(lambda x: 2 * x, compiler_options=compiler_options(platform)).lower(1.0).compile()
        assert double(21.0) == 42, platform


def test_a_stack_of_layers_is_sharded_as_one_layer_is():
    sizes = {"qkv_kernel": (16, 3, 2, 8), "out_kernel": (16, 16), "up_bias": (64,), "ln_1_scale": (16,)}
    mesh = jax.sharding.AbstractMesh((2, 2, 2), shard.AXES)
    one = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in sizes.items()}
    many = {name: jax.ShapeDtypeStruct((3, *shape), "float32") for name, shape in sizes.items()}
    single, stacked = shard.shardings(one, mesh), shard.shardings(many, mesh)
    for name in sizes:
        assert tuple(stacked[name].spec) == (None, *single[name].spec), name


def test_axes_that_do_not_divide_are_replicated_when_small_and_refused_when_large():
    mesh = jax.sharding.AbstractMesh((1, 2, 4), shard.AXES)
    small = shard.shardings({"table": jax.ShapeDtypeStruct((21, 16), "float32")}, mesh)["table"]
    assert tuple(small.spec) == (None, None)
    with pytest.raises(UsageError, match=r"table: axis 0 of 50257 does not divide over tensor × fsdp=8"):
        shard.shardings({"table": jax.ShapeDtypeStruct((50257, 16), "float32")}, mesh)
    own = shard.shardings({"table": jax.ShapeDtypeStruct((8, 6), "float32")}, mesh, rules=[("tab", ("tensor", None))])
    assert tuple(own["table"].spec) == ("tensor", None)  # a config's own rules come first
    with pytest.raises(UsageError, match="does not fit 1 devices"):
        shard.make_mesh(2, 1, 1, devices=jax.devices()[:1])


def test_the_steps_options_let_remat_save_memory():
    """By its own choice XLA's CPU compiler recomputes so early that nothing is saved."""
    length = 128
    model = drawn.model(layers=6, mlp_ratio=8, max_length=length)
    found = drawn.batch(np.random.default_rng(7), lengths=[[length]] * 16, length=length)

    def temporary(remat):
        remade = model.clone(backbone=model.backbone.clone(remat=remat))
        optimizer = optax.sgd(1.0)
        body = functools.partial(train_step, remade, {"next": NLL}, {"next": 1.0}, optimizer, lambda step: 1.0, 1)
        state = jax.eval_shape(functools.partial(init_state, remade, optimizer), found, 0)
        step = jax.jit(body, donate_argnums=(1,), compiler_options=compiler_options(jax.default_backend()))
        return step.lower(0, state, found).compile().memory_analysis().temp_size_in_bytes

    assert temporary("full") < 0.9 * temporary("none")
