"""LUNA's pre-training: its losses against the authors' numbers and float64, and what its teacher does."""

from __future__ import annotations

import functools
import json
from decimal import Decimal
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.heads import masked, regression
from numjax.model import Model
from numjax.nn import cross_entropy
from numjax.nn.ramp import Ramp
from numjax.numeral.exact import to_numeral
from numjax.train.step import eval_step, find_teacher_objective, losses, train_step, weights_at
from numjax.types import Batch, HeadOut, Targets, Tokens, TrainState
from tests import drawn

MASKED = build("objectives", {"name": "masked", "head": "masked", "numbers": "number"})
DISTILL = {"name": "distill", "head": "masked", "momentum": 0.9}


@pytest.fixture(scope="module")
def reference(real_data):
    folder = real_data("luna_reference")
    return np.load(folder / "pretrain_loss.npz"), json.loads((folder / "pretrain_loss.json").read_text())


def test_losses_equal_the_authors(reference):
    arrays, facts = reference
    rows, length, size = arrays["logits"].shape
    numbers = np.flatnonzero(arrays["input_ids"] == facts["num_token_id"])
    index = np.full(rows * length, -1, np.int32)
    table = []
    for b in range(rows):
        mine = numbers[numbers // length == b]
        index[mine] = np.arange(len(mine))
        first = int(np.searchsorted(numbers, b * length))
        texts = [s.replace(",", "") for s in facts["number_strings"][first : first + len(mine)]]
        values = [Decimal(s.rstrip("%")) / (100 if s.endswith("%") else 1) for s in texts]
        table.append([*values, *[None] * (9 - len(mine))])
    tokens = Tokens(arrays["input_ids"], None, None, numerals=drawn.make_numeral_table(table, 12))
    # Logits as they are: hidden states times the identity.
    head = masked.Head(size, size, size)
    eye = {"kernel": jnp.eye(size), "bias": jnp.zeros(size)}
    outs: dict[str, Any] = {"masked": HeadOut(arrays["logits"], eye)}
    teacher_outs = {"masked": HeadOut(arrays["teacher_logits"], eye)}
    number = regression.Head(arrays["hidden"].shape[-1])
    layers = {"transform": ("fc1", "kernel"), "ln": ("ln", "scale"), "value": ("fc2", "kernel")}
    params = {f"{mine}_{kind}": arrays[f"reg_head.{theirs}.weight"].T for mine, (theirs, kind) in layers.items()}
    params |= {f"{mine}_bias": arrays[f"reg_head.{theirs}.bias"] for mine, (theirs, _) in layers.items()}
    outs["number"] = number.apply({"params": params}, arrays["hidden"], tokens)
    heads = {"masked": head, "number": number}
    distill = build("objectives", DISTILL)
    for case, more in (("mse", {"numbers": "number"}), ("no_regression", {})):
        objective = build("objectives", {"name": "masked", "head": "masked"} | more)

        def compute_losses(mask, objective=objective):
            batch = Batch(tokens, Targets(arrays["input_ids"], mask, index.reshape(rows, length)))
            return objective(heads, outs, {}, batch), distill(heads, outs, {}, batch, teacher_outs)

        run = jax.jit(compute_losses)
        for mask, expected in facts["cases"][case].items():
            for loss, name in zip(run(arrays[f"mask_{mask}"]), ("loss_mlm", "loss_distill"), strict=True):
                mean = float(loss.total) / max(float(loss.count), 1)
                assert mean == pytest.approx(expected[name], rel=1e-5, abs=1e-7), (case, mask, name)
    target = regression.target(jax.tree.map(lambda x: x.reshape(-1, *x.shape[2:]), tokens.numerals))
    flat = np.asarray([v is not None for row in table for v in row])
    np.testing.assert_allclose(np.asarray(target)[flat], arrays["target_log_sgn"], rtol=1e-6, atol=1e-6)


def test_the_weight_of_distillation_rises_as_in_the_authors_code(reference):
    schedule = reference[1]["alpha_schedule"]
    alpha, rest = Ramp(0.04, 0.4, schedule["warmup"]), Ramp(0.96, 0.6, schedule["warmup"])
    for step, value in schedule["values"].items():
        assert float(alpha(jnp.int32(step))) == pytest.approx(value, rel=1e-6)
        assert float(rest(jnp.int32(step))) == pytest.approx(1 - value, rel=1e-6)
    assert weights_at({"a": alpha, "b": 2.0}, None) == {"a": 0.4, "b": 2.0}


def test_the_weight_of_distillation_rises_from_a_tenth():
    alpha = Ramp(0.04, 0.4, 1000)
    for step in (0, 1, 333, 1000, 5000):
        assert float(alpha(jnp.int32(step))) == pytest.approx(0.4 * min(1, 0.1 + 0.9 * step / 1000), rel=1e-6)


def test_regression_targets_are_bounded_at_any_size():
    """ "7e12345678" occurs in a text and in no table; it weighs no more than other large numbers."""
    texts = ("0", "-0", "1", "-1e30", "1e-300", "123456789012", "-0.0000001", "-1e300", "7e12345678")
    values = [Decimal(v) for v in texts]
    targets = np.asarray(regression.target(to_numeral(values, 8)))
    sizes = [np.log(1e-7 + abs(float(v))) for v in values[:7]] + [80, 80]
    np.testing.assert_allclose(targets[:, 0], sizes, rtol=1e-5)
    assert targets[:, 1].tolist() == [0, 0, 1, -1, 1, 1, -1, -1, 1]


@pytest.mark.parametrize("chunk_rows", [None, 7])
def test_soft_cross_entropy_against_float64(rng, chunk_rows):
    rows, length, width, size, padded = 3, 9, 5, 11, 16
    x, y = rng.standard_normal((2, rows, length, width))
    w, v = rng.standard_normal((2, padded, width))
    b, c = rng.standard_normal((2, padded))
    weights = np.where(rng.random((rows, length)) < 0.5, rng.random((rows, length)), 0)

    def log_softmax(z):
        z = z[..., :size]
        return z - np.log(np.exp(z).sum(-1, keepdims=True))

    log_q, p = log_softmax(x @ w.T + b), np.exp(log_softmax(y @ v.T + c))
    expected = (weights * (p * log_q).sum(-1)).sum()
    slope = weights[..., None] * (p - np.exp(log_q))

    def total(x, w, b, y, v, c):
        aim = cross_entropy.Teacher(y, v, c)
        options: Any = dict(size=size, chunk_rows=chunk_rows, bias=b)
        return cross_entropy.total_soft_log_prob(x, w, aim, jnp.asarray(weights, jnp.float32), **options)

    args = [jnp.asarray(a, jnp.float32) for a in (x, w, b, y, v, c)]
    value, grads = jax.jit(jax.value_and_grad(total, argnums=range(6)))(*args)
    assert float(value) == pytest.approx(expected, rel=1e-5)
    assert float(jax.jit(total)(*args)) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(grads[0], slope @ w[:size], atol=1e-5)
    np.testing.assert_allclose(grads[1][:size], np.einsum("btv,btd->vd", slope, x), atol=1e-5)
    np.testing.assert_allclose(grads[2][:size], slope.sum((0, 1)), atol=1e-5)
    assert not any(np.any(g) for g in (*grads[3:], grads[1][size:], grads[2][size:])), "the teacher learns nothing"


# ---------------------------------------------------------------------------------------------------
# The teacher in a step.


@pytest.fixture(scope="module")
def small_model():
    """A small encoder with both heads, its parameters, and a masked batch."""
    rng = np.random.default_rng(3)
    base = drawn.build_model({"name": "prototype", "exponent_dim": 4}, {"name": "masked"}, fusion="add", layers=1)
    backbone = drawn.build_backbone({"name": "encoder", "width": 16, "layers": 1, "heads": 2, "max_length": 16})
    blocks = {"masked": {"name": "masked"}, "number": {"name": "regression", "dropout": 0.0}}
    heads = {name: build("heads", block, **drawn.CONTEXT) for name, block in blocks.items()}
    model = Model(base.embeds, base.fusions, backbone, heads)
    batch = drawn.draw_batch(rng, lengths=[[9], [7], [5], [8]])
    mask = (np.asarray(batch.inputs.segment_ids) > 0) & (rng.random(batch.inputs.ids.shape) < 0.5)
    targets = Targets(batch.inputs.ids, mask, batch.inputs.numeral_index)
    hidden = np.where(mask, np.int32(-1), np.asarray(batch.inputs.numeral_index))
    batch = batch._replace(targets=targets, inputs=batch.inputs._replace(numeral_index=hidden))
    return model, batch, drawn.draw_params(model, rng, batch)


STEPS, RATE = 3, 0.3


@pytest.fixture(scope="module")
def runs(small_model):
    """{(microbatches, whether the teacher moves with each): (the states of three SGD steps, the last metrics)}."""
    model, batch, params = small_model
    optimizer, results = optax.sgd(RATE), {}
    weights = {"distill": Ramp(0.04, 0.4, STEPS), "masked": Ramp(0.96, 0.6, STEPS)}
    for accumulate, each_microbatch in ((1, False), (2, False), (2, True)):
        objectives = {
            "distill": build("objectives", DISTILL | {"each_microbatch": each_microbatch}),
            "masked": MASKED,
        }
        body = functools.partial(train_step, model, objectives, weights, optimizer, lambda step: RATE, accumulate)
        step, metrics = jax.jit(body), {}
        states = [TrainState(jnp.int32(0), params, optimizer.init(params), jax.tree.map(jnp.copy, params))]
        for _ in range(STEPS):
            state, metrics = step(0, states[-1], batch)
            states.append(state)
        results[accumulate, each_microbatch] = states, metrics
    return results


@pytest.mark.parametrize(("accumulate", "each_microbatch"), [(1, False), (2, False), (2, True)])
def test_the_teacher_is_a_moving_mean_of_the_student(runs, accumulate, each_microbatch):
    states, metrics = runs[accumulate, each_microbatch]
    tau = DISTILL["momentum"] ** (accumulate if each_microbatch else 1)
    # After n steps: τⁿ θ_0 + (1 − τ) Σ τ^(n−1−i) θ_i, where θ_i are the parameters before step i.
    shares = [(1 - tau) * tau ** (STEPS - 1 - i) for i in range(STEPS)]
    shares[0] += tau**STEPS
    params = [state.params for state in states[:STEPS]]
    expected = jax.tree.map(lambda *ps: sum(s * np.float64(p) for s, p in zip(shares, ps, strict=True)), *params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), states[-1].ema, expected)
    differences = jax.tree.map(lambda a, b: np.abs(np.asarray(a) - b).max(), states[-1].params, expected)
    assert max(jax.tree.leaves(differences)) > 1e-3
    assert {"loss", "distill", "masked", "masked/token", "masked/number"} <= set(metrics)


def test_microbatches_change_nothing(runs):
    whole, halves = runs[1, False], runs[2, False]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), whole[0][-1], halves[0][-1])
    for name in ("distill", "masked", "masked/number"):
        np.testing.assert_allclose(whole[1][name], halves[1][name], rtol=1e-4)
    step = STEPS - 1
    alpha = 0.04 + 0.36 * step / STEPS
    parts = {name: float(whole[1][name][0]) / float(whole[1][name][1]) for name in ("distill", "masked", "loss")}
    assert parts["loss"] == pytest.approx(alpha * parts["distill"] + (1 - alpha) * parts["masked"], rel=1e-5)


def test_distillation_pulls_the_student_and_leaves_the_teacher(small_model):
    model, batch, params = small_model
    objectives = {"distill": build("objectives", DISTILL)}
    ema = jax.tree.map(lambda p: p + 0.1, params)

    def compute_loss(params, ema):
        return losses(model, objectives, params, batch, None, ema)["distill"].total

    student_grads, teacher_grads = jax.jit(jax.grad(compute_loss, (0, 1)))(params, ema)
    assert any(np.any(g) for g in jax.tree.leaves(student_grads))
    assert not any(np.any(g) for g in jax.tree.leaves(teacher_grads))
    # At the teacher's own parameters the gradient is zero.
    grads, _ = jax.jit(jax.grad(compute_loss, (0, 1)))(ema, ema)
    assert max(np.abs(g).max() for g in jax.tree.leaves(grads)) < 1e-4


def test_heads_on_scored_positions_only_give_the_same_gradient(small_model):
    """At most nine of twelve positions are scored, in some rows more than three."""
    model, batch, params = small_model
    ema = jax.tree.map(lambda p: p + 0.1, params)
    scored = np.asarray(batch.targets.mask).sum(axis=1).max()
    assert scored > 0.25 * 12 and scored <= 0.75 * 12

    def compute_gradient(room):
        blocks = {"distill": DISTILL, "masked": {"name": "masked", "head": "masked", "numbers": "number"}}
        objectives = {name: build("objectives", block | {"room": room}) for name, block in blocks.items()}

        def total(params):
            parts = losses(model, objectives, params, batch, None, ema)
            return parts["distill"].total + 2 * parts["masked"].total

        return jax.jit(jax.value_and_grad(total))(params)

    expected = compute_gradient(0.0)
    for room in (0.25, 0.75):
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), compute_gradient(room), expected
        )


def test_evaluations_have_no_teacher(small_model):
    model, batch, params = small_model
    objectives = {"distill": build("objectives", DISTILL), "masked": MASKED}
    weights = {"distill": Ramp(0.04, 0.4, 3), "masked": Ramp(0.96, 0.6, 3)}
    metrics, predictions = jax.jit(functools.partial(eval_step, model, objectives, weights))(params, batch)
    assert not predictions and "distill" not in metrics
    token, number, (loss, count) = metrics["masked/token"], metrics["masked/number"], metrics["loss"]
    # The rest has no weight, so that it compares with runs without a teacher.
    assert float(loss) == pytest.approx(float(token[0] + number[0]), rel=1e-6)
    assert float(count) == float(token[1] + number[1]) == batch.targets.mask.sum()


def test_bad_combinations_are_refused(small_model):
    model, batch, _ = small_model
    with pytest.raises(UsageError, match="a and b both have a teacher"):
        find_teacher_objective({name: build("objectives", DISTILL) for name in "ab"})
    with pytest.raises(UsageError, match="momentum"):
        build("objectives", DISTILL | {"momentum": 1.5})
    objective = build("objectives", {"name": "masked", "head": "masked", "numbers": "absent"})
    weights = {"kernel": jnp.zeros((drawn.VOCAB, 16)), "bias": jnp.zeros(drawn.VOCAB)}
    with pytest.raises(UsageError, match="add it to config"):
        objective(model.heads, {"masked": HeadOut(jnp.zeros((4, 12, 16)), weights)}, {}, batch)
