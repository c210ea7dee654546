"""LSTMs and the BiLSTM with attention against loops in float64; gradients against those of a plain loop."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.backbone import bilstm
from numjax.build import build
from numjax.errors import UsageError
from numjax.heads.classify import attention_pool
from numjax.nn import lstm
from tests import drawn

SEGMENTS = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0], [1, 1, 2, 2, 2, 0], [0, 0, 0, 0, 0, 0]], np.int32)
WIDTH, HIDDEN = 5, 4


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def run_by_hand(x_BTD, weights, segments, reverse):
    """Returns hidden states and the last state, computed row by row and position by position in float64."""
    w, u, b = (np.asarray(part, np.float64) for part in weights)
    hidden, state = np.zeros((*x_BTD.shape[:2], HIDDEN)), np.zeros((2, len(x_BTD), HIDDEN))
    for row, x_TD in enumerate(x_BTD):
        h = c = np.zeros(HIDDEN)
        segment = None
        for t in reversed(range(len(x_TD))) if reverse else range(len(x_TD)):
            if segments[row, t] == 0:
                continue
            if segments[row, t] != segment:
                segment, h, c = segments[row, t], np.zeros(HIDDEN), np.zeros(HIDDEN)
            gates = x_TD[t].astype(np.float64) @ w + h @ u + b
            i, f, g, o = np.split(gates, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            hidden[row, t] = h
        state[:, row] = h, c
    return hidden, state


@pytest.fixture
def weights(rng):
    shapes = ((WIDTH, 4 * HIDDEN), (HIDDEN, 4 * HIDDEN), (4 * HIDDEN,))
    return lstm.LstmWeights(*(rng.standard_normal(shape).astype(np.float32) for shape in shapes))


@pytest.mark.parametrize("reverse", [False, True])
def test_lstm_is_its_equations_at_every_length(rng, weights, reverse):
    x = rng.standard_normal((*SEGMENTS.shape, WIDTH)).astype(np.float32)
    run = jax.jit(functools.partial(lstm.lstm, reverse=reverse, unroll=2))
    hidden, state = run(x, weights, SEGMENTS)
    expected, expected_state = run_by_hand(x, weights, SEGMENTS, reverse)
    np.testing.assert_allclose(hidden, expected, atol=1e-6)
    np.testing.assert_allclose(np.stack(state), expected_state, atol=1e-6)
    unmasked, _ = run(x, weights, None)
    np.testing.assert_allclose(unmasked, run_by_hand(x, weights, np.ones_like(SEGMENTS), reverse)[0], atol=1e-6)
    # Neither the content nor the length of padding changes the result.
    longer = np.concatenate([np.where(SEGMENTS[..., None] > 0, x, 1e9), np.full((4, 3, WIDTH), -7, np.float32)], 1)
    padded, state_padded = run(longer, weights, np.pad(SEGMENTS, ((0, 0), (0, 3))))
    np.testing.assert_array_equal(padded[:, :6], hidden)
    np.testing.assert_array_equal(np.stack(state_padded), np.stack(state))


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_those_of_a_plain_loop(rng, weights, reverse):
    x = rng.standard_normal((*SEGMENTS.shape, WIDTH)).astype(np.float32)
    cotangent = rng.standard_normal((*SEGMENTS.shape, HIDDEN)).astype(np.float32)
    state_cotangent = rng.standard_normal((2, len(x), HIDDEN)).astype(np.float32)

    def run_plain(x, weights):
        order = range(x.shape[1])[:: -1 if reverse else 1]
        h = c = jnp.zeros((len(x), HIDDEN))
        total = 0.0
        for index, t in enumerate(order):
            is_valid = SEGMENTS[:, t, None] > 0
            if index:
                previous = SEGMENTS[:, order[index - 1], None]
                is_new = is_valid & (previous != SEGMENTS[:, t, None])
                h, c = jnp.where(is_new, 0, h), jnp.where(is_new, 0, c)
            i, f, g, o = jnp.split(x[:, t] @ weights.input + h @ weights.recurrent + weights.bias, 4, axis=-1)
            cell = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
            h, c = jnp.where(is_valid, hidden, h), jnp.where(is_valid, cell, c)
            total = total + jnp.where(is_valid, hidden * cotangent[:, t], 0).sum()
        return total + (state_cotangent * jnp.stack([h, c])).sum()

    def run_lstm(x, weights):
        h, state = lstm.lstm(x, weights, SEGMENTS, reverse=reverse)
        return (cotangent * h).sum() + (state_cotangent * jnp.stack(state)).sum()

    expected, gradients = (jax.jit(jax.value_and_grad(f, (0, 1)))(x, weights) for f in (run_plain, run_lstm))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-5), gradients, expected)


def test_the_backbone_sums_both_directions(rng):
    stack = build("backbone", {"name": "bilstm", "width": WIDTH, "layers": 2})
    tokens = drawn.draw_tokens(rng, 4, 6)[0]._replace(segment_ids=SEGMENTS)
    x = rng.standard_normal((*SEGMENTS.shape, WIDTH)).astype(np.float32)
    params = drawn.draw_params(stack, rng, x, tokens)
    h, acts, cache = jax.jit(lambda x: stack.apply({"params": params}, x, tokens))(x)
    expected = x
    for layer in range(2):
        parts = ("input_kernel", "recurrent_kernel", "bias")
        directions = [
            [params[f"layer_{layer}_{direction}_{part}"] for part in parts] for direction in ("forward", "backward")
        ]
        with pytest.MonkeyPatch.context() as patch:
            patch.setitem(globals(), "HIDDEN", WIDTH)
            expected = sum(
                run_by_hand(expected, w, SEGMENTS, is_reversed)[0]
                for w, is_reversed in zip(directions, (False, True), strict=True)
            )
        np.testing.assert_allclose(acts[f"layer_{layer}"], expected, atol=2e-6)
    np.testing.assert_array_equal(h, acts["final"])
    assert cache is None
    with pytest.raises(UsageError, match="cannot generate"):
        stack.apply({"params": params}, x, tokens, cache=())


def test_dropout_acts_only_in_training(rng):
    stack = bilstm.Backbone(width=WIDTH, dropout=0.5)
    tokens = drawn.draw_tokens(rng, 2, 6)[0]
    x = rng.standard_normal((2, 6, WIDTH)).astype(np.float32)
    params = drawn.draw_params(stack, rng, x, tokens)
    one, two = (
        stack.apply({"params": params}, x, tokens, deterministic=False, rngs={"dropout": jax.random.key(k)})[0]
        for k in (0, 1)
    )
    assert np.abs(one - two).max() > 0.01


def test_attention_pooling_is_its_equation_and_ignores_padding(rng):
    h = rng.standard_normal((4, 6, WIDTH)).astype(np.float32) * 3
    scorer = rng.standard_normal(WIDTH).astype(np.float32)
    vectors = jax.jit(attention_pool)(h, scorer, SEGMENTS > 0)
    for row in range(4):
        valid = h[row][SEGMENTS[row] > 0].astype(np.float64)
        weights = np.exp(valid @ scorer)
        expected = (weights[:, None] * valid).sum(0) / weights.sum() if len(valid) else np.zeros(WIDTH)
        np.testing.assert_allclose(vectors[row], expected, rtol=1e-5, atol=1e-6)
    d_h, d_scorer = jax.grad(lambda h, s: jnp.sin(attention_pool(h, s, SEGMENTS > 0)).sum(), (0, 1))(h, scorer)
    assert np.isfinite(d_h).all() and np.isfinite(d_scorer).all()
    np.testing.assert_array_equal(np.asarray(d_h)[SEGMENTS == 0], 0)
    large = attention_pool(h * 1e20, scorer * 1e10, SEGMENTS > 0)
    assert np.isfinite(large).all()


def test_the_head_without_biases_is_a_product_with_class_embeddings(rng):
    head = build("heads", {"name": "classify", "num_classes": 3, "pool": "attention", "use_bias": False}, width=WIDTH)
    tokens = drawn.draw_tokens(rng, 4, 6)[0]._replace(segment_ids=SEGMENTS)
    h = rng.standard_normal((4, 6, WIDTH)).astype(np.float32)
    params = drawn.draw_params(head, rng, h, tokens)
    assert set(params) == {"attention", "kernel"}
    log_probs = head.log_probs(head.apply({"params": params}, h, tokens))
    logits = np.asarray(attention_pool(h, params["attention"], SEGMENTS > 0)) @ params["kernel"]
    np.testing.assert_allclose(log_probs, jax.nn.log_softmax(logits), atol=1e-5)
