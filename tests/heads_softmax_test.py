"""Heads with a softmax over tokens, spans or labels against loops in float64: masks, teachers, scaling and pools."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.heads import span
from numjax.numeral.exact import to_decimals
from numjax.types import Allowed
from tests import drawn

WIDTH, VOCAB, SIZE = drawn.CONTEXT["width"], drawn.VOCAB, drawn.SIZE


def log_softmax(x):
    top = x.max(-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))


def make(rng, name, **options):
    """(head, its parameters, a batch, hidden states, a table)."""
    head = build("heads", {"name": name} | options, **drawn.CONTEXT)
    batch = drawn.draw_batch(rng)
    hidden = rng.standard_normal((*batch.inputs.ids.shape, WIDTH)).astype(np.float32)
    table = rng.standard_normal((VOCAB, WIDTH)).astype(np.float32)
    return head, drawn.draw_params(head, rng, hidden, batch.inputs, table, scale=1.0), batch, hidden, table


def logits_of(params, hidden, table, *, scaled=False, tied=True):
    """The logits of heads/token.py: h Wᵀ + b, h divided by √D if it is scaled."""
    kernel = np.asarray(table if tied else params["kernel"], np.float64)
    return hidden.astype(np.float64) / (WIDTH**0.5 if scaled else 1) @ kernel.T + np.asarray(params.get("bias", 0.0))


@pytest.mark.parametrize(
    "options", [{}, {"bias": True}, {"scaled": True}, {"tied": False, "bias": True, "chunk_rows": 5}]
)
def test_tokens_have_the_softmax_over_the_allowed_ids_in_use(rng, options):
    head, params, batch, hidden, table = make(rng, "token", **options)
    kinds = {name: options[name] for name in ("scaled", "tied") if name in options}
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    class_of = rng.integers(0, 4, VOCAB).astype(np.int32)
    targets, weights = batch.targets, rng.random(batch.targets.ids.shape).astype(np.float32)
    classes = rng.random((*targets.ids.shape, 4)) < 0.5
    np.put_along_axis(classes, class_of[targets.ids][..., None], True, axis=-1)  # targets are legal
    for allowed in (None, Allowed(jnp.asarray(classes), jnp.asarray(class_of))):
        logits = logits_of(params, hidden, table, **kinds)
        logits[..., SIZE:] = -np.inf
        if allowed is not None:
            logits[~np.take(classes, class_of, axis=-1)] = -np.inf
        wanted = np.take_along_axis(log_softmax(logits), targets.ids[..., None], axis=-1)[..., 0]
        np.testing.assert_allclose(head.log_prob(out, targets, allowed)["token"], wanted, rtol=1e-4, atol=1e-4)
        total = head.total_log_prob(out, targets, jnp.asarray(weights), allowed)["token"]
        np.testing.assert_allclose(total, (weights * wanted).sum(), rtol=1e-4)
    ids = np.int32([0, 3, 7])
    np.testing.assert_allclose(
        head.token_logits(out, ids), logits_of(params, hidden, table, **kinds)[..., ids], rtol=1e-4, atol=1e-4
    )


def test_a_step_is_a_softmax_over_what_is_allowed(rng):
    head, params, batch, hidden, table = make(rng, "token", bias=True)
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    step = out._replace(hidden=out.hidden[:, 0])
    allowed = np.asarray(rng.random((len(hidden), VOCAB)) < 0.5)
    allowed[:, :2] = True
    for mask in (None, allowed):
        logits = logits_of(params, hidden[:, 0], table)
        logits[..., SIZE:] = -np.inf
        logits = np.where(mask, logits, -np.inf) if mask is not None else logits
        mass = np.asarray(head.step_scores(step, mask).mass)
        legal = np.isfinite(logits)
        np.testing.assert_allclose(mass[legal], log_softmax(logits)[legal], rtol=1e-4, atol=1e-4)
        assert (mass[~legal] < -1e9).all()


def test_a_teacher_is_met_by_the_cross_entropy_of_two_softmaxes(rng):
    head, params, batch, hidden, table = make(rng, "masked")
    inner = head.apply({"params": params}, hidden, batch.inputs, table)
    other = inner._replace(
        hidden=jnp.asarray(rng.standard_normal(inner.hidden.shape), jnp.float32),
        weights={"kernel": inner.weights["kernel"], "bias": -inner.weights["bias"]},
    )
    weights = rng.random(hidden.shape[:2]).astype(np.float32)
    logs = []
    for out in (inner, other):
        kernel, bias = (np.asarray(out.weights[name], np.float64)[:SIZE] for name in ("kernel", "bias"))
        logs.append(log_softmax(np.asarray(out.hidden, np.float64) @ kernel.T + bias))
    wanted = -(weights[..., None] * np.exp(logs[1]) * logs[0]).sum()
    total = head.total_cross_entropy(inner, other, jnp.asarray(weights))
    assert wanted > 0 and float(total) == pytest.approx(wanted, rel=1e-4)
    gradient = jax.grad(
        lambda states: head.total_cross_entropy(inner, other._replace(hidden=states), jnp.asarray(weights))
    )(other.hidden)
    assert not np.asarray(gradient).any(), "the teacher is not trained"


@pytest.mark.parametrize("longest", [1, 3, 30])
def test_the_best_span_is_that_of_a_search_over_all(rng, longest):
    for _ in range(20):
        start, end = (rng.integers(-3, 4, (2, 7)).astype(np.float32) for _ in range(2))  # with equals
        first, last, score = (np.asarray(x) for x in span.best_span(jnp.asarray(start), jnp.asarray(end), longest))
        for row in range(2):
            spans = [(i, j) for i in range(7) for j in range(i, min(7, i + longest))]
            best = max(start[row, i] + end[row, j] for i, j in spans)
            winner = next(pair for pair in spans if start[row, pair[0]] + end[row, pair[1]] == best)
            assert (first[row], last[row], score[row]) == (*winner, best)


def test_spans_lie_in_the_second_text_without_its_last_mark(rng):
    batch = drawn.draw_batch(rng)
    types = (np.arange(12)[None] >= np.int32([[2], [3], [4]])).astype(np.int32)
    plain = batch.inputs
    used = np.asarray(plain.segment_ids > 0)
    np.testing.assert_array_equal(span.legal_positions(plain), used)
    for channel in (types, np.stack([types, 1 - types], axis=-1)):
        legal = np.asarray(span.legal_positions(plain._replace(channels={"types": channel})))
        for row in range(len(used)):
            inside = [t for t in range(12) if used[row, t] and types[row, t] == 1]
            assert np.flatnonzero(legal[row]).tolist() == [t for t in inside if t != used[row].sum() - 1]


def test_span_probabilities_are_two_softmaxes_over_the_context(rng):
    head, params, batch, hidden, table = make(rng, "span")
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    legal = np.asarray(batch.inputs.segment_ids > 0)
    logits = hidden.astype(np.float64) @ np.asarray(params["kernel"]) + np.asarray(params["bias"])
    logs = [log_softmax(np.where(legal, logits[..., i], -np.inf)) for i in range(2)]
    labels = batch.labels["span"]
    parts = head.log_prob(out, jnp.asarray(labels))
    for i, name in enumerate(("start", "end")):
        np.testing.assert_allclose(
            parts[name], [log[t] for log, t in zip(logs[i], labels[:, i], strict=True)], rtol=1e-4
        )
    best = np.asarray(head.best(out))
    for row, (first, last, score, log_prob) in enumerate(best):
        pair = int(first), int(last)
        assert score == pytest.approx(logits[row, pair[0], 0] + logits[row, pair[1], 1], rel=1e-4)
        assert log_prob == pytest.approx(logs[0][row, pair[0]] + logs[1][row, pair[1]], rel=1e-4)


POOLS = [("end", False, True), ("first", True, False), ("last_padded", False, True), ("attention", True, True)]


@pytest.mark.parametrize(("pool", "pooler", "use_bias"), POOLS)
def test_labels_depend_on_the_pooled_state(rng, pool, pooler, use_bias):
    head, params, batch, hidden, table = make(rng, "classify", pool=pool, pooler=pooler, use_bias=use_bias)
    exact = {name: np.asarray(value, np.float64) for name, value in params.items()}
    assert ("bias" in exact) == use_bias
    used = np.asarray(batch.inputs.segment_ids > 0)
    wanted = []
    for states, valid in zip(hidden.astype(np.float64), used, strict=True):
        if pool == "attention":
            weights = np.exp(log_softmax(np.where(valid, states @ exact["attention"], -np.inf)))
            pooled = weights @ states
        else:
            pooled = states[{"end": valid.sum() - 1, "first": 0, "last_padded": -1}[pool]]
        if pooler:
            pooled = np.tanh(pooled @ exact["pooler_kernel"] + exact["pooler_bias"])
        wanted.append(log_softmax(pooled @ exact["kernel"] + exact.get("bias", 0)))
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    np.testing.assert_allclose(head.log_probs(out), wanted, rtol=1e-4, atol=1e-4)
    labels = np.int32([0, 2, 1])
    chosen = np.asarray(wanted)[range(3), labels]
    np.testing.assert_allclose(head.log_prob(out, jnp.asarray(labels))["label"], chosen, rtol=1e-4, atol=1e-4)


def test_an_lstm_over_rows_of_columns_has_the_width_of_a_row_unless_it_is_given(rng):
    for options, width in (({"columns": 3}, 3 * WIDTH), ({"columns": 2, "hidden": 5}, 5), ({}, WIDTH)):
        _, params, *_ = make(rng, "classify", pool="lstm", **options)
        assert params["kernel"].shape[0] == width


def test_regression_is_two_squared_errors_of_size_and_sign(rng):
    head, params, batch, hidden, table = make(rng, "regression", dropout=0.0)
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    targets = drawn.add_numerals(batch)
    exact = {name: np.asarray(value, np.float64) for name, value in params.items()}
    x = hidden.astype(np.float64) @ exact["transform_kernel"] + exact["transform_bias"]
    x = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    predicted = (x * exact["ln_scale"] + exact["ln_bias"]) @ exact["value_kernel"] + exact["value_bias"]
    values = to_decimals(targets.numerals)
    errors, logs = np.zeros(hidden.shape[:2]), np.zeros(hidden.shape[:2])
    for at, value in zip(np.ndindex(*hidden.shape[:2]), values, strict=True):
        if value is not None:
            size, sign = math.log(1e-7 + abs(float(value))), (value > 0) - (value < 0)
            errors[at] = ((predicted[at] - [size, sign]) ** 2).mean()
            logs[at] = -errors[at] - math.log(2 * math.pi)
    np.testing.assert_allclose(head.error(out, targets.numerals), errors, rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(head.log_prob(out, targets)["number"], logs, rtol=1e-3, atol=1e-3)
    weights = rng.random(hidden.shape[:2]).astype(np.float32)
    total = head.total_log_prob(out, targets, jnp.asarray(weights))["number"]
    np.testing.assert_allclose(total, (weights * logs).sum(), rtol=1e-3)


def test_masked_tokens_are_transformed_by_the_exact_gelu_and_a_norm(rng):
    head, params, batch, hidden, table = make(rng, "masked")
    exact = {name: np.asarray(value, np.float64) for name, value in params.items()}
    x = hidden.astype(np.float64) @ exact["transform_kernel"] + exact["transform_bias"]
    x = x * (1 + np.vectorize(math.erf)(x / math.sqrt(2))) / 2
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-12)
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    np.testing.assert_allclose(out.hidden, x * exact["ln_scale"] + exact["ln_bias"], rtol=1e-4, atol=2e-5)
    np.testing.assert_array_equal(out.weights["kernel"], table)
