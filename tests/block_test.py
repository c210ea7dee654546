"""The one layer: every option against a slow computation in float64, alone and together, and in decoding."""

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
    # Llama's, Gemma 3's and GPT-J's ways in one.
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


def slow(params, x, options, causal, bias):
    """One row [T, D], a head at a time; `bias`[H, T, T] is added to the scores."""
    heads = options["heads"]
    kv_heads, size = options.get("kv_heads") or heads, options.get("head_size") or 16 // heads

    def dense(name, x):
        return x @ w[f"{name}_kernel"] + w.get(f"{name}_bias", 0)

    def itself(x):
        if kv_heads == heads:
            many = [np.einsum("td,dhe->the", x, w["qkv_kernel"][:, i]) for i in range(3)]
            q, k, v = (one + w["qkv_bias"][i] if "qkv_bias" in w else one for i, one in enumerate(many))
        else:
            q = np.einsum("td,dhe->the", x, w["q_kernel"]) + w.get("q_bias", 0)
            many = [np.einsum("td,dhe->the", x, w["kv_kernel"][:, i]) for i in range(2)]
            k, v = (one + w["kv_bias"][i] if "kv_bias" in w else one for i, one in enumerate(many))
        if options.get("qk_norm"):
            epsilon = options.get("norm_epsilon") or (1e-6 if options.get("norm") == "rms" else 1e-5)
            q, k = (
                y / np.sqrt((y * y).mean(-1, keepdims=True) + epsilon) * w[f"{name}_scale"]
                for y, name in ((q, "q"), (k, "k"))
            )
        seen = np.zeros((len(x), heads, size))
        for h in range(heads):
            key = h // (heads // kv_heads)
            for t in range(len(x)):
                at = [
                    s
                    for s in range(len(x))
                    if (s <= t or not causal) and (not options.get("window") or abs(t - s) < options["window"])
                ]
                scale = 1 / math.sqrt(size) if options.get("scaled", True) else 1.0
                scores = np.asarray([q[t, h] @ k[s, key] * scale + bias[h, t, s] for s in at])
                chances = np.exp(scores - scores.max())
                seen[t, h] = (chances / chances.sum()) @ v[at, key]
        return dense("out", seen.reshape(len(x), -1))

    def mlp(x):
        name = options.get("mlp", "gelu_tanh")
        up = dense("up", x)
        inner = act(dense("gate", x), name) * up if options.get("gated") else act(up, name)
        return dense("down", inner)

    place = options.get("norm_place", "pre")

    def branch(x, name, run):
        out = run(x if place == "post" else norm(x, w, f"ln_{name}", options))
        return norm(out, w, f"ln_{name}_behind", options) if place == "sandwich" else out

    if options.get("embed_norm"):
        x = norm(x, params, "ln_0", options)
    for layer in range(2):
        w = params[f"layer_{layer}"]
        if options.get("parallel"):
            x = x + branch(x, "1", itself) + branch(x, "2", mlp)
            continue
        for name, run in (("1", itself), ("2", mlp)):
            x = x + branch(x, name, run)
            x = norm(x, w, f"ln_{name}", options) if place == "post" else x
    return x if place == "post" else norm(x, params, "ln_f", options)


@pytest.mark.parametrize("kind", ["decoder", "encoder"])
@pytest.mark.parametrize("name", list(OPTIONS))
def test_a_stack_is_that_of_a_slow_computation(name, kind, rng):
    options = drawn.DECODER | {"norm_place": "pre", "mlp": "gelu_tanh", "embed_norm": False} | OPTIONS[name]
    options |= {"name": kind} | ({"norm_epsilon": 0.0} if kind == "encoder" and "norm_epsilon" not in options else {})
    stack = drawn.stack(options, {"sequence": {"name": "alibi"}})
    at = np.broadcast_to(np.arange(T, dtype=np.int32), (2, T))
    tokens = Tokens(np.zeros_like(at), at, np.ones_like(at))
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    params = drawn.draw(stack, rng, x, tokens)
    found = jax.jit(lambda p: stack.apply({"params": p}, x, tokens)[0])(params)
    exact = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    bias = -alibi.slopes(options["heads"])[:, None, None] * np.abs(np.arange(T)[:, None] - np.arange(T))
    for b in range(2):
        begin = x[b].astype(np.float64) + (exact["types_0"][0] if kind == "encoder" else 0)
        np.testing.assert_allclose(found[b], slow(exact, begin, options, kind == "decoder", bias), atol=3e-4)


@pytest.mark.parametrize("implementation", ["plain", "xla"])
def test_grouped_heads_are_heads_that_share_their_keys(implementation, rng):
    q, k, v = (rng.standard_normal((2, T, n, 4)).astype(np.float32) for n in (6, 2, 2))
    segments = np.repeat([[1, 2]], [4, 5], axis=1) * np.ones((2, 1), np.int32)
    known = dict(causal=True, implementation=implementation)
    found = attention.attend(q, k, v, segments, **known)
    wanted = attention.attend(q, *(np.repeat(x, 3, axis=2) for x in (k, v)), segments, causal=True)
    np.testing.assert_allclose(found, wanted, atol=2e-6)


def test_a_cache_holds_the_heads_of_keys_alone():
    stack = drawn.stack(drawn.DECODER | dict(heads=4, kv_heads=1, window=3))
    cache = stack.init_cache(2, 5)
    assert cache.keys[0].shape == (2, 1, 4, 5) and list(cache.bias_indices) == ["window"]


def test_every_option_has_its_place_on_a_mesh(rng):
    """Parameters of a layer with queries apart shard as those in one kernel do."""
    from numjax.runtime import shard

    stack = drawn.stack(drawn.DECODER | OPTIONS["llama"])
    at = np.zeros((1, T), np.int32)
    params = jax.eval_shape(stack.init, jax.random.key(0), np.zeros((1, T, 16), np.float32), Tokens(at, at, at + 1))
    mesh: Any = AbstractMesh((1, 2, 2), shard.AXES)
    layer = shard.shardings(params["params"], mesh)["layer_0"]
    assert tuple(layer["q_kernel"].spec) == ("fsdp", "tensor", None)
    assert tuple(layer["kv_kernel"].spec) == ("fsdp", None, "tensor", None)
    assert tuple(layer["gate_kernel"].spec) == tuple(layer["up_kernel"].spec) == ("fsdp", "tensor")


def test_options_that_do_not_go_together_are_one_line():
    x, at = np.zeros((1, T, 16), np.float32), np.zeros((1, T), np.int32)
    cases = {
        "backbone.mlp must be one of": dict(mlp="tanh"),
        "does not divide over backbone.kv_heads=3": dict(kv_heads=3),
        "does not divide over backbone.heads=3": dict(heads=3),
        "backbone.parallel needs": dict(parallel=True, norm_place="post"),
        "backbone.initial must be one of": dict(initial="large"),
    }
    for says, options in cases.items():
        with pytest.raises(UsageError, match=says):
            drawn.stack(drawn.DECODER | options).init(jax.random.key(0), x, Tokens(at, at, at + 1))
