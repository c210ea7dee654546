"""Tables of distinct numerals that rows share: the same vectors, fewer to compute, on any number of devices."""

from __future__ import annotations

import json
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.nn import numerals as numeral_rows
from numjax.pipeline import distinct
from numjax.pipeline.loader import Loader
from numjax.train.step import train_step
from numjax.types import TrainState
from tests import drawn
from tests.encoded import ROOT, make_config, make_loader

SCALE = dict(width=16, layers=1, heads=2, max_length=48)


def compute_features(numerals, surfaces):
    features = build("embed", {"name": "char_lstm", "length": 10}).host_features(numerals, surfaces)
    return {f"numeral/{name}": values for name, values in features.items()}


def make_loaders(rng, devices=1, process=None, accumulate=1, **options) -> tuple[Loader, Loader]:
    """Makes loaders of the same rows, without and with shared tables."""
    plain = make_loader(rng, count=40, batch_size=8, **options)
    changes = {key: value for key, value in options.items() if key != "kind"}
    loaders = []
    for shared in (False, True):
        config = make_config(batch_size=8, shared=shared, **changes)
        config.optim.accumulate = accumulate
        process = process or (range(devices), devices)
        loaders.append(Loader(plain.encoded, config, seed=0, host_features=compute_features, process=process))
    return loaders[0], loaders[1]


@pytest.mark.parametrize("options", [dict(pack=True), dict(), dict(kind="classify", buckets=2)])
@pytest.mark.parametrize("devices", [1, 4])
def test_every_position_has_its_number_and_no_table_holds_a_string_twice(options, devices, rng):
    plain, shared = make_loaders(rng, devices, **options)
    n_saved = 0
    for index in range(plain.batches_of_epoch()):
        old, new = (loader.batch(index)[0].inputs for loader in (plain, shared))
        np.testing.assert_array_equal(new.numeral_index, old.numeral_index)
        jax.tree.map(np.testing.assert_array_equal, new.numerals, old.numerals)
        table = new.distinct
        assert table.valid.shape[0] == devices and table.valid.shape[1] % 4 == 0
        group = np.repeat(np.arange(devices), 8 // devices)[:, None]
        shared_index = np.maximum(new.distinct_index, 0)
        has_number = old.numeral_index >= 0
        np.testing.assert_array_equal(new.distinct_index >= 0, has_number)
        row_index = np.maximum(old.numeral_index, 0)
        for shared_values, row_values in zip(
            [*table, *new.features.values()], [*old.numerals, *old.features.values()], strict=True
        ):
            expected = row_values[np.arange(8)[:, None], row_index]
            np.testing.assert_array_equal(shared_values[group, shared_index][has_number], expected[has_number])
        for g in range(devices):
            strings = [tuple(row) for row in new.features["numeral/characters"][g][table.valid[g]]]
            assert len(set(strings)) == len(strings)
        n_saved += old.numerals.valid.size - table.valid.size
    assert n_saved > 0, "fewer to encode"


def test_every_process_makes_batches_of_one_shape(rng):
    parts = [make_loaders(np.random.default_rng(3), process=(index, 2), buckets=1)[1] for index in (0, 1)]
    for index in range(parts[0].batches_of_epoch()):
        widths = {part.batch(index)[0].inputs.distinct.valid.shape for part in parts}
        assert len(widths) == 1


def test_widths_climb_a_ladder():
    assert [distinct.choose_width(need, 1000) for need in (0, 8, 9, 13, 17, 25, 33, 100)] == [
        8,
        8,
        12,
        16,
        24,
        32,
        48,
        128,
    ]
    assert distinct.choose_width(100, 100) == 104 and distinct.choose_width(3, 2) == 8
    assert distinct.Groups(2, 2).group_rows(8).tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
    with pytest.raises(UsageError, match="6 rows do not divide over 4 devices × 1 microbatches"):
        distinct.Groups(4, 1).group_rows(6)


def make_model():
    return drawn.build_model({"name": "char_lstm", "hidden": 4, "length": 10, "dim": 6}, fusion="add", **SCALE)


def wrap_ids(tokens):
    return tokens._replace(ids=tokens.ids % drawn.VOCAB)


def test_evaluations_have_no_microbatches(rng):
    _, shared = make_loaders(rng, devices=2, accumulate=2)
    train_inputs, (eval_batch, *_) = shared.batch(0)[0].inputs, shared.epoch(8)
    assert train_inputs.distinct.valid.shape[0] == shared.example_batch().inputs.distinct.valid.shape[0] == 4
    assert eval_batch.inputs.distinct.valid.shape[0] == 2
    shared_index = np.maximum(eval_batch.inputs.distinct_index, 0)
    exponents = eval_batch.inputs.distinct.exponent[np.arange(8)[:, None] // 4, shared_index]
    expected = numeral_rows.gather(eval_batch.inputs.numerals, eval_batch.inputs.numeral_index)
    np.testing.assert_array_equal(
        np.where(expected.valid, exponents, 0), np.where(expected.valid, expected.exponent, 0)
    )


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_is_the_same_with_shared_tables(accumulate, rng):
    plain, shared = make_loaders(rng, devices=2, accumulate=accumulate)
    net, objectives = make_model(), {"next": build("objectives", {"name": "nll", "head": "next"})}
    optimizer, results = optax.sgd(0.5), []
    for loader in (plain, shared):
        batch = loader.batch(1)[0]
        batch = batch._replace(inputs=wrap_ids(batch.inputs), grammar_state=None)
        batch = batch._replace(targets=batch.targets._replace(ids=batch.targets.ids % drawn.VOCAB))
        params = results[0][0] if results else drawn.draw_params(net, np.random.default_rng(0), batch)
        state = TrainState(jnp.int32(0), params, optimizer.init(params))
        step = jax.jit(
            lambda state, batch: train_step(
                net, objectives, {"next": 1.0}, optimizer, lambda _: 0.5, accumulate, 0, state, batch
            )
        )
        new_state, metrics = step(state, batch)
        results.append((params, new_state.params, metrics["loss"][0]))
    np.testing.assert_allclose(results[0][2], results[1][2], rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), results[0][1], results[1][1])


def print_difference() -> None:
    """Prints how vectors on four devices, with a table each, differ from those on one device, with a table a row."""
    jax.config.update("jax_num_cpu_devices", 4)
    plain, shared = make_loaders(np.random.default_rng(0), devices=4)
    net = make_model()
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    old, new = (loader.batch(0)[0] for loader in (plain, shared))
    params = drawn.draw_params(net, np.random.default_rng(0), old._replace(inputs=wrap_ids(old.inputs)))

    def embed(tokens):
        return net.apply({"params": params}, tokens, method="embed")

    single = jax.jit(embed)(wrap_ids(old.inputs))
    sharded = jax.jit(embed, in_shardings=sharding, out_shardings=sharding)(
        jax.device_put(wrap_ids(new.inputs), sharding)
    )
    text = (
        jax.jit(embed, in_shardings=sharding, out_shardings=sharding).lower(wrap_ids(new.inputs)).compile().as_text()
    )
    collectives = [word for word in ("all-gather", "all-reduce", "all-to-all") if word in text]
    difference = float(np.abs(np.asarray(single) - np.asarray(sharded)).max())
    print(json.dumps({"apart": difference, "size": float(np.abs(single).max()), "collectives": collectives}))


def test_sharded_vectors_are_the_same_and_no_device_needs_anothers_table():
    command = [sys.executable, "-c", "from tests.distinct_test import print_difference; print_difference()"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    report = json.loads(result.stdout.splitlines()[-1])
    assert report["apart"] < 1e-5 * max(1, report["size"]) and not report["collectives"]
