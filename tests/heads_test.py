"""Heads against their equations in float64; the parts that get a gradient of each target; masses that sum to one."""

from __future__ import annotations

import functools
import math
from decimal import ROUND_HALF_EVEN, Context, Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.errors import UsageError
from numjax.heads.mixture import mantissa_log_density
from numjax.nn.numerals import exponent_id
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import Allowed, HeadOut, Targets, Tokens
from tests.drawn import (
    CONTEXT,
    DIGITS,
    NUM,
    SIZE,
    VOCAB,
    add_numerals,
    draw_batch,
    draw_params,
    draw_tokens,
    make_numeral_table,
)

WIDTH = CONTEXT["width"]
DENSITIES = ("printed", "scaled", "learned")


def log_softmax(x):
    top = x.max(-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))


def make_case(name: str, rng, **options):
    """Returns (head, its parameters, a batch, hidden states, a table of token embeddings)."""
    head = build("heads", {"name": name} | options, **CONTEXT)
    batch = draw_batch(rng)
    hidden = rng.standard_normal((*batch.inputs.ids.shape, WIDTH)).astype(np.float32)
    table = rng.standard_normal((VOCAB, WIDTH)).astype(np.float32)
    return head, draw_params(head, rng, hidden, batch.inputs, table), batch, hidden, table


def to_decimal_array(targets: Targets) -> np.ndarray:
    """Returns the number of each position as an object array of Decimals, with None at positions without a number."""
    assert targets.numerals is not None
    rows = [to_decimals(jax.tree.map(lambda x, b=b: np.asarray(x)[b], targets.numerals)) for b in range(3)]
    values = np.empty((len(rows), len(rows[0])), object)
    for b, row in enumerate(rows):
        values[b] = row
    return values


def compute_mixture_reference(params, hidden, table, targets: Targets, head) -> dict[str, np.ndarray]:
    """Returns the log-probabilities of Eq. 7–11, position by position, in float64."""
    weight = {name: np.asarray(value, np.float64) for name, value in params.items()}
    kernel = weight.get("kernel", np.asarray(table, np.float64))
    values = to_decimal_array(targets)
    out = {name: np.zeros(targets.ids.shape) for name in ("selector", "token", "exponent", "mantissa")}
    for index in np.ndindex(*targets.ids.shape):
        h, value = hidden[index].astype(np.float64), values[index]
        out["selector"][index] = log_softmax(h @ weight["selector"])[0 if value is None else 1]
        if value is None:
            logits = kernel @ h
            logits[[NUM, *range(SIZE, VOCAB)]] = -np.inf
            out["token"][index] = log_softmax(logits)[targets.ids[index]]
            continue
        exponent = value.adjusted() if value else 0
        row = 0 if exponent < -8 else 1 if exponent > 12 else exponent + 10
        out["exponent"][index] = log_softmax(h @ weight["exponent"])[row]
        x, mean = float(value.scaleb(-exponent)), float((h @ weight["mantissa"])[0])
        if head.density == "printed":
            out["mantissa"][index] = -((x - mean) ** 2) - 0.5 * math.log(math.pi)
        elif head.density == "scaled":
            out["mantissa"][index] = (
                -(((x - mean) / head.scale) ** 2) - 0.5 * math.log(math.pi) - math.log(head.scale)
            )
        else:
            s = 10 * math.tanh(float((h @ weight["log_variance"])[0]) / 10)
            out["mantissa"][index] = -0.5 * ((x - mean) ** 2 / math.exp(s) + s + math.log(2 * math.pi))
    return out


@pytest.mark.parametrize(("density", "tied"), [("printed", True), ("scaled", False), ("learned", False)])
def test_mixture_is_its_equations(rng, density, tied):
    head, params, batch, hidden, table = make_case("mixture", rng, density=density, tied=tied, chunk_rows=7)
    targets = add_numerals(batch)
    assert (targets.numeral_index >= 0).sum() > 3

    @jax.jit
    def run(params, hidden, weights):
        out = head.apply({"params": params}, hidden, batch.inputs, table)
        return head.log_prob(out, targets), head.total_log_prob(out, targets, weights)

    # Only scored positions have a legal target.
    weights = np.where(batch.targets.mask, rng.random(batch.targets.mask.shape), 0).astype(np.float32)
    parts, totals = run(params, hidden, weights)
    expected = compute_mixture_reference(params, hidden, table, targets, head)
    assert set(parts) == set(totals) == set(expected)
    for name, reference in expected.items():
        log_probs = np.where(batch.targets.mask, parts[name], 0)
        np.testing.assert_allclose(
            log_probs, np.where(batch.targets.mask, reference, 0), rtol=2e-4, atol=2e-4, err_msg=name
        )
        np.testing.assert_allclose(totals[name], (weights * reference).sum(), rtol=2e-4, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("density", DENSITIES)
def test_densities_integrate_to_one_and_equal_log_prob(rng, density):
    head, params, batch, hidden, table = make_case("mixture", rng, density=density, scale=1.7)
    out = head.apply({"params": params}, hidden[:1, :1], batch.inputs, table)
    mean, log_variance = head._project(out, "mantissa")[0, 0, 0], head._log_variance(out)
    log_variance = log_variance if isinstance(log_variance, float) else log_variance[0, 0]
    grid = np.linspace(-60, 60, 40_001)
    values = np.exp(np.asarray(mantissa_log_density(grid, mean, log_variance), np.float64))
    assert np.trapezoid(values, grid) == pytest.approx(1, abs=2e-3)
    spread = np.trapezoid(values * grid**2, grid) - np.trapezoid(values * grid, grid) ** 2
    if density != "learned":
        assert spread == pytest.approx({"printed": 0.5, "scaled": 0.5 * 1.7**2}[density], rel=0.01)
    texts = [f"{sign}{rng.integers(10_000, 100_000) / 10_000}" for sign in ("", "-") for _ in range(20)]
    numerals = to_numeral([Decimal(text) for text in texts], DIGITS)
    numerals = jax.tree.map(lambda x: x[None], numerals)
    zeros = jnp.zeros((1, len(texts)), jnp.int32)
    outputs = HeadOut(jnp.broadcast_to(out.hidden[:, :1], (1, len(texts), WIDTH)), out.weights)
    parts = head.log_prob(outputs, Targets(zeros, zeros > -1, zeros, numerals))
    expected = [mantissa_log_density(float(text), mean, log_variance) for text in texts]
    np.testing.assert_allclose(parts["mantissa"][0], expected, rtol=1e-4, atol=1e-5)


def test_printed_density_is_variance_one_half():
    assert float(mantissa_log_density(3.0, 1.0, math.log(0.5))) == pytest.approx(
        -4 - 0.5 * math.log(math.pi), abs=1e-6
    )


def compute_gradients(head, params, hidden, table, batch, is_scored):
    """Returns the gradients of Σ log p over the positions of `is_scored` by parameters, hidden states and table."""
    targets = add_numerals(batch)

    @jax.jit
    def differentiate(params, hidden, table, weights):
        def total(params, hidden, table):
            out = head.apply({"params": params}, hidden, batch.inputs, table)
            return sum(head.total_log_prob(out, targets, weights).values())

        return jax.grad(total, (0, 1, 2))(params, hidden, table)

    return jax.tree.map(np.asarray, differentiate(params, hidden, table, is_scored.astype(np.float32)))


@pytest.mark.parametrize("tied", [False, True])
def test_gradients_reach_only_the_parts_that_score_the_target(rng, tied):
    head, params, batch, hidden, table = make_case("mixture", rng, density="learned", tied=tied)
    numeral = (batch.targets.numeral_index >= 0) & batch.targets.mask
    text = batch.targets.mask & ~numeral
    for is_scored, expected in (
        (text, {"selector", "token"}),
        (numeral, {"selector", "exponent", "mantissa", "log_variance"}),
    ):
        weights, hidden_grad, table_grad = compute_gradients(head, params, hidden, table, batch, is_scored)
        kernel = table_grad if tied else weights["kernel"]
        parts = {"token"} if np.any(kernel) else set()
        parts |= {name for name, value in weights.items() if name != "kernel" and np.any(value)}
        assert parts == expected
        # A position has a gradient if and only if it is scored.
        np.testing.assert_array_equal((hidden_grad != 0).any(-1), is_scored)
        if "token" in expected:
            np.testing.assert_array_equal(kernel[[NUM, *range(SIZE, VOCAB)]], 0)
            assert (np.abs(np.delete(kernel, [NUM, *range(SIZE, VOCAB)], axis=0)).max(-1) > 0).all()
        if not tied:
            np.testing.assert_array_equal(table_grad, 0)


def score_step(head, params, hidden, table, batch, allowed=None, key=None):
    out = head.apply({"params": params}, hidden[:, -1:], batch.inputs, table)
    out = HeadOut(out.hidden[:, 0], out.weights)
    return jax.jit(lambda out, allowed, key: head.step_scores(out, allowed, key))(out, allowed, key), out


@pytest.mark.parametrize("name", ["token", "mixture"])
def test_step_scores_are_masses_that_sum_to_one(rng, name):
    head, params, batch, hidden, table = make_case(name, rng, tied=False)
    mass = score_step(head, params, hidden, table, batch)[0].mass
    np.testing.assert_allclose(np.exp(mass).sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(np.exp(mass)[:, SIZE:], 0)
    legal = [i for i in range(SIZE) if i != NUM]
    allowed = np.zeros((3, VOCAB), bool)
    allowed[0, [1, 2, NUM]] = True  # both kinds
    allowed[1, legal[:4]] = True  # only text: the selector may not take mass from it
    allowed[2, NUM] = True  # only a number, which has all the mass
    masked_mass = score_step(head, params, hidden, table, batch, allowed=allowed)[0].mass
    np.testing.assert_allclose(np.exp(masked_mass).sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(np.exp(masked_mass)[~allowed], 0)
    assert masked_mass[2, NUM] == pytest.approx(0, abs=1e-6)
    legal_mass = np.asarray(mass)[1, legal[:4]]
    np.testing.assert_allclose(masked_mass[1, legal[:4]], log_softmax(legal_mass.astype(np.float64)), atol=1e-5)


def test_step_scores_are_those_of_training(rng):
    head, params, batch, hidden, table = make_case("mixture", rng)
    targets = add_numerals(batch)
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    parts = jax.jit(lambda out: head.log_prob(out, targets))(out)
    score = jax.vmap(lambda h: head.step_scores(HeadOut(h, out.weights))[0], out_axes=1, in_axes=1)
    mass = jax.jit(score)(out.hidden)
    numeral = targets.numeral_index >= 0
    token_ids = np.where(numeral, NUM, targets.ids)
    target_mass = np.take_along_axis(np.asarray(mass), token_ids[..., None], -1)[..., 0]
    expected = parts["selector"] + parts["token"]
    np.testing.assert_allclose(target_mass[targets.mask], expected[targets.mask], atol=1e-4)


def test_masked_training_renormalises_over_the_legal_tokens(rng):
    head, params, batch, hidden, table = make_case("mixture", rng)
    targets = add_numerals(batch)
    class_of = np.where(np.arange(VOCAB) == NUM, 1, np.where(np.arange(VOCAB) % 2 == 0, 2, 3)).astype(np.int32)
    classes = rng.random((*targets.ids.shape, 4)) < 0.5
    np.put_along_axis(classes, class_of[targets.ids][..., None], True, -1)
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    parts = jax.jit(lambda out: head.log_prob(out, targets, Allowed(classes, class_of)))(out)
    score = jax.vmap(lambda h, a: head.step_scores(HeadOut(h, out.weights), a)[0], in_axes=1, out_axes=1)
    mass = jax.jit(score)(out.hidden, classes[..., class_of])
    target_mass = np.take_along_axis(np.asarray(mass), targets.ids[..., None], -1)[..., 0]
    expected = parts["selector"] + parts["token"]
    np.testing.assert_allclose(target_mass[targets.mask], expected[targets.mask], atol=1e-4)


@pytest.mark.parametrize("keep", [4, 8])
def test_the_predicted_numeral_is_the_rounded_estimate(rng, keep):
    """The numeral is canonical and is the rounded estimate: compares with float64 and exact decimals."""
    head, params, batch, hidden, table = make_case("mixture", rng, keep=keep)
    scores, out = score_step(head, params, hidden, table, batch)
    h = np.asarray(out.hidden, np.float64)
    mean = (h @ np.asarray(params["mantissa"], np.float64))[:, 0]
    row = (h @ np.asarray(params["exponent"], np.float64)).argmax(-1)
    exponent = np.where(row == 0, -9, np.where(row == 1, 13, row - 10))
    mean = np.where(row == 0, 0, mean)  # below every exponent stands for zero
    np.testing.assert_allclose(scores.estimate.mantissa, mean, atol=1e-5)
    np.testing.assert_array_equal(scores.estimate.exponent, exponent)
    assert scores.numeral.digits.dtype == jnp.int8
    context = Context(prec=keep, rounding=ROUND_HALF_EVEN)
    for value, m, e in zip(to_decimals(scores.numeral), scores.estimate.mantissa, exponent, strict=True):
        assert value == context.plus(Decimal(float(m)).scaleb(int(e)))


def test_a_certain_mixture_returns_every_number_that_it_represents(rng):
    """Hidden states give mantissa and exponent directly; the head returns the nearest number that it represents."""
    head, params, batch, _, table = make_case("mixture", rng, keep=7, low=-8, high=12)
    exact_texts = [
        "0",
        "-0",
        "7",
        "-7",
        "0.001",
        "1e12",
        "-2.5e-8",
        "9999999",
        "1234567",
        "0.0625",
        "1000000",
        "-30.05",
    ]
    nearest_texts = {
        "1e20": "1e13",
        "1e-9": "0",
        "12345678": "12345680",
        "0.12345674": "0.1234567",
        "99999999": "100000000",
    }
    context = Context(prec=7, rounding=ROUND_HALF_EVEN)
    params = {name: np.zeros_like(value) for name, value in params.items()}
    params["mantissa"][0] = 1
    classes = params["exponent"].shape[1]
    assert classes + 1 > WIDTH, "there are more exponents than dimensions"
    for text, expected in [*((text, text) for text in exact_texts), *nearest_texts.items()]:
        value = Decimal(text)
        assert head.represents(value) == (text in exact_texts), text
        exponent = value.adjusted() if value else -9
        row = int(exponent_id(jnp.int32(exponent), -8, 12))
        params["exponent"][1] = np.where(np.arange(classes) == row, 50, 0)
        hidden = np.zeros((1, 1, WIDTH), np.float32)
        hidden[..., 0] = float(value.scaleb(-exponent)) if row > 1 else math.copysign(1, value)
        hidden[..., 1] = 1
        out = head.apply({"params": params}, hidden, batch.inputs, table)
        (number,) = to_decimals(head.step_scores(HeadOut(out.hidden[:, 0], out.weights)).numeral)
        assert number == Decimal(expected), text
        assert row < 2 or number == context.plus(value), text


def test_sampled_exponents_follow_their_distribution(rng):
    head, params, batch, hidden, table = make_case("mixture", rng)
    params = params | {"exponent": params["exponent"] * 0.3}
    out = head.apply({"params": params}, hidden[:1, -1:], batch.inputs, table)
    out = HeadOut(out.hidden[:, 0], out.weights)
    draw_exponent = jax.jit(jax.vmap(lambda key: head.step_scores(out, None, key).estimate.exponent[0]))
    exponents = np.asarray(draw_exponent(jax.random.split(jax.random.key(3), 4000)))
    logits = np.asarray(out.hidden[0], np.float64) @ np.asarray(params["exponent"], np.float64)
    p = np.exp(log_softmax(logits))
    expected = np.concatenate([p[:1], p[2:], p[1:2]])  # −INF, −8 … 12, +INF
    frequencies = np.bincount(exponents + 9, minlength=23) / 4000
    assert np.abs(frequencies - expected).max() < 5 * math.sqrt(0.25 / 4000)


@pytest.mark.parametrize(("density", "variance"), [("printed", 0.5), ("scaled", 1.445), ("learned", 0.04)])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_interval_holds_its_share_of_the_samples(rng, density, variance, share):
    """The head predicts N(3.2, variance) · 10^4, and its own sampler draws the mantissas."""
    options = dict(density=density, scale=1.7, share=share, mantissas="sampled")
    head, params, batch, _, table = make_case("mixture", rng, **options)
    hidden = np.zeros((1, 1, WIDTH), np.float32)
    hidden[..., 0] = 1
    params = {name: np.zeros_like(value) for name, value in params.items()}
    params["mantissa"][0], params["exponent"][0, 4 + 10] = 3.2, 50
    if density == "learned":
        params["log_variance"][0] = 10 * math.atanh(math.log(variance) / 10)
    out = head.apply({"params": params}, hidden, batch.inputs, table)
    out = HeadOut(out.hidden[:, 0], out.weights)

    count = 20_000
    keys = jax.random.split(jax.random.key(7), count)
    samples = jax.jit(jax.vmap(lambda key: head.step_scores(out, None, key).estimate))(keys)
    assert (np.asarray(samples.exponent) == 4).all()
    samples = np.asarray(samples.mantissa, np.float64)[:, 0]
    estimate = head.step_scores(out).estimate
    low, high = (float(to_decimals(end)[0]) / 1e4 for end in (estimate.low, estimate.high))
    np.testing.assert_allclose([(low + high) / 2, float(estimate.mantissa[0])], 3.2, rtol=1e-4)
    assert estimate.share == np.float32(share)
    five_sigma = 5 * math.sqrt(share * (1 - share) / count)
    assert abs(np.mean((low < samples) & (samples < high)) - share) < five_sigma
    assert abs(np.mean(samples <= low) - (1 - share) / 2) < five_sigma, "the interval is central"
    assert abs(samples.var() / variance - 1) < 5 * math.sqrt(2 / count)


def test_mantissas_are_sampled_only_with_the_option_and_a_key(rng):
    for mantissas, key, is_sampled in (("mean", 3, False), ("sampled", None, False), ("sampled", 3, True)):
        head, params, batch, hidden, table = make_case("mixture", rng, mantissas=mantissas)
        key = None if key is None else jax.random.key(key)
        scores, out = score_step(head, params, hidden, table, batch, key=key)
        mean = (np.asarray(out.hidden, np.float64) @ np.asarray(params["mantissa"], np.float64))[:, 0]
        mean = np.where(scores.estimate.exponent < -8, 0, mean)
        assert (np.abs(scores.estimate.mantissa - mean).max() > 1e-3) == is_sampled


def test_numbers_below_the_smallest_exponent_become_zero(rng):
    head, params, batch, hidden, table = make_case("mixture", rng)
    params = params | {
        "exponent": np.zeros_like(params["exponent"])
    }  # among equals the first class: below every exponent
    scores, _ = score_step(head, params, hidden, table, batch)
    assert to_decimals(scores.numeral) == [0, 0, 0]
    ends = (to_decimals(end) for end in (scores.estimate.low, scores.estimate.high))
    assert [*zip(*ends, strict=True)] == [(Decimal("-1e-8"), Decimal("1e-8"))] * 3  # all below 10^−8


def test_token_head_is_log_softmax(rng):
    for tied in (True, False):
        head, params, batch, hidden, table = make_case("token", rng, tied=tied)
        kernel = np.asarray(table if tied else params["kernel"], np.float64)
        out = head.apply({"params": params}, hidden, batch.inputs, table)
        parts = jax.jit(lambda out, head=head, batch=batch: head.log_prob(out, batch.targets))(out)
        expected = log_softmax((hidden.astype(np.float64) @ kernel.T)[..., :SIZE])
        target_log_probs = np.take_along_axis(expected, batch.targets.ids[..., None], -1)[..., 0]
        np.testing.assert_allclose(parts["token"], target_log_probs, atol=1e-4)
    bare = build("heads", {"name": "token"}, **CONTEXT)
    with pytest.raises(ValueError, match="tied head needs a token embedding"):
        bare.init(jax.random.key(0), hidden, batch.inputs, None)


@pytest.mark.parametrize("pool", ["end", "first", "last_padded"])
def test_the_classifier_pools_at_its_position(rng, pool):
    head, params, batch, hidden, _ = make_case("classify", rng, pool=pool)
    lengths = (batch.inputs.segment_ids > 0).sum(1)
    pool_index = {"end": lengths - 1, "first": 0 * lengths, "last_padded": 0 * lengths + 11}[pool]
    weight, bias = (np.asarray(params[k], np.float64) for k in ("kernel", "bias"))
    expected = log_softmax(hidden[np.arange(3), pool_index].astype(np.float64) @ weight + bias)
    labels = batch.labels["label"]

    def score_labels(hidden):
        out = head.apply({"params": params}, hidden, batch.inputs)
        label = head.log_prob(out, labels)["label"]
        return label.sum(), (head.log_probs(out), label)

    gradient, (log_probs, label) = jax.jit(jax.grad(score_labels, has_aux=True))(hidden)
    np.testing.assert_allclose(log_probs, expected, atol=1e-5)
    np.testing.assert_allclose(label, expected[np.arange(3), labels], atol=1e-5)
    has_gradient = (np.asarray(gradient) != 0).any(-1)
    np.testing.assert_array_equal(has_gradient, np.arange(12)[None] == pool_index[:, None])


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (dict(name="mixture", density="wide"), "density must be one of"),
        (dict(name="mixture", keep=10), "keep must lie between 1 and"),
        (dict(name="mixture", mantissas="median"), "mantissas must be mean or sampled"),
        (dict(name="mixture", share=1.0), "share must lie between 0 and 1"),
        (dict(name="classify", num_classes=3, pool="middle"), "pool must be"),
    ],
)
def test_bad_options_are_named(block, message):
    row = jnp.zeros((1, 2), jnp.int32)
    with pytest.raises(UsageError, match=message):
        build("heads", block, **CONTEXT).init(jax.random.key(0), jnp.zeros((1, 2, WIDTH)), Tokens(row, row, row))


def test_numbers_beyond_every_class_have_a_likelihood(rng):

    head, params, batch, hidden, table = make_case("mixture", rng)
    values = [[Decimal("1e30"), Decimal("-1e-30"), Decimal(0), None]] * 3
    inputs = batch.inputs._replace(numerals=make_numeral_table(values))
    targets = add_numerals(batch._replace(inputs=inputs))
    out = head.apply({"params": params}, hidden, inputs, table)
    parts = jax.jit(lambda out: functools.reduce(jnp.add, head.log_prob(out, targets).values()))(out)
    assert np.isfinite(np.asarray(parts)[batch.targets.mask]).all()


def test_a_pooled_classifier_is_a_tanh_with_dropout_only_in_training(rng):
    """BERT's `ForSequenceClassification`: W tanh(P h_[CLS] + p) + b."""
    tokens = draw_batch(rng).inputs
    h = rng.standard_normal((*tokens.ids.shape, 8)).astype(np.float32)
    head = build(
        "heads", {"name": "classify", "num_classes": 3, "pool": "first", "pooler": True, "dropout": 0.5}, width=8
    )
    params = draw_params(head, rng, h, tokens)
    w = {name: np.asarray(value, np.float64) for name, value in params.items()}
    pooled = np.tanh(h[:, 0] @ w["pooler_kernel"] + w["pooler_bias"])
    logits = pooled @ w["kernel"] + w["bias"]
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    plain = head.apply({"params": params}, h, tokens)
    np.testing.assert_allclose(head.log_probs(plain), expected, atol=1e-5)
    dropped = head.apply({"params": params}, h, tokens, rngs={"dropout": jax.random.key(1)}).hidden
    is_kept = np.asarray(dropped) != 0
    assert 0 < is_kept.sum() < is_kept.size
    np.testing.assert_allclose(np.asarray(dropped)[is_kept], 2 * pooled[is_kept], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("text", [True, False])
def test_logits_of_single_symbols_with_and_without_text(text, rng):
    """Symbols have the logits of their rows and biases; ids that the head leaves out have no mass."""
    context = CONTEXT | {"symbol_range": (12, 6), "symbols": (12, ((1,),) * 6), "base": 10}
    head = build("heads", {"name": "joint", "text": text}, **context)
    inputs, _ = draw_tokens(rng, 2, 8)
    h = rng.standard_normal((2, 8, 16)).astype(np.float32)
    table = rng.standard_normal((VOCAB, 16)).astype(np.float32)
    out = head.apply({"params": draw_params(head, rng, h, inputs, table)}, h, inputs, table)
    ids = np.asarray([11, 12, 17], np.int32)
    logits = np.asarray(head.token_logits(out, ids))
    masses = [head.log_prob(out, Targets(np.full((2, 8), t, np.int32), inputs.ids > 0))["token"] for t in ids]
    np.testing.assert_allclose(np.diff(logits), np.diff(np.stack(masses, axis=-1)), atol=1e-4)
    assert (np.asarray(head.token_logits(out, np.asarray([3]))) < -1e29).all() == (not text)
