"""The model against a float64 GPT-2 in NumPy, and properties that every implementation must have."""

from __future__ import annotations

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.errors import UsageError
from numjax.model import Fusion
from numjax.train import checkpoint
from numjax.types import Batch, Tokens
from tests import drawn

PROTOTYPE = {"name": "prototype", "exponent_dim": 4}
T = 12


def norm(x, scale, bias):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def gelu(x):
    """The tanh form of GPT-2."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def run_gpt2(params, x, tokens: Tokens, heads: int = 2) -> np.ndarray:
    """Returns hidden states after the last norm, in float64, computed by row and head."""
    p = jax.tree.map(lambda a: np.asarray(a, np.float64), params)
    x = x + p["order_sequence"]["places"][tokens.positions]
    length, width = x.shape[1:]
    size = width // heads
    for layer in range(sum(name.startswith("layer_") for name in p)):
        w = p[f"layer_{layer}"]
        for b in range(x.shape[0]):
            segment = tokens.segment_ids[b]
            mask = (segment[:, None] == segment[None]) & np.tri(length, dtype=bool)
            h = norm(x[b], w["ln_1_scale"], w["ln_1_bias"])
            mixed = np.zeros((length, width))
            for head in range(heads):
                q, k, v = (h @ w["qkv_kernel"][:, i, head] + w["qkv_bias"][i, head] for i in range(3))
                weights = softmax(np.where(mask, q @ k.T / math.sqrt(size), -np.inf))
                mixed += weights @ v @ w["out_kernel"][head * size : (head + 1) * size]
            x[b] += mixed + w["out_bias"]
            h = norm(x[b], w["ln_2_scale"], w["ln_2_bias"])
            x[b] += gelu(h @ w["up_kernel"] + w["up_bias"]) @ w["down_kernel"] + w["down_bias"]
    return norm(x, p["ln_f_scale"], p["ln_f_bias"])


def make_backbone(**options):
    return drawn.build_backbone(drawn.DECODER | options)


def test_decoder_is_gpt2(rng):
    tokens, _ = drawn.draw_tokens(rng, 3, T)
    x = rng.standard_normal((3, T, 16)).astype(np.float32)
    stack = make_backbone()
    params = drawn.draw_params(stack, rng, x, tokens)
    h, acts, cache = jax.jit(lambda p, x: stack.apply({"params": p}, x, tokens))(params, x)
    np.testing.assert_allclose(h, run_gpt2(params, x.astype(np.float64), tokens), atol=2e-4)
    assert cache is None and set(acts) == {"embedded", "layer_0", "layer_1", "final"}


@pytest.mark.parametrize("packed", [True, False])
def test_a_position_depends_on_itself_and_earlier_ones_of_its_segment(rng, packed):
    tokens, _ = drawn.draw_tokens(rng, lengths=[[5, 4], [9]], length=T)
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    stack = make_backbone(packed=packed)
    params = drawn.draw_params(stack, rng, x, tokens)
    weights = rng.standard_normal(16).astype(np.float32)

    def run_row(x_TD, row_tokens):
        return (
            stack.apply({"params": params}, x_TD[None], jax.tree.map(lambda a: a[None], row_tokens))[0][0] @ weights
        )

    jacobians = jax.jit(jax.vmap(jax.jacrev(run_row)))(x, tokens)
    for b, jacobian in enumerate(np.asarray(jacobians)):
        segment = tokens.segment_ids[b]
        same_segment = segment[:, None] == segment[None] if packed else np.ones((T, T), bool)
        np.testing.assert_array_equal((jacobian != 0).any(-1), np.tri(T, dtype=bool) & same_segment)


def test_packed_segments_are_separate_rows(rng):
    lengths = [5, 4, 3]
    packed_tokens, _ = drawn.draw_tokens(rng, lengths=[lengths], length=T)
    starts = np.cumsum([0, *lengths])

    def unpack(x, fill):
        out = np.full((3, T, *x.shape[2:]), fill, x.dtype)
        for i, n in enumerate(lengths):
            out[i, :n] = x[0, starts[i] : starts[i] + n]
        return out

    separate_tokens = Tokens(
        *(unpack(getattr(packed_tokens, k), 0) for k in ("ids", "positions", "segment_ids")),
        numeral_index=unpack(packed_tokens.numeral_index, -1),
        numerals=jax.tree.map(lambda x: np.repeat(x, 3, axis=0), packed_tokens.numerals),
    )
    model = drawn.build_model(PROTOTYPE)
    params = drawn.draw_params(model, rng, drawn.draw_batch(rng))

    @jax.jit
    def hidden(tokens):
        return model.apply({"params": params}, Batch(tokens))[0]["next"].hidden

    packed, separate = hidden(packed_tokens), hidden(separate_tokens)
    for i, n in enumerate(lengths):
        np.testing.assert_allclose(packed[0, starts[i] : starts[i] + n], separate[i, :n], atol=1e-5)


def test_scanned_and_rematerialised_layers_give_the_same_results(rng):
    tokens, _ = drawn.draw_tokens(rng, 2, T)
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    params = drawn.draw_params(make_backbone(), rng, x, tokens)
    stacked = checkpoint.stack_layers(params)
    shapes = jax.eval_shape(make_backbone(scan=True).init, jax.random.key(0), x, tokens)["params"]
    assert jax.tree.map(jnp.shape, stacked) == jax.tree.map(lambda s: s.shape, shapes)
    for grads_again, unstacked in zip(
        jax.tree.leaves(params), jax.tree.leaves(checkpoint.split_layers(stacked)), strict=True
    ):
        np.testing.assert_array_equal(grads_again, unstacked)
    weights = rng.standard_normal((2, T, 16)).astype(np.float32)

    def run(params, scan, remat):
        def loss(params):
            h, acts, _ = make_backbone(scan=scan, remat=remat).apply({"params": params}, x, tokens)
            layers = acts["layers"] if scan else jnp.stack([acts[f"layer_{i}"] for i in range(2)])
            return (weights * h).sum(), (h, layers)

        return jax.jit(jax.value_and_grad(loss, has_aux=True))(params)

    (_, outs), grads = run(params, False, "none")
    for scan, remat in ((False, "dots"), (True, "none"), (True, "full")):
        (_, outs_again), grads_again = run(stacked if scan else params, scan, remat)
        grads_again = checkpoint.split_layers(grads_again) if scan else grads_again
        for expected, got in zip(
            jax.tree.leaves((outs, grads)), jax.tree.leaves((outs_again, grads_again)), strict=True
        ):
            np.testing.assert_allclose(got, expected, atol=2e-4, rtol=2e-4, err_msg=f"scan={scan} remat={remat}")


def test_remat_saves_fewer_values_for_the_backward_pass(rng):
    tokens, _ = drawn.draw_tokens(rng, 2, T)
    x = np.zeros((2, T, 16), np.float32)

    def count_saved_values(remat):
        stack = make_backbone(layers=3, remat=remat)
        params = drawn.draw_params(stack, rng, x, tokens)
        pull = jax.eval_shape(lambda p: jax.vjp(lambda p: stack.apply({"params": p}, x, tokens)[0], p)[1], params)
        return sum(leaf.size for leaf in jax.tree.leaves(pull))

    assert count_saved_values("full") < count_saved_values("dots") < count_saved_values("none")


def test_bfloat16_layers_have_float32_parameters_and_losses(rng):
    batch = drawn.draw_batch(rng)
    model, low = drawn.build_model(PROTOTYPE), drawn.build_model(PROTOTYPE, dtype="bfloat16")
    params = drawn.draw_params(model, rng, batch, scale=0.1)
    assert {x.dtype for x in jax.tree.leaves(jax.eval_shape(low.init, jax.random.key(0), batch))} == {
        jnp.dtype("float32")
    }
    (outs, acts), (low_outs, low_acts) = jax.jit(lambda p: [m.apply({"params": p}, batch) for m in (model, low)])(
        params
    )
    np.testing.assert_array_equal(low_acts["tokens"], acts["tokens"])  # numerals and their fusion stay in float32
    assert low_acts["tokens"].dtype == jnp.float32
    assert {low_acts[k].dtype for k in ("embedded", "layer_0", "layer_1", "final")} == {jnp.dtype("bfloat16")}
    np.testing.assert_allclose(low_outs["next"].hidden.astype(np.float32), outs["next"].hidden, atol=0.1)

    def loss(params):
        outs, _ = low.apply({"params": params}, batch)
        return low.heads["next"].total_log_prob(outs["next"], batch.targets, batch.targets.mask)["token"]

    total, grads = jax.jit(jax.value_and_grad(loss))(params)
    assert total.dtype == jnp.float32 and {g.dtype for g in jax.tree.leaves(grads)} == {jnp.dtype("float32")}


def test_decoding_step_by_step_equals_one_pass(rng):
    """Runs prompts of different lengths, padded on the left, and then one position at a time."""
    tokens, _ = drawn.draw_tokens(rng, lengths=[[9], [6], [T]], length=T)
    model = drawn.build_model(PROTOTYPE)
    params = drawn.draw_params(model, rng, drawn.draw_batch(rng))
    full = jax.jit(lambda t: model.apply({"params": params}, Batch(t))[0]["next"].hidden)(tokens)
    lengths, prompt = [9, 6, T], 7
    n_steps = T - prompt
    prompt_lengths = [max(1, n - n_steps) for n in lengths]  # the rest of each row follows one by one

    def pad_left(x, fill):
        out = np.full((3, prompt), fill, x.dtype)
        for b, n in enumerate(prompt_lengths):
            out[b, prompt - n :] = x[b, :n]
        return out

    names = ("ids", "positions", "segment_ids")
    start = Tokens(
        *(pad_left(getattr(tokens, k), 0) for k in names),
        numeral_index=pad_left(tokens.numeral_index, -1),
        numerals=tokens.numerals,
    )
    step = jax.jit(lambda t, c: model.apply({"params": params}, t, c, method="step"))
    outs, cache = step(start, model.backbone.init_cache(3, prompt + n_steps))
    for b, n in enumerate(prompt_lengths):
        np.testing.assert_allclose(outs["next"].hidden[b, prompt - n :], full[b, :n], atol=1e-4)
    for i in range(n_steps):
        indices = np.array(prompt_lengths)[:, None] + i
        is_active = indices < np.array(lengths)[:, None]
        indices = np.minimum(indices, T - 1)
        one = Tokens(
            *(np.take_along_axis(getattr(tokens, k), indices, 1) for k in names),
            numeral_index=np.take_along_axis(tokens.numeral_index, indices, 1),
            numerals=tokens.numerals,
        )
        outs, cache = step(one, cache)
        expected = np.take_along_axis(np.asarray(full), indices[..., None], 1)
        np.testing.assert_allclose(outs["next"].hidden[is_active], expected[is_active], atol=1e-4)
    assert int(cache.length) == T


# ---------------------------------------------------------------------------------------------------


def fuse(rng, fusion, dim=6, width=5):
    tokens, _ = drawn.draw_tokens(rng, 3, T)
    x = rng.standard_normal((3, T, width)).astype(np.float32)
    ne = rng.standard_normal((3, 4, dim)).astype(np.float32)
    module = Fusion(fusion, width)
    params = drawn.draw_params(module, rng, x, ne, tokens.numeral_index)
    apply = jax.jit(lambda x, ne: module.apply({"params": params}, x, ne, tokens.numeral_index))
    return params, x, ne, tokens.numeral_index, apply


def test_concat_and_linear_is_equation_6(rng):
    params, x, ne, index, apply = fuse(rng, "concat+linear")
    kernel = np.asarray(params["kernel"], np.float64)
    expected = np.zeros(x.shape)
    for b, t in np.ndindex(*index.shape):
        token_vector, numeral_vector = x[b, t], params["text_numeral"]
        if index[b, t] >= 0:
            token_vector, numeral_vector = params["numeral_token"], ne[b, index[b, t]]
        expected[b, t] = np.concatenate([token_vector, numeral_vector]).astype(np.float64) @ kernel
    np.testing.assert_allclose(apply(x, ne), expected, atol=1e-5)


def test_fusion_by_add_and_replace_is_its_equation(rng):
    for fusion in ("add", "replace"):
        for dim in (6, 5):  # with a projection, and without where the widths agree
            params, x, ne, index, apply = fuse(rng, fusion, dim)
            assert set(params) == ({"kernel"} if dim == 6 else set())
            kernel = np.asarray(params.get("kernel", np.eye(5)), np.float64)
            expected = x.astype(np.float64)
            for b, t in zip(*np.where(index >= 0), strict=True):
                numeral = ne[b, index[b, t]] @ kernel
                expected[b, t] = expected[b, t] + numeral if fusion == "add" else numeral
            np.testing.assert_allclose(apply(x, ne), expected, atol=1e-5)


@pytest.mark.parametrize("fusion", ["concat+linear", "add", "replace"])
def test_fusion_mixes_each_position_only_with_its_own_numeral(rng, fusion):
    _, x, ne, index, apply = fuse(rng, fusion)
    numeral_jacobian = np.asarray(jax.jacrev(lambda n: apply(x, n).sum(-1))(ne))  # [B, T, B, N, d]
    depends = (numeral_jacobian != 0).any(-1)
    expected = np.zeros(depends.shape, bool)
    for b, t in zip(*np.where(index >= 0), strict=True):
        expected[b, t, b, index[b, t]] = True
    np.testing.assert_array_equal(depends, expected)
    token_gradient = np.asarray(jax.grad(lambda x: apply(x, ne).sum())(x))
    np.testing.assert_array_equal((token_gradient != 0).any(-1), (index < 0) | (fusion == "add"))


def test_empty_slots_never_reach_the_model(rng):
    batch = drawn.draw_batch(rng)
    model = drawn.build_model({"name": "dice", "form": "d"})
    params = drawn.draw_params(model, rng, batch)
    run = jax.jit(lambda b: model.apply({"params": params}, b)[0]["next"].hidden)
    vectors = rng.standard_normal((3, 4, 12)).astype(np.float32)
    good_batch = batch._replace(inputs=batch.inputs._replace(features={"numeral/vector": vectors}))
    vectors = vectors.copy()
    vectors[~batch.inputs.numerals.valid] = np.nan
    nan_batch = batch._replace(
        inputs=batch.inputs._replace(features={"numeral/vector": vectors, "other/vector": vectors})
    )
    np.testing.assert_array_equal(run(good_batch), run(nan_batch))


def test_parts_that_do_not_fit_are_refused(rng):
    batch = drawn.draw_batch(rng)
    init = jax.random.key(0)
    with pytest.raises(UsageError, match=r"fusion must be one of concat\+linear, add, replace, not 'sum'"):
        drawn.build_model(PROTOTYPE, fusion="sum").init(init, batch)
    plain = batch._replace(inputs=batch.inputs._replace(numerals=None, numeral_index=None))
    with pytest.raises(UsageError, match="reads numerals, but the scheme marks none"):
        drawn.build_model(PROTOTYPE).init(init, plain)
    bare = drawn.build_model(PROTOTYPE)
    with pytest.raises(UsageError, match="one embedding of kind token"):
        bare.clone(embeds={"numeral": bare.embeds["numeral"]}).init(init, batch)


def test_a_model_without_numerals_ignores_the_table(rng):
    batch = drawn.draw_batch(rng)
    model = drawn.build_model()
    params = drawn.draw_params(model, rng, batch)
    run = jax.jit(lambda b: model.apply({"params": params}, b)[0]["next"].hidden)
    plain = batch._replace(inputs=batch.inputs._replace(numerals=None, numeral_index=None))
    np.testing.assert_array_equal(run(batch), run(plain))


@pytest.mark.parametrize("scan", [False, True])
def test_dropout_is_drawn_anew_in_every_layer_and_branch(rng, scan):
    tokens, _ = drawn.draw_tokens(rng, 2, T)
    x = np.ones((2, T, 16), np.float32)
    stack = make_backbone(dropout=0.5, scan=scan)
    params = jax.tree.map(np.zeros_like, drawn.draw_params(stack, rng, x, tokens))
    for name, layer in params.items():
        if name.startswith("layer"):  # each branch adds only a bias, so the change shows the mask
            layer["out_bias"] += 1.0
            layer["down_bias"] += 10.0
    run = jax.jit(
        lambda key: stack.apply({"params": params}, x, tokens, deterministic=False, rngs={"dropout": key})[1]
    )

    def collect_masks(key):
        acts = run(jax.random.key(key))
        outputs = [acts["embedded"], *(acts["layers"] if scan else (acts["layer_0"], acts["layer_1"]))]
        masks = [np.asarray(outputs[0]) / 2]
        for previous, current in itertools.pairwise(outputs):
            change = np.asarray(current - previous)
            masks += [change % 4 / 2, change // 20]
        return np.stack(masks)

    first, again, other = collect_masks(1), collect_masks(1), collect_masks(2)
    assert set(np.unique(first)) == {0.0, 1.0}
    np.testing.assert_array_equal(first, again)
    all_masks = np.concatenate([first, other]).reshape(10, -1)
    # Independent masks agree in half of their 384 entries, give or take six standard deviations.
    agreement = (all_masks[:, None] == all_masks[None]).mean(-1)[~np.eye(10, dtype=bool)]
    assert np.abs(agreement - 0.5).max() < 6 * 0.5 / math.sqrt(384)
    assert np.abs(all_masks.mean(1) - 0.5).max() < 6 * 0.5 / math.sqrt(384)
