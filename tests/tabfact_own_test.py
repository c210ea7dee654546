"""Statements on a user's own table, and attention weights against a slow layer."""

from __future__ import annotations

import functools
import json
import math

import jax
import numpy as np
import pytest
from flax.core import FrozenDict
from ml_collections import ConfigDict

from numjax import api, inspect
from numjax.bundled.configs import luna
from numjax.errors import UsageError
from numjax.geometry import attention
from numjax.modes import inputs
from numjax.modes.predict import predict_records
from numjax.pipeline import batch as batches
from numjax.positions import alibi
from numjax.runtime import shard
from numjax.system import assemble
from numjax.text import document as documents
from numjax.train import step

parse = functools.partial(documents.parse, rules="default")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Returns the untrained model of task=tabfact with AddBack and LUNA's DICE."""
    folder = tmp_path_factory.mktemp("tabfact")
    config = luna.get_config("smoke,task=tabfact,numbed=dice")
    with config.unlocked():
        config.task.size = 320
        config.data.update(dir=str(folder / "data"), buckets=1)
    # As loaded from a workdir.
    config = ConfigDict(json.loads(json.dumps(config.to_dict())))
    system = assemble(config, folder)
    loaded = api.Loaded(system, {}, 0, shard.make_mesh())
    record = {"table": [["club", "points"], ["barton", 12]], "statement": "barton have 12 points"}
    example = system.task.example({"id": "x", "label": 0, "kind": ""} | record, system.scheme.parse)
    row = system.scheme.encode(example.document)
    batch = batches.from_features([row], config.data.digits, system.host_features)
    loaded.params = jax.jit(step.init_params, static_argnums=0)(system.model, batch, 0)
    return loaded


def test_statements_on_a_users_table(model, tmp_path, capsys):
    good = {"table": [["club", "points"], ["barton", 12], ["fenham", "1,200"]], "statement": "barton have 12 points"}
    bad = good | {"table": [["club"], ["a", "b"]]}
    path = tmp_path / "asked.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in (good, bad, {"statement": "no table"})))
    out = predict_records(
        model, *inputs.split_valid(inputs.load_records(model.system.task, str(path)), False), tmp_path, False
    )
    (row,) = out["predictions"]
    assert row["id"] == "input-1" and row["prediction"] in (0, 1) and 0.5 <= row["confidence"] <= 1
    assert [entry["reason"][:20] for entry in out["skipped"]] == ["the table is ragged:", "there is no field 't"]
    assert capsys.readouterr().err.count("left out input-") == 2


def compute_layer_slowly(x, p, heads):
    """Returns the output and attention weights of one post-LN layer in float64, position by position."""
    x, p = x.astype(np.float64), {name: np.asarray(value, np.float64) for name, value in p.items()}
    count, width = x.shape
    size = width // heads
    values, maps = np.zeros((count, width)), np.zeros((heads, count, count))
    for h in range(heads):
        q, k, v = (x @ p["qkv_kernel"][:, i, h] + p["qkv_bias"][i, h] for i in range(3))
        for t in range(count):
            exps = [math.exp(sum(q[t] * k[s]) / math.sqrt(size)) for s in range(count)]
            maps[h, t] = [e / sum(exps) for e in exps]
            values[t, h * size : (h + 1) * size] = sum(maps[h, t, s] * v[s] for s in range(count))

    def normalise(z, name):
        centred = z - z.mean(1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-12) * p[f"{name}_scale"] + p[f"{name}_bias"]

    y = normalise(x + values @ p["out_kernel"] + p["out_bias"], "ln_1")
    up = y @ p["up_kernel"] + p["up_bias"]
    gelu = np.vectorize(lambda z: 0.5 * z * (1 + math.erf(z / math.sqrt(2))))(up)
    return normalise(y + gelu @ p["down_kernel"] + p["down_bias"], "ln_2"), maps


def test_the_map_equals_the_attention_of_the_layer(model):
    record = {"table": [["club", "$"], ["barton", "1,200"], ["fenham", "7.5"]], "statement": "barton have 1,200 $"}
    acts = inspect.read_activations(model, record)
    assert acts.surfaces == ("1,200", "1,200", "7.5") and acts.layers.shape == (3, len(acts.tokens), 32)
    assert [acts.tokens[i] for i in np.flatnonzero(acts.numbers >= 0)] == ["⟨1,200⟩", "⟨1,200⟩", "⟨7.5⟩"]
    assert acts.tokens[0] == "[CLS]" and acts.tokens[-1] == "[SEP]"
    assert acts.types.tolist() == sorted(acts.types.tolist()) and acts.types[-1] == 1
    for layer in (0, 1):
        params = model.params["backbone"][f"layer_{layer}"]
        # From the same input, the slow layer gives the model's output.
        output, maps = compute_layer_slowly(acts.layers[layer], params, heads=2)
        np.testing.assert_allclose(output, acts.layers[layer + 1], atol=2e-5)
        weights = inspect.attention_weights(model, acts, layer)
        np.testing.assert_allclose(weights, maps, atol=1e-12)
        np.testing.assert_allclose(weights.sum(axis=2), 1, atol=1e-12)
    np.testing.assert_array_equal(inspect.attention_weights(model, record), inspect.attention_weights(model, acts, 0))
    with pytest.raises(UsageError, match="layer=2: the model has 2"):
        inspect.attention_weights(model, acts, 2)


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (dict(window=3), r"backbone\.window"),
        (dict(norm_place="pre"), r"backbone\.norm_place"),
        (dict(scaled=False), r"backbone\.scaled"),
        (dict(positions=FrozenDict(far=alibi.Positions())), "positions 'far'"),
    ],
)
def test_maps_of_attention_other_than_berts_are_refused(model, options, option):
    acts, system = (
        inspect.read_activations(model, {"table": [["club"], ["barton"]], "statement": "barton"}),
        model.system,
    )
    changed_model = system.model.clone(backbone=system.model.backbone.clone(**options))
    loaded = api.Loaded(system._replace(model=changed_model), model.params, model.step, model.mesh)
    with pytest.raises(UsageError, match=f"attention as in BERT, which {option} changes"):
        inspect.attention_weights(loaded, acts)


def test_padding_and_other_segments_get_no_attention(rng):
    layer = {"qkv_kernel": rng.normal(size=(8, 3, 2, 4)), "qkv_bias": rng.normal(size=(3, 2, 4))}
    x, segments = rng.normal(size=(7, 8)), np.array([1, 1, 2, 2, 2, 0, 0])
    weights = attention.weights(x, layer, segments)
    np.testing.assert_allclose(weights.sum(axis=2), [[1, 1, 1, 1, 1, 0, 0]] * 2)
    for segment in (slice(0, 2), slice(2, 5)):
        np.testing.assert_allclose(weights[:, segment, segment], attention.weights(x[segment], layer), rtol=1e-12)
    assert not weights[:, :2, 2:].any() and not weights[:, :, 5:].any() and not weights[:, 5:].any()
    with pytest.raises(UsageError, match="no attention of an encoder's layer"):
        attention.weights(x, {"kernel": 0})


def test_a_map_is_drawn_with_its_names(rng):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, axes = pyplot.subplots()
    image = attention.draw_map(
        axes, rng.random((2, 3)), ["a", "$5"], ["b", "⟨7⟩", "c"], ([0, 1], [0, 1, 0]), "layer 0"
    )
    assert image.get_array().shape == (2, 3)
    figure.draw_without_rendering()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", r"\$5"]
    assert [label.get_weight() for label in axes.get_xticklabels()] == ["normal", "bold", "normal"]
    with pytest.raises(UsageError, match=r"shape \(2, 3\) for 3 rows"):
        attention.draw_map(axes, rng.random((2, 3)), ["a"] * 3, ["b"] * 3)
    pyplot.close(figure)
