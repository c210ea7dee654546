"""TagOp's head and losses against a slow computation; rates by path."""

from __future__ import annotations

import collections
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.evals import score
from numjax.heads import tagop
from numjax.train import optim
from numjax.types import Tokens
from tests import drawn


def compute_slowly(h, units, weights, order, operands="numbers"):
    """Returns the head's four distributions and unit scores, computed one number at a time in float64."""

    def apply_network(name, x):
        w = {k: np.asarray(v, np.float64) for k, v in weights[name].items()}
        up = x @ w["up_kernel"] + w["up_bias"]
        up = np.asarray([0.5 * u * (1 + math.erf(u / math.sqrt(2))) for u in up])
        up = (up - up.mean()) / np.sqrt(up.var() + 1e-5) * w["ln_scale"] + w["ln_bias"]
        logits = up @ w["down_kernel"] + w["down_bias"]
        return logits - np.log(np.exp(logits).sum())

    h = np.asarray(h, np.float64)
    unit, group, numeric = units.T

    def average(mask):
        return h[mask].mean(axis=0) if mask.any() else np.zeros(h.shape[1])

    tags = np.stack([apply_network("tags", x) for x in h])
    best = collections.defaultdict(float)
    for u, tag in zip(unit, tags, strict=True):
        if u:
            best[u] = max(best[u], math.exp(tag[1]))
    is_operand = unit > 0 if operands == "all" else numeric > 0
    numbers = sorted({int(u) for u in unit[is_operand]}, key=lambda u: (-best[u], u))[:2]
    pair = [average(unit == u) for u in sorted(numbers)]
    x = np.concatenate(pair) if order == "concat" else (pair[0] + pair[1]) / 2
    return {
        "operator": apply_network("operator", h[0]),
        "scale": apply_network("scale", np.concatenate([h[0], average(group == 1), average(group > 1)])),
        "tags": tags,
        "order": apply_network("order", x),
        "best": best,
    }


@pytest.mark.parametrize(("order", "operands"), [("concat", "numbers"), ("mean", "numbers"), ("concat", "all")])
def test_the_head_agrees_with_a_slow_computation(order, operands, rng):
    batch = drawn.add_units(drawn.draw_batch(rng, lengths=[[5, 3], [9], [6]]), rng)
    # The last units have no labels and add nothing to the loss.
    n_labelled = batch.inputs.channels["units"][..., 0].max() - 1
    tags = batch.labels["tags"][:, :n_labelled]
    tags[:, 0] = True
    batch = batch._replace(labels=dict(batch.labels) | {"tags": tags})
    head = build("heads", {"name": "tagop", "order": order, "operands": operands}, width=8)
    h = rng.standard_normal((3, 12, 8)).astype(np.float32)
    params = drawn.draw_params(head, rng, h, batch.inputs)

    @jax.jit
    def run(params, h):
        out = head.apply({"params": params}, h, batch.inputs)
        return out.weights, head.log_prob(out, batch.labels), head.best(out)

    weights, parts, best = run(params, h)
    for b in range(3):
        units = batch.inputs.channels["units"][b]
        expected = compute_slowly(h[b], units, {n: weights[n] for n in tagop.PARTS}, order, operands)
        labels = {name: value[b] for name, value in batch.labels.items()}
        for name in ("operator", "scale"):
            assert parts[name][b] == pytest.approx(expected[name][labels[name]], abs=1e-4)
        labelled = [(t, u) for t, u in enumerate(units[:, 0]) if 0 < u <= n_labelled]
        tags = sum(expected["tags"][t][int(labels["tags"][u - 1])] for t, u in labelled)
        assert parts["tags"][b] == pytest.approx(tags, abs=1e-3)
        operator, scale, swapped, confidence = best[b, :4]
        assert (operator, scale) == (expected["operator"].argmax(), expected["scale"].argmax())
        assert swapped == expected["order"].argmax()
        assert confidence == pytest.approx(expected["operator"].max() + expected["scale"].max(), abs=1e-4)
        scores = [expected["best"].get(u, -1.0) for u in range(1, 13)]
        np.testing.assert_allclose(best[b, 4:], scores, atol=1e-5)


def test_missing_parts_are_not_scored(rng):
    drawn_batch = drawn.add_units(drawn.draw_batch(rng), rng)
    head = build("heads", {"name": "tagop"}, width=8)
    h = rng.standard_normal((3, 12, 8)).astype(np.float32)
    params = drawn.draw_params(head, rng, h, drawn_batch.inputs)
    labels = dict(drawn_batch.labels)
    labels |= {"operator": np.int32([-1, 2, 3]), "scale": np.int32([0, -1, 1]), "order": np.int32([0, -1, 1])}
    labels["tags"] = np.ones_like(labels["tags"])
    labels["operands"] = np.int32([[0, 1], [0, 1], [0, 11]])  # the last row lacks its second unit
    out = head.apply({"params": params}, h, drawn_batch.inputs)
    parts = head.log_prob(out, labels)
    is_zero = {name: np.asarray(part == 0).tolist() for name, part in parts.items()}
    assert is_zero == {
        "operator": [True, False, False],
        "scale": [False, True, False],
        "tags": [True, False, False],
        "order": [False, True, True],
    }
    labelled_batch = drawn_batch._replace(labels=labels)
    for name, count in (("operator", 2), ("scale", 2), ("tags", 2), ("order", 1)):
        row = build("objectives", {"name": "tagop", "head": "a", "part": name})
        total = build("objectives", {"name": "tagop", "head": "a", "part": name, "average": "sum"})
        loss, plain_sum = (o({"a": head}, {"a": out}, {}, labelled_batch) for o in (row, total))
        assert loss.count == count and loss.parts["accuracy"][1] == count
        assert loss.total == pytest.approx(-float(parts[name].sum()), rel=1e-6)
        assert plain_sum.total == loss.total and plain_sum.count == 1
    with pytest.raises(UsageError, match="units"):
        head.init(jax.random.key(0), h, drawn_batch.inputs._replace(channels={}))
    for option, message in (("order", "concat or mean"), ("operands", "numbers or all"), ("tagged", "found or all")):
        with pytest.raises(UsageError, match=message):
            build("heads", {"name": "tagop", option: "sum"}, width=8).init(jax.random.key(0), h, drawn_batch.inputs)


def test_a_row_cut_before_its_answer_trains_no_tags(rng):
    """Three rows hold units 1 and 2; their answers are units 1 and 3, unit 3, and none."""
    units = np.tile(np.int32([[0, 0, 0], [1, 1, 1], [2, 1, 1]]), (3, 1, 1))
    ids = np.zeros((3, 3), np.int32)
    tokens = Tokens(ids, ids, ids + 1, channels={"units": units})
    labels = {name: np.zeros(3, np.int32) for name in ("operator", "scale")}
    labels |= {"order": np.full(3, -1, np.int32), "operands": np.full((3, 2), -1, np.int32)}
    labels["tags"] = np.bool_([[1, 0, 1], [0, 0, 1], [0, 0, 0]])
    h = rng.standard_normal((3, 3, 8)).astype(np.float32)
    for tagged, is_scored in (("found", [True, False, False]), ("all", [True, True, True])):
        head = tagop.Head(width=8, dropout=0.0, tagged=tagged)
        params = drawn.draw_params(head, rng, h, tokens)
        gradient = jax.grad(
            lambda h, head, params: head.log_prob(_apply_head(head, params, h, tokens), labels)["tags"].sum()
        )
        assert (np.abs(gradient(h, head, params)).sum((1, 2)) > 0).tolist() == is_scored
        batch = drawn.draw_batch(rng)._replace(labels=labels, valid=None)
        objective = build("objectives", {"name": "tagop", "head": "a", "part": "tags"})
        loss = objective({"a": head}, {"a": _apply_head(head, params, h, tokens)}, {}, batch)
        assert loss.count == sum(is_scored) and tuple(map(float, loss.parts["share"])) == (sum(is_scored), 3)


def _apply_head(head, params, h, tokens):
    return head.apply({"params": params}, h, tokens)


@pytest.mark.parametrize("order", ["concat", "mean"])
def test_order_is_learned_from_both_units_and_not_from_their_mean(order, rng):
    """The order is which of two vectors has the larger first coordinate; their mean does not show it."""
    n_rows = 64
    head = tagop.Head(width=8, order=order, dropout=0.0, init_std=0.3)
    units = np.tile(np.int32([[0, 0, 0], [1, 1, 1], [2, 1, 1]]), (n_rows, 1, 1))
    ids = np.zeros((n_rows, 3), np.int32)
    tokens = Tokens(ids, ids, ids + 1, channels={"units": units})
    labels = {
        "operator": np.zeros(n_rows, np.int32), "scale": np.zeros(n_rows, np.int32),
        "tags": np.ones((n_rows, 3), bool), "operands": np.tile(np.int32([0, 1]), (n_rows, 1)),
    }  # fmt: skip

    def draw_rows():
        h = rng.standard_normal((n_rows, 3, 8)).astype(np.float32)
        return h, labels | {"order": (h[:, 2, 0] > h[:, 1, 0]).astype(np.int32)}

    h, row_labels = draw_rows()
    params = head.init(jax.random.key(0), h, tokens)["params"]
    optimizer = optax.adam(1e-2)
    state = optimizer.init(params)

    @jax.jit
    def step(params, state, h, order):
        def loss(params):
            return -head.log_prob(head.apply({"params": params}, h, tokens), labels | {"order": order})[
                "order"
            ].mean()

        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    for _ in range(150):
        h, row_labels = draw_rows()
        params, state = step(params, state, h, row_labels["order"])
    is_right = []
    for _ in range(4):
        h, row_labels = draw_rows()
        is_right.append(head.right(head.apply({"params": params}, h, tokens), row_labels, "order").mean())
    accuracy = float(jnp.mean(jnp.stack(is_right)))
    assert accuracy > 0.9 if order == "concat" else accuracy < 0.7, accuracy


def test_unit_scores_ignore_positions_outside_units():
    p, unit = np.float32([[0.9, 0.2, 0.7, 0.4]]), np.int32([[0, 1, 1, 3]])
    np.testing.assert_allclose(tagop.unit_scores(jnp.asarray(p), jnp.asarray(unit)), [[0.7, -1, 0.4, -1]])


def test_collected_rows_are_real_and_as_wide_as_their_batch():
    """The rows of a narrower batch are not filled up with units of probability 0."""
    short = np.float32([[2, 0, 0, -1, 0.5], [3, 0, 0, -1, 0.4]])
    long = np.float32([[1, 0, 0, -2, 0.2, 0.0, 0.9]])
    predictions: dict = {}
    for ids, rows, valid in ((np.int32([3, 0]), short, [True, False]), (np.int32([7]), long, [True])):
        score._collect(({}, {"answer": rows}, ids, np.bool_(valid)), {}, predictions)
    assert predictions.keys() == {3, 7}
    np.testing.assert_array_equal(predictions[3], short[0])
    np.testing.assert_array_equal(predictions[7], long[0])


def test_weight_decay_by_path(rng):
    """Each part is updated as by AdamW with the part's decay; biases never decay."""
    shapes = {"backbone": {"up_kernel": (3,), "bias": (2,)}, "heads_answer": {"out_kernel": (4,), "bias": (2,)}}
    params, grads = (
        {
            part: {name: jnp.asarray(rng.standard_normal(s), jnp.float32) for name, s in part_shapes.items()}
            for part, part_shapes in shapes.items()
        }
        for _ in range(2)
    )

    def update(decay, **options):
        optimizer = optim.adamw(optim.schedule("constant", 1e-2, 10), weight_decay=decay, **options)
        return optimizer.update(grads, optimizer.init(params), params)[0]

    updates = update(0.5, weight_decays=(("^heads_", 0.02),), rates=(("^backbone/", 0.1),))
    assert_close = functools.partial(jax.tree.map, functools.partial(np.testing.assert_allclose, rtol=1e-6))
    assert_close(updates["backbone"], jax.tree.map(lambda x: x / 10, update(0.5)["backbone"]))
    assert_close(updates["heads_answer"], update(0.02)["heads_answer"])
    assert not np.allclose(updates["heads_answer"]["out_kernel"], update(0.5)["heads_answer"]["out_kernel"])


def test_rates_by_path_scale_the_updates(rng):
    """The encoder's updates, decay included, are a thirtieth; the others do not change."""
    kernels = {name: jnp.asarray(rng.standard_normal(5), jnp.float32) for name in ("backbone", "heads_answer")}
    params = {name: {"up_kernel": value} for name, value in kernels.items()}
    grads = jax.tree.map(lambda x: jnp.asarray(rng.standard_normal(x.shape), jnp.float32), params)
    all_updates = []
    for rates in ((), (("^backbone/", 1 / 30), (".*/up_kernel", 1.0))):
        optimizer = optim.adamw(optim.schedule("constant", 1e-2, 10), rates=rates)
        all_updates.append(optimizer.update(grads, optimizer.init(params), params)[0])
    plain_updates, scaled = all_updates
    assert_close = functools.partial(np.testing.assert_allclose, rtol=1e-6)
    assert_close(scaled["backbone"]["up_kernel"], plain_updates["backbone"]["up_kernel"] / 30)
    assert_close(scaled["heads_answer"]["up_kernel"], plain_updates["heads_answer"]["up_kernel"])
