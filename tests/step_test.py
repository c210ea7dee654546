"""The train step: exact sums with any microbatches, reproducible by its seed, and nothing leaves the device."""

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
from numjax.train.compile import make_compiled
from numjax.train.step import compiler_options, eval_step, init_params, init_state, losses, train_step
from numjax.types import Batch, TrainState
from tests import drawn, sharded
from tests.conftest import ROOT
from tests.sharded import MESHES

ROWS = 8
NLL = build("objectives", {"name": "nll", "head": "next"})
LABEL = build("objectives", {"name": "nll", "head": "label", "label": "label"})


@pytest.fixture(scope="module")
def model_batch():
    """A NumGPT with a second head, random parameters, and a batch whose rows score unlike counts."""
    rng = np.random.default_rng(5)
    base = drawn.build_model({"name": "prototype", "exponent_dim": 4}, {"name": "mixture"})
    heads = dict(base.heads) | {"label": build("heads", {"name": "classify", "num_classes": 3}, **drawn.CONTEXT)}
    model = Model(base.embeds, base.fusions, base.backbone, heads)
    batch = drawn.draw_batch(rng, lengths=[[1 + b, 1] for b in range(ROWS)], length=drawn.DECODER["max_length"])
    counts = batch.targets.mask.sum(1)
    assert len(set(counts.tolist())) == ROWS
    batch = batch._replace(valid=np.arange(ROWS) < ROWS - 1)
    return model, drawn.draw_params(model, rng, batch), batch


def make_step(model, weights, accumulate, dropout=0.0):
    """Returns a jitted step of plain gradient descent, whose change is the gradient, and the maker of its state."""
    if dropout:
        model = model.clone(backbone=model.backbone.clone(dropout=dropout, layers=1))
    objectives = {name: {"next": NLL, "label": LABEL}[name] for name in weights}
    optimizer = optax.sgd(1.0)
    body = functools.partial(train_step, model, objectives, weights, optimizer, lambda step: 1.0, accumulate)
    return jax.jit(body), lambda params: TrainState(jnp.int32(3), params, optimizer.init(params))


def subtract(old, new):
    return jax.tree.map(lambda a, b: np.asarray(b) - np.asarray(a), old, new)


@pytest.fixture(scope="module")
def gradients(model_batch):
    """(gradient, metrics) of two weighted objectives, by number of microbatches."""
    model, params, batch = model_batch
    results = {}
    for accumulate in (1, 2, 4):
        step, state = make_step(model, {"next": 0.7, "label": 2.0}, accumulate)
        new_state, metrics = step(0, state(params), batch)
        results[accumulate] = subtract(params, new_state.params), metrics
    return results


@pytest.mark.parametrize("accumulate", [2, 4])
def test_any_number_of_microbatches_has_the_same_loss_and_gradient(gradients, accumulate):
    (expected_gradient, expected_metrics), (gradient, metrics) = gradients[1], gradients[accumulate]
    for a, b in zip(jax.tree.leaves(expected_gradient), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(b, a, atol=1e-5 * max(1, np.abs(a).max()), rtol=1e-4)
    assert set(metrics) == set(expected_metrics)
    for name in expected_metrics:
        np.testing.assert_allclose(metrics[name], expected_metrics[name], rtol=1e-5, err_msg=name)


def test_the_gradient_is_that_of_the_weighted_means(model_batch, gradients):
    model, params, batch = model_batch

    def compute_loss(params):
        parts = losses(model, {"next": NLL, "label": LABEL}, params, batch, None)
        return 0.7 * parts["next"].total / batch.targets.mask.sum() + 2.0 * parts["label"].total / (ROWS - 1)

    value, grads = jax.jit(jax.value_and_grad(compute_loss))(params)
    mine, metrics = gradients[1]
    for a, b in zip(jax.tree.leaves(grads), jax.tree.leaves(mine), strict=True):
        np.testing.assert_allclose(b, -a, atol=1e-5, rtol=1e-4)
    assert metrics["loss"][0] / metrics["loss"][1] == pytest.approx(float(value), rel=1e-5)
    norm = np.sqrt(sum(float((g**2).sum()) for g in jax.tree.leaves(grads)))
    assert metrics["grad_norm"][0] == pytest.approx(norm, rel=1e-4)


def test_metrics_are_sums_and_counts_that_add_up(model_batch, gradients):
    _, _, batch = model_batch
    _, metrics = gradients[1]
    n_scored = batch.targets.mask.sum()
    parts = [f"next/{name}" for name in ("selector", "token", "exponent", "mantissa")]
    assert all(metrics[name][1] == n_scored for name in [*parts, "next", "next/mass"])
    assert sum(metrics[name][0] for name in parts) == pytest.approx(float(metrics["next"][0]), rel=1e-5)
    mass = metrics["next"][0] - metrics["next/mantissa"][0]
    assert metrics["next/mass"][0] == pytest.approx(float(mass), rel=1e-4)
    assert metrics["label"][1] == metrics["label/accuracy"][1] == ROWS - 1
    assert 0 <= metrics["label/accuracy"][0] <= ROWS - 1


def test_rows_that_only_fill_the_batch_count_for_nothing(model_batch):
    model, params, batch = model_batch
    compute_metrics = jax.jit(
        functools.partial(eval_step, model, {"next": NLL, "label": LABEL}, {"next": 1.0, "label": 1.0})
    )
    filled = batch._replace(
        targets=batch.targets._replace(mask=batch.targets.mask & (np.arange(ROWS) < 5)[:, None]),
        valid=np.arange(ROWS) < 5,
    )
    rng = np.random.default_rng(6)
    other = drawn.draw_batch(rng, lengths=[[9, 2]] * ROWS, length=drawn.DECODER["max_length"])
    mixed: Batch = jax.tree.map(lambda a, b: np.concatenate([a[:5], b[5:]]), filled, other)
    mixed = mixed._replace(targets=mixed.targets._replace(mask=filled.targets.mask), valid=filled.valid)
    for name, value in compute_metrics(params, filled)[0].items():
        np.testing.assert_allclose(compute_metrics(params, mixed)[0][name], value, rtol=1e-5, err_msg=name)


def test_as_published_divides_by_all_positions(model_batch):
    model, params, batch = model_batch
    published_nll = build("objectives", {"name": "nll", "head": "next", "average": "all"})
    (mine,), (theirs,) = (
        jax.jit(lambda p, o=o: tuple(losses(model, {"next": o}, p, batch, None).values()))(params)
        for o in (NLL, published_nll)
    )
    assert theirs.total == pytest.approx(float(mine.total), rel=1e-6)
    assert theirs.count == batch.inputs.ids.size and mine.count == batch.targets.mask.sum()


def test_the_seed_makes_a_run_reproducible(model_batch):
    model, params, batch = model_batch
    step, state = make_step(model, {"next": 1.0}, 2, dropout=0.3)
    start = state(params)
    first, metrics = step(0, start, batch)
    second, second_metrics = step(0, start, batch)
    for a, b in zip(jax.tree.leaves((first, metrics)), jax.tree.leaves((second, second_metrics)), strict=True):
        np.testing.assert_array_equal(a, b)
    assert int(first.step) == int(start.step) + 1
    other, _ = step(1, start, batch)
    later, _ = step(0, start._replace(step=start.step + 1), batch)
    changes = [subtract(params, s.params)["backbone"]["layer_0"]["up_kernel"] for s in (first, other, later)]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        assert np.abs(changes[i] - changes[j]).max() > 1e-4  # the seed and the step change the masks


def test_microbatches_drop_out_independently(model_batch):
    model, params, batch = model_batch
    double_batch: Batch = jax.tree.map(
        lambda x: np.repeat(x[:1], 2, axis=0), batch._replace(valid=np.ones(ROWS, bool))
    )
    step, state = make_step(model, {"label": 1.0}, 2, dropout=0.5)
    single_step, single_state = make_step(model, {"label": 1.0}, 1, dropout=0.5)
    change = subtract(params, step(0, state(params), double_batch)[0].params)["heads_label"]["kernel"]
    single_batch = jax.tree.map(lambda x: x[:1], double_batch)
    single_change = subtract(params, single_step(0, single_state(params), single_batch)[0].params)["heads_label"][
        "kernel"
    ]
    # The first microbatch has the key of a batch of one. If the second had it too, the mean would be equal.
    assert np.abs(change - single_change).max() > 1e-4


def test_initialisation_follows_the_seed_and_the_parts(model_batch):
    model, _, batch = model_batch
    init = jax.jit(functools.partial(init_params, model))
    first, second, other = init(batch, 0), init(batch, 0), init(batch, 1)
    jax.tree.map(np.testing.assert_array_equal, first, second)
    table = "embeds_token", "table"
    assert np.abs(first[table[0]][table[1]] - other[table[0]][table[1]]).max() > 0.01
    assert {x.dtype for x in jax.tree.leaves(first)} == {jnp.dtype("float32")}
    up = np.asarray(first["backbone"]["layer_0"]["up_kernel"])
    down = np.asarray(first["backbone"]["layer_1"]["down_kernel"])
    assert up.std() == pytest.approx(0.02, rel=0.1)
    assert down.std() == pytest.approx(0.02 / np.sqrt(2 * 2), rel=0.1)
    state = jax.eval_shape(lambda: init_state(model, optim.adamw(optim.schedule("constant", 1e-3, 10)), batch, 0))
    assert state.step.shape == () and state.step.dtype == jnp.int32


def test_evaluation_neither_drops_nor_donates(model_batch):
    model, params, host_batch = model_batch
    dropout_model = model.clone(backbone=model.backbone.clone(dropout=0.5))
    objectives = {"next": NLL, "label": LABEL}
    device_params, batch = jax.device_put(params), jax.device_put(host_batch)
    lowered = jax.jit(functools.partial(eval_step, dropout_model, objectives, {"next": 1.0, "label": 1.0})).lower(
        device_params, batch
    )
    assert "tf.aliasing_output" not in lowered.as_text() and "jax.buffer_donor" not in lowered.as_text()
    compiled = lowered.compile()
    (first, predictions), (second, _) = compiled(device_params, batch), compiled(device_params, batch)
    jax.tree.map(np.testing.assert_array_equal, first, second)
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(device_params), params)
    np.testing.assert_allclose(np.exp(predictions["label"]).sum(-1), 1, atol=1e-5)
    assert set(predictions) == {"label"}


HOST = ("callback", "infeed", "outfeed", "device_put", "host_local", "print")


def list_host_primitives(jaxpr) -> list[str]:
    """Returns the names of primitives, at any depth, that communicate with the host."""
    primitives = []
    for equation in jaxpr.eqns:
        if any(word in equation.primitive.name for word in HOST):
            primitives.append(equation.primitive.name)
        for inner in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns") or hasattr(x, "jaxpr")
        ):
            inner = getattr(inner, "jaxpr", inner)
            if hasattr(inner, "eqns"):
                primitives += list_host_primitives(inner)
    return primitives


@pytest.mark.parametrize("accumulate", [1, 2])
def test_nothing_moves_between_host_and_device_inside_a_step(model_batch, accumulate):
    model, params, batch = model_batch
    objectives, weights = {"next": NLL, "label": LABEL}, {"next": 1.0, "label": 1.0}
    rate = optim.schedule("cosine", 1e-3, 10, warmup=2)
    optimizer = optim.adamw(rate)
    dropout_model = model.clone(backbone=model.backbone.clone(dropout=0.1))
    body = functools.partial(train_step, dropout_model, objectives, weights, optimizer, rate, accumulate)
    state = TrainState(jnp.int32(0), params, optimizer.init(params))
    jaxpr = jax.make_jaxpr(body)(0, state, batch).jaxpr
    assert list_host_primitives(jaxpr) == []

    def call_host(x):
        jax.debug.print("{}", x)
        return jax.lax.map(lambda y: jax.pure_callback(lambda z: z, y, y), x)

    assert len(list_host_primitives(jax.make_jaxpr(call_host)(jnp.ones(3)).jaxpr)) == 2  # the function finds them


@pytest.fixture(scope="module")
def on_meshes(tmp_path_factory):
    """Returns the results of two steps and an evaluation on every mesh of `sharded.py`: {mesh: {name: array}}."""
    path = tmp_path_factory.mktemp("sharded") / "results.npz"
    command = [sys.executable, "-m", "tests.sharded", str(path)]
    process = subprocess.run(
        command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=600, check=False
    )
    assert process.returncode == 0, process.stderr[-2000:]
    results: dict[str, dict[str, np.ndarray]] = {name: {} for name in MESHES}
    with np.load(path) as arrays:
        for key in arrays.files:
            mesh, name = key.split(":", 1)
            results[mesh][name] = arrays[key]
    return results


@pytest.mark.parametrize("mesh", ["data", "fsdp", "all"])
def test_every_mesh_gives_the_results_of_one_device(on_meshes, mesh):
    """Losses, accuracies, dropout, gradients through two clipped steps with momentum, and evaluations agree."""
    single, results = on_meshes["alone"], on_meshes[mesh]
    assert set(results) == set(single)
    largest_change = 0.0
    for name, expected in single.items():
        if name.startswith("share/"):
            continue
        if name.startswith("params/"):
            largest_change = max(largest_change, np.abs(expected - single[name.replace("params/", "init/")]).max())
        # Sums over a batch are large; parameters, momentum and log-probabilities are not.
        np.testing.assert_allclose(results[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)
    assert largest_change > 0.1, "equal because nothing was learned"
    counts = {name: value for name, value in results.items() if name.startswith("metrics/") and name.endswith("/1")}
    for name, value in counts.items():
        assert value == single[name], "counts are exact"


def test_devices_communicate_in_one_loop_only(on_meshes):
    """It is the loop over the microbatches: see `sharded.count_loops`."""
    assert {mesh: int(results["share/loops"]) for mesh, results in on_meshes.items()} == {
        "alone": 0,
        "data": 1,
        "fsdp": 1,
        "all": 1,
    }


def test_a_mesh_holds_each_array_in_the_shares_of_its_rules(on_meshes):
    def get_share(mesh, name):
        return float(on_meshes[mesh][f"share/{name}"])

    single = {k: v for k, v in on_meshes["alone"].items() if k.startswith("share/") and k != "share/loops"}
    assert all(v == 1 for v in single.values())
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
        assert tuple(get_share(mesh, name) for mesh in ("data", "fsdp", "all")) == by_mesh, name
    momenta = [key for key in on_meshes["all"] if key.startswith("share/momentum/") and "up_kernel" in key]
    assert momenta and all(on_meshes["all"][key] == 1 / 4 for key in momenta), (
        "the optimiser's state has the same shares"
    )


def test_the_compiler_takes_the_options():
    # The plans of tests/plan_test.py try the options of the TPU compiler.
    for platform in ("cpu", "gpu"):
        double = jax.jit(lambda x: 2 * x, compiler_options=compiler_options(platform)).lower(1.0).compile()
        assert double(21.0) == 42, platform


def test_a_stack_of_layers_is_sharded_like_one_layer():
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


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (("(", ("tensor",)), "is no .pattern, axes.: missing"),
        (("a", ("nope", None)), "names 'nope': the axes are data, fsdp, tensor"),
        (("a", (("fsdp", "of"),)), "names 'of': the axes are"),
        (("a",), "is no .pattern, axes."),
        (3, "is no .pattern, axes."),
    ],
)
def test_a_rule_that_is_none_is_named(rule, says):
    mesh = jax.sharding.AbstractMesh((1, 2, 4), shard.AXES)
    with pytest.raises(UsageError, match=f"config.mesh.rules: .*{says}"):
        shard.shardings({"table": jax.ShapeDtypeStruct((8, 6), "float32")}, mesh, rules=[rule])


def test_the_steps_options_let_remat_save_memory():
    """Without them XLA's CPU compiler recomputes so early that no memory is saved."""
    length = 128
    model = drawn.build_model(layers=6, mlp_ratio=8, max_length=length)
    batch = drawn.draw_batch(np.random.default_rng(7), lengths=[[length]] * 16, length=length)

    def measure_memory(remat):
        remat_model = model.clone(backbone=model.backbone.clone(remat=remat))
        optimizer = optax.sgd(1.0)
        body = functools.partial(
            train_step, remat_model, {"next": NLL}, {"next": 1.0}, optimizer, lambda step: 1.0, 1
        )
        state = jax.eval_shape(functools.partial(init_state, remat_model, optimizer), batch, 0)
        step = jax.jit(body, donate_argnums=(1,), compiler_options=compiler_options(jax.default_backend()))
        return step.lower(0, state, batch).compile().memory_analysis().temp_size_in_bytes

    assert measure_memory("full") < 0.9 * measure_memory("none")


def compile_small(**options):
    """(system, its compiled functions, a batch), with options of its block `optim`."""
    system, batch = sharded.make_system(1), next(sharded.make_batches())
    system.config.optim.update(options)
    return system, make_compiled(system, shard.make_mesh(1, 1, 1, devices=jax.devices()[:1]), batch), batch


def test_another_learning_rate_or_schedule_is_the_same_program():
    texts = set()
    for changes in ({}, dict(learning_rate=0.1), dict(schedule="cosine", warmup=1, floor=0.2)):
        _, compiled, batch = compile_small(**changes)
        inputs = np.float32(0.1), compiled.abstract_state, shard.put(batch, compiled.mesh)
        texts.add(compiled.step.lower(np.int32(0), *inputs).as_text())
    assert len(texts) == 1


def test_compiled_steps_are_those_with_the_schedule_inside(monkeypatch):
    monkeypatch.setattr(optim, "adamw", sharded.make_optimizer)  # Adam makes whole steps of zeros' rounding errors
    system, compiled, batch = compile_small(learning_rate=0.05, schedule="cosine", warmup=2, floor=0.1)
    rates = optim.list_rates(system.config.optim, 6)
    rate = optim.schedule("cosine", 0.05, 6, 2, 0.1)
    optimizer = sharded.make_optimizer(rate)
    parts = system.model, system.objectives, system.weights, optimizer, rate, system.config.optim.accumulate
    expected_step = jax.jit(functools.partial(train_step, *parts))
    state = compiled.init(0)
    expected = jax.tree.map(jnp.copy, state)
    for step in range(6):
        state, metrics = compiled.step(0, rates[step], state, shard.put(batch, compiled.mesh))
        expected, expected_metrics = expected_step(0, expected, batch)
        assert float(metrics["learning_rate"][0]) == pytest.approx(float(expected_metrics["learning_rate"][0]))
    for own, other in zip(jax.tree.leaves(state.params), jax.tree.leaves(expected.params), strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-5)
    assert len({*rates.tolist()}) == 6 and rates[0] == 0
