"""The layer: each option, alone and with others, against a slow computation in float64; and its cache."""

from __future__ import annotations

import math
from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import AbstractMesh

from numjax.errors import UsageError
from numjax.nn import attention
from numjax.positions import alibi
from numjax.types import Tokens
from tests import drawn

T = 9
OPTIONS = {
    "gpt2": {},
    "rms": dict(norm="rms"),
    "epsilon": dict(norm_epsilon=0.1),
    "post": dict(norm_place="post", embed_norm=True),
    "sandwich": dict(norm_place="sandwich"),
    "parallel": dict(parallel=True),
    "grouped": dict(heads=4, kv_heads=2),
    "one_key_head": dict(heads=4, kv_heads=1),
    "sized": dict(head_size=6),
    "unscaled": dict(scaled=False),
    "qk_norm": dict(qk_norm=True),
    "window": dict(window=3),
    "gated": dict(gated=True, mlp="silu"),
    "relu": dict(mlp="relu", mlp_width=24),
    "no_biases": dict(biases=False),
    # The options of Llama, Gemma 3 and GPT-J.
    "llama": dict(norm="rms", heads=4, kv_heads=2, mlp="silu", gated=True, biases=False, head_size=8),
    "gemma": dict(norm="rms", norm_place="sandwich", qk_norm=True, window=4, gated=True, biases=False, kv_heads=1),
    "gptj": dict(parallel=True, mlp="gelu", norm="rms", window=5, heads=4, kv_heads=2),
}


def norm(x, w, name, options):
    kind, epsilon = options.get("norm", "layer"), options.get("norm_epsilon", 0)
    if kind == "rms":
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + (epsilon or 1e-6)) * w[f"{name}_scale"]
    centred = x - x.mean(-1, keepdims=True)
    deviation = np.sqrt((centred * centred).mean(-1, keepdims=True) + (epsilon or 1e-5))
    return centred / deviation * w[f"{name}_scale"] + w[f"{name}_bias"]


def act(x, name):
    erf = np.vectorize(math.erf)
    return {
        "gelu_tanh": lambda: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
        "gelu": lambda: 0.5 * x * (1 + erf(x / math.sqrt(2))),
        "relu": lambda: np.maximum(x, 0),
        "silu": lambda: x / (1 + np.exp(-x)),
    }[name]()


def run_slow_stack(params, x, options, causal, bias):
    """Computes one row [T, D], one head at a time; `bias` [H, T, T] is added to the scores."""
    heads = options["heads"]
    kv_heads, size = options.get("kv_heads") or heads, options.get("head_size") or 16 // heads

    def dense(name, x):
        return x @ w[f"{name}_kernel"] + w.get(f"{name}_bias", 0)

    def attend(x):
        if kv_heads == heads:
            products = [np.einsum("td,dhe->the", x, w["qkv_kernel"][:, i]) for i in range(3)]
            q, k, v = (
                product + w["qkv_bias"][i] if "qkv_bias" in w else product for i, product in enumerate(products)
            )
        else:
            q = np.einsum("td,dhe->the", x, w["q_kernel"]) + w.get("q_bias", 0)
            products = [np.einsum("td,dhe->the", x, w["kv_kernel"][:, i]) for i in range(2)]
            k, v = (product + w["kv_bias"][i] if "kv_bias" in w else product for i, product in enumerate(products))
        if options.get("qk_norm"):
            epsilon = options.get("norm_epsilon") or (1e-6 if options.get("norm") == "rms" else 1e-5)
            q, k = (
                y / np.sqrt((y * y).mean(-1, keepdims=True) + epsilon) * w[f"{name}_scale"]
                for y, name in ((q, "q"), (k, "k"))
            )
        outputs = np.zeros((len(x), heads, size))
        for h in range(heads):
            key = h // (heads // kv_heads)
            for t in range(len(x)):
                visible = [
                    s
                    for s in range(len(x))
                    if (s <= t or not causal) and (not options.get("window") or abs(t - s) < options["window"])
                ]
                scale = 1 / math.sqrt(size) if options.get("scaled", True) else 1.0
                scores = np.asarray([q[t, h] @ k[s, key] * scale + bias[h, t, s] for s in visible])
                probs = np.exp(scores - scores.max())
                outputs[t, h] = (probs / probs.sum()) @ v[visible, key]
        return dense("out", outputs.reshape(len(x), -1))

    def mlp(x):
        name = options.get("mlp", "gelu_tanh")
        up = dense("up", x)
        activations = act(dense("gate", x), name) * up if options.get("gated") else act(up, name)
        return dense("down", activations)

    norm_position = options.get("norm_place", "pre")

    def branch(x, name, run):
        out = run(x if norm_position == "post" else norm(x, w, f"ln_{name}", options))
        return norm(out, w, f"ln_{name}_behind", options) if norm_position == "sandwich" else out

    if options.get("embed_norm"):
        x = norm(x, params, "ln_0", options)
    for layer in range(2):
        w = params[f"layer_{layer}"]
        if options.get("parallel"):
            x = x + branch(x, "1", attend) + branch(x, "2", mlp)
            continue
        for name, run in (("1", attend), ("2", mlp)):
            x = x + branch(x, name, run)
            x = norm(x, w, f"ln_{name}", options) if norm_position == "post" else x
    return x if norm_position == "post" else norm(x, params, "ln_f", options)


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("name", list(OPTIONS))
def test_a_stack_agrees_with_a_slow_computation(name, kind, rng):
    options = drawn.DECODER | {"norm_place": "pre", "mlp": "gelu_tanh", "embed_norm": False} | OPTIONS[name]
    options |= {"name": kind} | ({"norm_epsilon": 0.0} if kind == "encoder" and "norm_epsilon" not in options else {})
    stack = drawn.build_backbone(options, {"sequence": {"name": "alibi"}})
    positions = np.broadcast_to(np.arange(T, dtype=np.int32), (2, T))
    tokens = Tokens(np.zeros_like(positions), positions, np.ones_like(positions))
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    params = drawn.draw_params(stack, rng, x, tokens)
    hidden = jax.jit(lambda p: stack.apply({"params": p}, x, tokens)[0])(params)
    exact_params = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    bias = -alibi.slopes(options["heads"])[:, None, None] * np.abs(np.arange(T)[:, None] - np.arange(T))
    for b in range(2):
        start = x[b].astype(np.float64) + (exact_params["types_0"][0] if kind == "encoder" else 0)
        np.testing.assert_allclose(
            hidden[b], run_slow_stack(exact_params, start, options, kind == "decoder", bias), atol=3e-4
        )


@pytest.mark.parametrize("implementation", ["plain", "xla"])
def test_grouped_heads_are_heads_that_share_their_keys(implementation, rng):
    q, k, v = (rng.standard_normal((2, T, n, 4)).astype(np.float32) for n in (6, 2, 2))
    segments = np.repeat([[1, 2]], [4, 5], axis=1) * np.ones((2, 1), np.int32)
    options = dict(causal=True, implementation=implementation)
    grouped = attention.attend(q, k, v, segments, **options)
    expected = attention.attend(q, *(np.repeat(x, 3, axis=2) for x in (k, v)), segments, causal=True)
    np.testing.assert_allclose(grouped, expected, atol=2e-6)


def test_a_cache_holds_only_the_heads_of_keys():
    stack = drawn.build_backbone(drawn.DECODER | dict(heads=4, kv_heads=1, window=3))
    cache = stack.init_cache(2, 5)
    assert cache.keys[0].shape == (2, 1, 4, 5) and list(cache.bias_indices) == ["window"]


def test_every_kernel_is_sharded_over_the_mesh(rng):
    """A layer with a kernel of its own for queries is sharded like a layer with one kernel for all."""
    from numjax.runtime import shard

    stack = drawn.build_backbone(drawn.DECODER | OPTIONS["llama"])
    zeros = np.zeros((1, T), np.int32)
    params = jax.eval_shape(
        stack.init, jax.random.key(0), np.zeros((1, T, 16), np.float32), Tokens(zeros, zeros, zeros + 1)
    )
    mesh: Any = AbstractMesh((1, 2, 2), shard.AXES)
    layer = shard.shardings(params["params"], mesh)["layer_0"]
    assert tuple(layer["q_kernel"].spec) == ("fsdp", "tensor", None)
    assert tuple(layer["kv_kernel"].spec) == ("fsdp", None, "tensor", None)
    assert tuple(layer["gate_kernel"].spec) == tuple(layer["up_kernel"].spec) == ("fsdp", "tensor")


def test_options_that_conflict_are_refused():
    x, zeros = np.zeros((1, T, 16), np.float32), np.zeros((1, T), np.int32)
    cases = {
        "backbone.mlp must be one of": dict(mlp="tanh"),
        "does not divide over backbone.kv_heads=3": dict(kv_heads=3),
        "does not divide over backbone.heads=3": dict(heads=3),
        "backbone.parallel needs": dict(parallel=True, norm_place="post"),
        "backbone.initial must be one of": dict(initial="large"),
    }
    for message, options in cases.items():
        with pytest.raises(UsageError, match=message):
            drawn.build_backbone(drawn.DECODER | options).init(jax.random.key(0), x, Tokens(zeros, zeros, zeros + 1))
