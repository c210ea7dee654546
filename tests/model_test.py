"""The model against a float64 GPT-2 in NumPy, and the promises that any implementation of it must keep."""

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
    """GPT-2's: the tanh form."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gpt2(params, x, tokens: Tokens, heads: int = 2) -> np.ndarray:
    """Hidden states after the last norm, in float64, a row and a head at a time."""
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


def backbone(**options):
    return drawn.stack(drawn.DECODER | options)


def test_decoder_is_gpt2(rng):
    tokens, _ = drawn.tokens(rng, 3, T)
    x = rng.standard_normal((3, T, 16)).astype(np.float32)
    stack = backbone()
    params = drawn.draw(stack, rng, x, tokens)
    h, acts, cache = jax.jit(lambda p, x: stack.apply({"params": p}, x, tokens))(params, x)
    np.testing.assert_allclose(h, gpt2(params, x.astype(np.float64), tokens), atol=2e-4)
    assert cache is None and set(acts) == {"embedded", "layer_0", "layer_1", "final"}


@pytest.mark.parametrize("packed", [True, False])
def test_a_position_sees_itself_and_earlier_ones_of_its_segment(rng, packed):
    tokens, _ = drawn.tokens(rng, lengths=[[5, 4], [9]], length=T)
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    stack = backbone(packed=packed)
    params = drawn.draw(stack, rng, x, tokens)
    weights = rng.standard_normal(16).astype(np.float32)

    def row(x_TD, alone):
        return stack.apply({"params": params}, x_TD[None], jax.tree.map(lambda a: a[None], alone))[0][0] @ weights

    jacobians = jax.jit(jax.vmap(jax.jacrev(row)))(x, tokens)
    for b, jacobian in enumerate(np.asarray(jacobians)):
        segment = tokens.segment_ids[b]
        same = segment[:, None] == segment[None] if packed else np.ones((T, T), bool)
        np.testing.assert_array_equal((jacobian != 0).any(-1), np.tri(T, dtype=bool) & same)


def test_packed_segments_are_separate_rows(rng):
    lengths = [5, 4, 3]
    together, _ = drawn.tokens(rng, lengths=[lengths], length=T)
    starts = np.cumsum([0, *lengths])

    def apart(x, fill):
        out = np.full((3, T, *x.shape[2:]), fill, x.dtype)
        for i, n in enumerate(lengths):
            out[i, :n] = x[0, starts[i] : starts[i] + n]
        return out

    alone = Tokens(
        *(apart(getattr(together, k), 0) for k in ("ids", "positions", "segment_ids")),
        numeral_index=apart(together.numeral_index, -1),
        numerals=jax.tree.map(lambda x: np.repeat(x, 3, axis=0), together.numerals),
    )
    model = drawn.model(PROTOTYPE)
    params = drawn.draw(model, rng, drawn.batch(rng))

    @jax.jit
    def hidden(tokens):
        return model.apply({"params": params}, Batch(tokens))[0]["next"].hidden

    packed, separate = hidden(together), hidden(alone)
    for i, n in enumerate(lengths):
        np.testing.assert_allclose(packed[0, starts[i] : starts[i] + n], separate[i, :n], atol=1e-5)


def test_scanned_and_rematerialised_layers_are_the_same_function(rng):
    tokens, _ = drawn.tokens(rng, 2, T)
    x = rng.standard_normal((2, T, 16)).astype(np.float32)
    params = drawn.draw(backbone(), rng, x, tokens)
    stacked = checkpoint.stack_layers(params)
    shapes = jax.eval_shape(backbone(scan=True).init, jax.random.key(0), x, tokens)["params"]
    assert jax.tree.map(jnp.shape, stacked) == jax.tree.map(lambda s: s.shape, shapes)
    for mine, back in zip(jax.tree.leaves(params), jax.tree.leaves(checkpoint.split_layers(stacked)), strict=True):
        np.testing.assert_array_equal(mine, back)
    weights = rng.standard_normal((2, T, 16)).astype(np.float32)

    def run(params, scan, remat):
        def loss(params):
            h, acts, _ = backbone(scan=scan, remat=remat).apply({"params": params}, x, tokens)
            between = acts["layers"] if scan else jnp.stack([acts[f"layer_{i}"] for i in range(2)])
            return (weights * h).sum(), (h, between)

        return jax.jit(jax.value_and_grad(loss, has_aux=True))(params)

    (_, outs), grads = run(params, False, "none")
    for scan, remat in ((False, "dots"), (True, "none"), (True, "full")):
        (_, found), mine = run(stacked if scan else params, scan, remat)
        mine = checkpoint.split_layers(mine) if scan else mine
        for want, got in zip(jax.tree.leaves((outs, grads)), jax.tree.leaves((found, mine)), strict=True):
            np.testing.assert_allclose(got, want, atol=2e-4, rtol=2e-4, err_msg=f"scan={scan} remat={remat}")


def test_remat_keeps_less_for_the_backward_pass(rng):
    tokens, _ = drawn.tokens(rng, 2, T)
    x = np.zeros((2, T, 16), np.float32)

    def kept(remat):
        stack = backbone(layers=3, remat=remat)
        params = drawn.draw(stack, rng, x, tokens)
        pull = jax.eval_shape(lambda p: jax.vjp(lambda p: stack.apply({"params": p}, x, tokens)[0], p)[1], params)
        return sum(leaf.size for leaf in jax.tree.leaves(pull))

    assert kept("full") < kept("dots") < kept("none")


def test_bfloat16_compute_on_float32_parameters(rng):
    found = drawn.batch(rng)
    model, low = drawn.model(PROTOTYPE), drawn.model(PROTOTYPE, dtype="bfloat16")
    params = drawn.draw(model, rng, found, scale=0.1)
    assert {x.dtype for x in jax.tree.leaves(jax.eval_shape(low.init, jax.random.key(0), found))} == {
        jnp.dtype("float32")
    }
    (outs, acts), (low_outs, low_acts) = jax.jit(lambda p: [m.apply({"params": p}, found) for m in (model, low)])(
        params
    )
    np.testing.assert_array_equal(low_acts["tokens"], acts["tokens"])  # numerals and fusion stay float32
    assert low_acts["tokens"].dtype == jnp.float32
    assert {low_acts[k].dtype for k in ("embedded", "layer_0", "layer_1", "final")} == {jnp.dtype("bfloat16")}
    np.testing.assert_allclose(low_outs["next"].hidden.astype(np.float32), outs["next"].hidden, atol=0.1)

    def loss(params):
        outs, _ = low.apply({"params": params}, found)
        return low.heads["next"].total_log_prob(outs["next"], found.targets, found.targets.mask)["token"]

    total, grads = jax.jit(jax.value_and_grad(loss))(params)
    assert total.dtype == jnp.float32 and {g.dtype for g in jax.tree.leaves(grads)} == {jnp.dtype("float32")}


def test_reading_step_by_step_is_reading_at_once(rng):
    """Prompts of unlike length, padded on the left, then one position at a time."""
    tokens, _ = drawn.tokens(rng, lengths=[[9], [6], [T]], length=T)
    model = drawn.model(PROTOTYPE)
    params = drawn.draw(model, rng, drawn.batch(rng))
    full = jax.jit(lambda t: model.apply({"params": params}, Batch(t))[0]["next"].hidden)(tokens)
    lengths, prompt = [9, 6, T], 7
    later = T - prompt
    read = [max(1, n - later) for n in lengths]  # the prompt of each row; the rest follows singly

    def left(x, fill):
        out = np.full((3, prompt), fill, x.dtype)
        for b, n in enumerate(read):
            out[b, prompt - n :] = x[b, :n]
        return out

    names = ("ids", "positions", "segment_ids")
    start = Tokens(
        *(left(getattr(tokens, k), 0) for k in names),
        numeral_index=left(tokens.numeral_index, -1),
        numerals=tokens.numerals,
    )
    step = jax.jit(lambda t, c: model.apply({"params": params}, t, c, method="step"))
    outs, cache = step(start, model.backbone.init_cache(3, prompt + later))
    for b, n in enumerate(read):
        np.testing.assert_allclose(outs["next"].hidden[b, prompt - n :], full[b, :n], atol=1e-4)
    for i in range(later):
        at = np.array(read)[:, None] + i
        more = at < np.array(lengths)[:, None]
        at = np.minimum(at, T - 1)
        one = Tokens(
            *(np.take_along_axis(getattr(tokens, k), at, 1) for k in names),
            numeral_index=np.take_along_axis(tokens.numeral_index, at, 1),
            numerals=tokens.numerals,
        )
        outs, cache = step(one, cache)
        expected = np.take_along_axis(np.asarray(full), at[..., None], 1)
        np.testing.assert_allclose(outs["next"].hidden[more], expected[more], atol=1e-4)
    assert int(cache.length) == T


# ---------------------------------------------------------------------------------------------------


def fuse(rng, how, dim=6, width=5):
    tokens, _ = drawn.tokens(rng, 3, T)
    x = rng.standard_normal((3, T, width)).astype(np.float32)
    ne = rng.standard_normal((3, 4, dim)).astype(np.float32)
    module = Fusion(how, width)
    params = drawn.draw(module, rng, x, ne, tokens.numeral_index)
    apply = jax.jit(lambda x, ne: module.apply({"params": params}, x, ne, tokens.numeral_index))
    return params, x, ne, tokens.numeral_index, apply


def test_concat_and_linear_is_equation_6(rng):
    params, x, ne, index, apply = fuse(rng, "concat+linear")
    kernel = np.asarray(params["kernel"], np.float64)
    expected = np.zeros(x.shape)
    for b, t in np.ndindex(*index.shape):
        te, of_numeral = x[b, t], params["text_numeral"]
        if index[b, t] >= 0:
            te, of_numeral = params["numeral_token"], ne[b, index[b, t]]
        expected[b, t] = np.concatenate([te, of_numeral]).astype(np.float64) @ kernel
    np.testing.assert_allclose(apply(x, ne), expected, atol=1e-5)


def test_add_and_replace(rng):
    for how in ("add", "replace"):
        for dim in (6, 5):  # with a projection, and without where the widths agree
            params, x, ne, index, apply = fuse(rng, how, dim)
            assert set(params) == ({"kernel"} if dim == 6 else set())
            kernel = np.asarray(params.get("kernel", np.eye(5)), np.float64)
            expected = x.astype(np.float64)
            for b, t in zip(*np.where(index >= 0), strict=True):
                numeral = ne[b, index[b, t]] @ kernel
                expected[b, t] = expected[b, t] + numeral if how == "add" else numeral
            np.testing.assert_allclose(apply(x, ne), expected, atol=1e-5)


@pytest.mark.parametrize("how", ["concat+linear", "add", "replace"])
def test_text_does_not_depend_on_numerals_nor_one_numeral_on_another(rng, how):
    _, x, ne, index, apply = fuse(rng, how)
    of_numerals = np.asarray(jax.jacrev(lambda n: apply(x, n).sum(-1))(ne))  # [B, T, B, N, d]
    reached = (of_numerals != 0).any(-1)
    expected = np.zeros(reached.shape, bool)
    for b, t in zip(*np.where(index >= 0), strict=True):
        expected[b, t, b, index[b, t]] = True
    np.testing.assert_array_equal(reached, expected)
    of_tokens = np.asarray(jax.grad(lambda x: apply(x, ne).sum())(x))
    np.testing.assert_array_equal((of_tokens != 0).any(-1), (index < 0) | (how == "add"))


def test_empty_slots_never_reach_the_model(rng):
    found = drawn.batch(rng)
    model = drawn.model({"name": "dice", "form": "d"})
    params = drawn.draw(model, rng, found)
    run = jax.jit(lambda b: model.apply({"params": params}, b)[0]["next"].hidden)
    vectors = rng.standard_normal((3, 4, 12)).astype(np.float32)
    shipped = found._replace(inputs=found.inputs._replace(features={"numeral/vector": vectors}))
    vectors = vectors.copy()
    vectors[~found.inputs.numerals.valid] = np.nan
    broken = found._replace(
        inputs=found.inputs._replace(features={"numeral/vector": vectors, "other/vector": vectors})
    )
    np.testing.assert_array_equal(run(shipped), run(broken))


def test_models_that_do_not_go_together_say_so(rng):
    found = drawn.batch(rng)
    init = jax.random.key(0)
    with pytest.raises(UsageError, match=r"fusion must be one of concat\+linear, add, replace, not 'sum'"):
        drawn.model(PROTOTYPE, fusion="sum").init(init, found)
    plain = found._replace(inputs=found.inputs._replace(numerals=None, numeral_index=None))
    with pytest.raises(UsageError, match="reads numerals, but the scheme marks none"):
        drawn.model(PROTOTYPE).init(init, plain)
    bare = drawn.model(PROTOTYPE)
    with pytest.raises(UsageError, match="one embedding of kind token"):
        bare.clone(embeds={"numeral": bare.embeds["numeral"]}).init(init, found)


def test_a_model_without_numerals_ignores_the_table(rng):
    found = drawn.batch(rng)
    model = drawn.model()
    params = drawn.draw(model, rng, found)
    run = jax.jit(lambda b: model.apply({"params": params}, b)[0]["next"].hidden)
    plain = found._replace(inputs=found.inputs._replace(numerals=None, numeral_index=None))
    np.testing.assert_array_equal(run(found), run(plain))


@pytest.mark.parametrize("scan", [False, True])
def test_dropout_is_drawn_anew_in_every_layer_and_branch(rng, scan):
    tokens, _ = drawn.tokens(rng, 2, T)
    x = np.ones((2, T, 16), np.float32)
    stack = backbone(dropout=0.5, scan=scan)
    params = jax.tree.map(np.zeros_like, drawn.draw(stack, rng, x, tokens))
    for name, layer in params.items():
        if name.startswith("layer"):  # nothing but a bias on either branch: what is added shows what was kept
            layer["out_bias"] += 1.0
            layer["down_bias"] += 10.0
    run = jax.jit(
        lambda key: stack.apply({"params": params}, x, tokens, deterministic=False, rngs={"dropout": key})[1]
    )

    def masks(key):
        acts = run(jax.random.key(key))
        outputs = [acts["embedded"], *(acts["layers"] if scan else (acts["layer_0"], acts["layer_1"]))]
        found = [np.asarray(outputs[0]) / 2]
        for before, after in itertools.pairwise(outputs):
            added = np.asarray(after - before)
            found += [added % 4 / 2, added // 20]
        return np.stack(found)

    first, again, other = masks(1), masks(1), masks(2)
    assert set(np.unique(first)) == {0.0, 1.0}
    np.testing.assert_array_equal(first, again)
    every = np.concatenate([first, other]).reshape(10, -1)
    # Independent masks agree in half of their 384 entries, give or take six standard deviations.
    agreement = (every[:, None] == every[None]).mean(-1)[~np.eye(10, dtype=bool)]
    assert np.abs(agreement - 0.5).max() < 6 * 0.5 / math.sqrt(384)
    assert np.abs(every.mean(1) - 0.5).max() < 6 * 0.5 / math.sqrt(384)
