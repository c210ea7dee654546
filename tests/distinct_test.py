"""Tables of distinct numerals that rows share: the same vectors, fewer to make, on any number of devices."""

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
from numjax.nn import numerals as rows_of
from numjax.pipeline import distinct
from numjax.pipeline.loader import Loader
from numjax.train.step import train_step
from numjax.types import TrainState
from tests import drawn
from tests.encoded import ROOT, make_config, make_loader

SCALE = dict(width=16, layers=1, heads=2, max_length=48)


def features(numerals, surfaces):
    found = build("embed", {"name": "char_lstm", "length": 10}).host_features(numerals, surfaces)
    return {f"numeral/{name}": values for name, values in found.items()}


def pair(rng, devices=1, process=None, accumulate=1, **options) -> tuple[Loader, Loader]:
    """Loaders of the same rows, without and with shared tables."""
    plain = make_loader(rng, count=40, batch_size=8, **options)
    changes = {key: value for key, value in options.items() if key != "kind"}
    made = []
    for shared in (False, True):
        config = make_config(batch_size=8, shared=shared, **changes)
        config.optim.accumulate = accumulate
        process = process or (range(devices), devices)
        made.append(Loader(plain.encoded, config, seed=0, host_features=features, process=process))
    return made[0], made[1]


@pytest.mark.parametrize("options", [dict(pack=True), dict(), dict(kind="classify", buckets=2)])
@pytest.mark.parametrize("devices", [1, 4])
def test_every_position_finds_its_number_and_no_string_is_there_twice(options, devices, rng):
    plain, shared = pair(rng, devices, **options)
    fewer = 0
    for index in range(plain.batches_of_epoch()):
        old, new = (loader.batch(index)[0].inputs for loader in (plain, shared))
        np.testing.assert_array_equal(new.numeral_index, old.numeral_index)
        jax.tree.map(np.testing.assert_array_equal, new.numerals, old.numerals)
        table = new.distinct
        assert table.valid.shape[0] == devices and table.valid.shape[1] % 4 == 0
        group = np.repeat(np.arange(devices), 8 // devices)[:, None]
        at = np.maximum(new.distinct_index, 0)
        there = old.numeral_index >= 0
        np.testing.assert_array_equal(new.distinct_index >= 0, there)
        of_row = np.maximum(old.numeral_index, 0)
        for mine, theirs in zip(
            [*table, *new.features.values()], [*old.numerals, *old.features.values()], strict=True
        ):
            wanted = theirs[np.arange(8)[:, None], of_row]
            np.testing.assert_array_equal(mine[group, at][there], wanted[there])
        for g in range(devices):
            seen = [tuple(row) for row in new.features["numeral/characters"][g][table.valid[g]]]
            assert len(set(seen)) == len(seen)
        fewer += old.numerals.valid.size - table.valid.size
    assert fewer > 0, "fewer to encode"


def test_every_process_makes_batches_of_one_shape(rng):
    parts = [pair(np.random.default_rng(3), process=(index, 2), buckets=1)[1] for index in (0, 1)]
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


def model():
    return drawn.model({"name": "char_lstm", "hidden": 4, "length": 10, "dim": 6}, fusion="add", **SCALE)


def shapes_of(tokens):
    return tokens._replace(ids=tokens.ids % drawn.VOCAB)


def test_evaluations_know_no_microbatches(rng):
    _, shared = pair(rng, devices=2, accumulate=2)
    trained, (scored, *_) = shared.batch(0)[0].inputs, shared.epoch(8)
    assert trained.distinct.valid.shape[0] == shared.example_batch().inputs.distinct.valid.shape[0] == 4
    assert scored.inputs.distinct.valid.shape[0] == 2
    at = np.maximum(scored.inputs.distinct_index, 0)
    found = scored.inputs.distinct.exponent[np.arange(8)[:, None] // 4, at]
    wanted = rows_of.gather(scored.inputs.numerals, scored.inputs.numeral_index)
    np.testing.assert_array_equal(np.where(wanted.valid, found, 0), np.where(wanted.valid, wanted.exponent, 0))


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_step_is_the_same_with_shared_tables(accumulate, rng):
    plain, shared = pair(rng, devices=2, accumulate=accumulate)
    net, objectives = model(), {"next": build("objectives", {"name": "nll", "head": "next"})}
    optimizer, after = optax.sgd(0.5), []
    for loader in (plain, shared):
        batch = loader.batch(1)[0]
        batch = batch._replace(inputs=shapes_of(batch.inputs), grammar_state=None)
        batch = batch._replace(targets=batch.targets._replace(ids=batch.targets.ids % drawn.VOCAB))
        params = after[0][0] if after else drawn.draw(net, np.random.default_rng(0), batch)
        state = TrainState(jnp.int32(0), params, optimizer.init(params))
        step = jax.jit(
            lambda state, batch: train_step(
                net, objectives, {"next": 1.0}, optimizer, lambda _: 0.5, accumulate, 0, state, batch
            )
        )
        moved, metrics = step(state, batch)
        after.append((params, moved.params, metrics["loss"][0]))
    np.testing.assert_allclose(after[0][2], after[1][2], rtol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), after[0][1], after[1][1])


def sharded() -> None:
    """On four devices: rows over them, one table each, against one device and a table a row."""
    jax.config.update("jax_num_cpu_devices", 4)
    plain, shared = pair(np.random.default_rng(0), devices=4)
    net = model()
    mesh = jax.make_mesh((4,), ("rows",), axis_types=(jax.sharding.AxisType.Auto,))
    split = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    old, new = (loader.batch(0)[0] for loader in (plain, shared))
    params = drawn.draw(net, np.random.default_rng(0), old._replace(inputs=shapes_of(old.inputs)))

    def embed(tokens):
        return net.apply({"params": params}, tokens, method="embed")

    one = jax.jit(embed)(shapes_of(old.inputs))
    several = jax.jit(embed, in_shardings=split, out_shardings=split)(jax.device_put(shapes_of(new.inputs), split))
    text = jax.jit(embed, in_shardings=split, out_shardings=split).lower(shapes_of(new.inputs)).compile().as_text()
    collectives = [word for word in ("all-gather", "all-reduce", "all-to-all") if word in text]
    apart = float(np.abs(np.asarray(one) - np.asarray(several)).max())
    print(json.dumps({"apart": apart, "size": float(np.abs(one).max()), "collectives": collectives}))


def test_sharded_is_single_and_no_device_needs_anothers_table():
    command = [sys.executable, "-c", "from tests.distinct_test import sharded; sharded()"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["apart"] < 1e-5 * max(1, found["size"]) and not found["collectives"]
