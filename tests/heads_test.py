"""Heads against their equations in float64; what each target's gradient reaches; masses that sum to one."""

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
from tests.drawn import DIGITS, KNOWN, NUM, SIZE, VOCAB, batch, draw, numeral_table, tokens, with_numerals

WIDTH = KNOWN["width"]
DENSITIES = ("printed", "scaled", "learned")


def log_softmax(x):
    top = x.max(-1, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(-1, keepdims=True))


def make(name: str, rng, **options):
    """(head, its parameters, a batch, hidden states)."""
    head = build("heads", {"name": name} | options, **KNOWN)
    found = batch(rng)
    hidden = rng.standard_normal((*found.inputs.ids.shape, WIDTH)).astype(np.float32)
    table = rng.standard_normal((VOCAB, WIDTH)).astype(np.float32)
    return head, draw(head, rng, hidden, found.inputs, table), found, hidden, table


def decimals_of(targets: Targets) -> np.ndarray:
    """The number of each position as an object array of Decimals, None where there is none."""
    assert targets.numerals is not None
    rows = [to_decimals(jax.tree.map(lambda x, b=b: np.asarray(x)[b], targets.numerals)) for b in range(3)]
    out = np.empty((len(rows), len(rows[0])), object)
    for b, row in enumerate(rows):
        out[b] = row
    return out


def mixture_reference(params, hidden, table, targets: Targets, head) -> dict[str, np.ndarray]:
    """Eq. 7–11, position by position, in float64."""
    weight = {name: np.asarray(value, np.float64) for name, value in params.items()}
    kernel = weight.get("kernel", np.asarray(table, np.float64))
    values = decimals_of(targets)
    out = {name: np.zeros(targets.ids.shape) for name in ("selector", "token", "exponent", "mantissa")}
    for at in np.ndindex(*targets.ids.shape):
        h, value = hidden[at].astype(np.float64), values[at]
        out["selector"][at] = log_softmax(h @ weight["selector"])[0 if value is None else 1]
        if value is None:
            logits = kernel @ h
            logits[[NUM, *range(SIZE, VOCAB)]] = -np.inf
            out["token"][at] = log_softmax(logits)[targets.ids[at]]
            continue
        exponent = value.adjusted() if value else 0
        row = 0 if exponent < -8 else 1 if exponent > 12 else exponent + 10
        out["exponent"][at] = log_softmax(h @ weight["exponent"])[row]
        x, mean = float(value.scaleb(-exponent)), float((h @ weight["mantissa"])[0])
        if head.density == "printed":
            out["mantissa"][at] = -((x - mean) ** 2) - 0.5 * math.log(math.pi)
        elif head.density == "scaled":
            out["mantissa"][at] = -(((x - mean) / head.scale) ** 2) - 0.5 * math.log(math.pi) - math.log(head.scale)
        else:
            s = 10 * math.tanh(float((h @ weight["log_variance"])[0]) / 10)
            out["mantissa"][at] = -0.5 * ((x - mean) ** 2 / math.exp(s) + s + math.log(2 * math.pi))
    return out


@pytest.mark.parametrize(("density", "tied"), [("printed", True), ("scaled", False), ("learned", False)])
def test_mixture_is_its_equations(rng, density, tied):
    head, params, found, hidden, table = make("mixture", rng, density=density, tied=tied, chunk_rows=7)
    targets = with_numerals(found)
    assert (targets.numeral_index >= 0).sum() > 3

    @jax.jit
    def run(params, hidden, weights):
        out = head.apply({"params": params}, hidden, found.inputs, table)
        return head.log_prob(out, targets), head.total_log_prob(out, targets, weights)

    # Only scored positions have a legal target.
    weights = np.where(found.targets.mask, rng.random(found.targets.mask.shape), 0).astype(np.float32)
    parts, totals = run(params, hidden, weights)
    expected = mixture_reference(params, hidden, table, targets, head)
    assert set(parts) == set(totals) == set(expected)
    for name, want in expected.items():
        mine = np.where(found.targets.mask, parts[name], 0)
        np.testing.assert_allclose(mine, np.where(found.targets.mask, want, 0), rtol=2e-4, atol=2e-4, err_msg=name)
        np.testing.assert_allclose(totals[name], (weights * want).sum(), rtol=2e-4, atol=2e-4, err_msg=name)


@pytest.mark.parametrize("density", DENSITIES)
def test_densities_integrate_to_one_and_are_those_of_log_prob(rng, density):
    head, params, found, hidden, table = make("mixture", rng, density=density, scale=1.7)
    out = head.apply({"params": params}, hidden[:1, :1], found.inputs, table)
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
    many = HeadOut(jnp.broadcast_to(out.hidden[:, :1], (1, len(texts), WIDTH)), out.weights)
    parts = head.log_prob(many, Targets(zeros, zeros > -1, zeros, numerals))
    want = [mantissa_log_density(float(text), mean, log_variance) for text in texts]
    np.testing.assert_allclose(parts["mantissa"][0], want, rtol=1e-4, atol=1e-5)


def test_printed_density_is_variance_one_half():
    assert float(mantissa_log_density(3.0, 1.0, math.log(0.5))) == pytest.approx(
        -4 - 0.5 * math.log(math.pi), abs=1e-6
    )


def gradients(head, params, hidden, table, found, keep):
    """d(Σ log p over the positions of `keep`) by hidden states, parameters and table."""
    targets = with_numerals(found)

    @jax.jit
    def of(params, hidden, table, weights):
        def total(params, hidden, table):
            out = head.apply({"params": params}, hidden, found.inputs, table)
            return sum(head.total_log_prob(out, targets, weights).values())

        return jax.grad(total, (0, 1, 2))(params, hidden, table)

    return jax.tree.map(np.asarray, of(params, hidden, table, keep.astype(np.float32)))


@pytest.mark.parametrize("tied", [False, True])
def test_gradient_reaches_what_it_should_and_nothing_else(rng, tied):
    head, params, found, hidden, table = make("mixture", rng, density="learned", tied=tied)
    numeral = (found.targets.numeral_index >= 0) & found.targets.mask
    text = found.targets.mask & ~numeral
    for keep, reached in (
        (text, {"selector", "token"}),
        (numeral, {"selector", "exponent", "mantissa", "log_variance"}),
    ):
        weights, at, table_grad = gradients(head, params, hidden, table, found, keep)
        kernel = table_grad if tied else weights["kernel"]
        moved = {"token"} if np.any(kernel) else set()
        moved |= {name for name, value in weights.items() if name != "kernel" and np.any(value)}
        assert moved == reached
        # A position that is not scored, whatever its target, receives nothing; a scored one something.
        np.testing.assert_array_equal((at != 0).any(-1), keep)
        if "token" in reached:
            np.testing.assert_array_equal(kernel[[NUM, *range(SIZE, VOCAB)]], 0)
            assert (np.abs(np.delete(kernel, [NUM, *range(SIZE, VOCAB)], axis=0)).max(-1) > 0).all()
        if not tied:
            np.testing.assert_array_equal(table_grad, 0)


def step(head, params, hidden, table, found, allowed=None, key=None):
    out = head.apply({"params": params}, hidden[:, -1:], found.inputs, table)
    out = HeadOut(out.hidden[:, 0], out.weights)
    return jax.jit(lambda out, allowed, key: head.step_scores(out, allowed, key))(out, allowed, key), out


@pytest.mark.parametrize("name", ["token", "mixture"])
def test_step_scores_are_masses_that_sum_to_one(rng, name):
    head, params, found, hidden, table = make(name, rng, tied=False)
    mass = step(head, params, hidden, table, found)[0].mass
    np.testing.assert_allclose(np.exp(mass).sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(np.exp(mass)[:, SIZE:], 0)
    legal = [i for i in range(SIZE) if i != NUM]
    rows = np.zeros((3, VOCAB), bool)
    rows[0, [1, 2, NUM]] = True  # both kinds
    rows[1, legal[:4]] = True  # text alone: the selector may not take from it
    rows[2, NUM] = True  # a number alone, for certain
    masked = step(head, params, hidden, table, found, allowed=rows)[0].mass
    np.testing.assert_allclose(np.exp(masked).sum(-1), 1, atol=1e-5)
    np.testing.assert_array_equal(np.exp(masked)[~rows], 0)
    assert masked[2, NUM] == pytest.approx(0, abs=1e-6)
    kept = np.asarray(mass)[1, legal[:4]]
    np.testing.assert_allclose(masked[1, legal[:4]], log_softmax(kept.astype(np.float64)), atol=1e-5)


def test_step_scores_are_what_training_scores(rng):
    head, params, found, hidden, table = make("mixture", rng)
    targets = with_numerals(found)
    out = head.apply({"params": params}, hidden, found.inputs, table)
    parts = jax.jit(lambda out: head.log_prob(out, targets))(out)
    score = jax.vmap(lambda h: head.step_scores(HeadOut(h, out.weights))[0], out_axes=1, in_axes=1)
    mass = jax.jit(score)(out.hidden)
    numeral = targets.numeral_index >= 0
    at = np.where(numeral, NUM, targets.ids)
    chosen = np.take_along_axis(np.asarray(mass), at[..., None], -1)[..., 0]
    expected = parts["selector"] + parts["token"]
    np.testing.assert_allclose(chosen[targets.mask], expected[targets.mask], atol=1e-4)


def test_masked_training_renormalises_over_what_is_open(rng):
    head, params, found, hidden, table = make("mixture", rng)
    targets = with_numerals(found)
    class_of = np.where(np.arange(VOCAB) == NUM, 1, np.where(np.arange(VOCAB) % 2 == 0, 2, 3)).astype(np.int32)
    classes = rng.random((*targets.ids.shape, 4)) < 0.5
    np.put_along_axis(classes, class_of[targets.ids][..., None], True, -1)
    out = head.apply({"params": params}, hidden, found.inputs, table)
    parts = jax.jit(lambda out: head.log_prob(out, targets, Allowed(classes, class_of)))(out)
    score = jax.vmap(lambda h, a: head.step_scores(HeadOut(h, out.weights), a)[0], in_axes=1, out_axes=1)
    mass = jax.jit(score)(out.hidden, classes[..., class_of])
    chosen = np.take_along_axis(np.asarray(mass), targets.ids[..., None], -1)[..., 0]
    expected = parts["selector"] + parts["token"]
    np.testing.assert_allclose(chosen[targets.mask], expected[targets.mask], atol=1e-4)


@pytest.mark.parametrize("keep", [4, 8])
def test_predicted_numeral(rng, keep):
    """Canonical, and the estimate rounded: against float64 and exact decimals."""
    head, params, found, hidden, table = make("mixture", rng, keep=keep)
    scores, out = step(head, params, hidden, table, found)
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


def test_a_perfect_mixture_gives_every_number_back_that_it_represents(rng):
    """Hidden states that say mantissa and exponent outright: what is written is the number, or its nearest."""
    head, params, found, _, table = make("mixture", rng, keep=7, low=-8, high=12)
    exact = ["0", "-0", "7", "-7", "0.001", "1e12", "-2.5e-8", "9999999", "1234567", "0.0625", "1000000", "-30.05"]
    others = {"1e20": "1e13", "1e-9": "0", "12345678": "12345680", "0.12345674": "0.1234567", "99999999": "100000000"}
    context = Context(prec=7, rounding=ROUND_HALF_EVEN)
    params = {name: np.zeros_like(value) for name, value in params.items()}
    params["mantissa"][0] = 1
    classes = params["exponent"].shape[1]
    assert classes + 1 > WIDTH, "an exponent is said by a product, not by a coordinate of its own"
    for text, wanted in [*((text, text) for text in exact), *others.items()]:
        value = Decimal(text)
        assert head.represents(value) == (text in exact), text
        exponent = value.adjusted() if value else -9
        row = int(exponent_id(jnp.int32(exponent), -8, 12))
        params["exponent"][1] = np.where(np.arange(classes) == row, 50, 0)
        hidden = np.zeros((1, 1, WIDTH), np.float32)
        hidden[..., 0] = float(value.scaleb(-exponent)) if row > 1 else math.copysign(1, value)
        hidden[..., 1] = 1
        out = head.apply({"params": params}, hidden, found.inputs, table)
        (written,) = to_decimals(head.step_scores(HeadOut(out.hidden[:, 0], out.weights)).numeral)
        assert written == Decimal(wanted), text
        assert row < 2 or written == context.plus(value), text


def test_sampled_exponents_follow_their_distribution(rng):
    head, params, found, hidden, table = make("mixture", rng)
    params = params | {"exponent": params["exponent"] * 0.3}
    out = head.apply({"params": params}, hidden[:1, -1:], found.inputs, table)
    out = HeadOut(out.hidden[:, 0], out.weights)
    draw = jax.jit(jax.vmap(lambda key: head.step_scores(out, None, key).estimate.exponent[0]))
    drawn = np.asarray(draw(jax.random.split(jax.random.key(3), 4000)))
    logits = np.asarray(out.hidden[0], np.float64) @ np.asarray(params["exponent"], np.float64)
    p = np.exp(log_softmax(logits))
    expected = np.concatenate([p[:1], p[2:], p[1:2]])  # −INF, −8 … 12, +INF
    seen = np.bincount(drawn + 9, minlength=23) / 4000
    assert np.abs(seen - expected).max() < 5 * math.sqrt(0.25 / 4000)


@pytest.mark.parametrize(("density", "variance"), [("printed", 0.5), ("scaled", 1.445), ("learned", 0.04)])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_the_interval_holds_the_share_of_what_the_head_samples(rng, density, variance, share):
    """The head is set to say N(3.2, variance) · 10^4; its own sampler draws, and nothing else is assumed."""
    options = dict(density=density, scale=1.7, share=share, mantissas="sampled")
    head, params, found, _, table = make("mixture", rng, **options)
    at = np.zeros((1, 1, WIDTH), np.float32)
    at[..., 0] = 1
    params = {name: np.zeros_like(value) for name, value in params.items()}
    params["mantissa"][0], params["exponent"][0, 4 + 10] = 3.2, 50
    if density == "learned":
        params["log_variance"][0] = 10 * math.atanh(math.log(variance) / 10)
    out = head.apply({"params": params}, at, found.inputs, table)
    out = HeadOut(out.hidden[:, 0], out.weights)

    count = 20_000
    keys = jax.random.split(jax.random.key(7), count)
    drawn = jax.jit(jax.vmap(lambda key: head.step_scores(out, None, key).estimate))(keys)
    assert (np.asarray(drawn.exponent) == 4).all()
    drawn = np.asarray(drawn.mantissa, np.float64)[:, 0]
    estimate = head.step_scores(out).estimate
    low, high = (float(to_decimals(end)[0]) / 1e4 for end in (estimate.low, estimate.high))
    np.testing.assert_allclose([(low + high) / 2, float(estimate.mantissa[0])], 3.2, rtol=1e-4)
    assert estimate.share == np.float32(share)
    five_sigma = 5 * math.sqrt(share * (1 - share) / count)
    assert abs(np.mean((low < drawn) & (drawn < high)) - share) < five_sigma
    assert abs(np.mean(drawn <= low) - (1 - share) / 2) < five_sigma, "it is the central one"
    assert abs(drawn.var() / variance - 1) < 5 * math.sqrt(2 / count)


def test_mantissas_are_drawn_only_where_they_are_asked_for_and_decoding_samples(rng):
    for mantissas, key, moves in (("mean", 3, False), ("sampled", None, False), ("sampled", 3, True)):
        head, params, found, hidden, table = make("mixture", rng, mantissas=mantissas)
        key = None if key is None else jax.random.key(key)
        scores, out = step(head, params, hidden, table, found, key=key)
        mean = (np.asarray(out.hidden, np.float64) @ np.asarray(params["mantissa"], np.float64))[:, 0]
        mean = np.where(scores.estimate.exponent < -8, 0, mean)
        assert (np.abs(scores.estimate.mantissa - mean).max() > 1e-3) == moves


def test_zero_stands_for_all_that_is_smaller_than_the_exponents_reach(rng):
    head, params, found, hidden, table = make("mixture", rng)
    params = params | {"exponent": np.zeros_like(params["exponent"])}  # of equals the first: below them all
    scores, _ = step(head, params, hidden, table, found)
    assert to_decimals(scores.numeral) == [0, 0, 0]
    ends = (to_decimals(end) for end in (scores.estimate.low, scores.estimate.high))
    assert [*zip(*ends, strict=True)] == [(Decimal("-1e-8"), Decimal("1e-8"))] * 3  # all below 10^−8


def test_token_head_is_log_softmax(rng):
    for tied in (True, False):
        head, params, found, hidden, table = make("token", rng, tied=tied)
        kernel = np.asarray(table if tied else params["kernel"], np.float64)
        out = head.apply({"params": params}, hidden, found.inputs, table)
        found_parts = jax.jit(lambda out, head=head, found=found: head.log_prob(out, found.targets))(out)
        expected = log_softmax((hidden.astype(np.float64) @ kernel.T)[..., :SIZE])
        want = np.take_along_axis(expected, found.targets.ids[..., None], -1)[..., 0]
        np.testing.assert_allclose(found_parts["token"], want, atol=1e-4)
    bare = build("heads", {"name": "token"}, **KNOWN)
    with pytest.raises(ValueError, match="tied head needs a token embedding"):
        bare.init(jax.random.key(0), hidden, found.inputs, None)


@pytest.mark.parametrize("pool", ["end", "first", "last_padded"])
def test_classifier_pools_where_it_says(rng, pool):
    head, params, found, hidden, _ = make("classify", rng, pool=pool)
    lengths = (found.inputs.segment_ids > 0).sum(1)
    at = {"end": lengths - 1, "first": 0 * lengths, "last_padded": 0 * lengths + 11}[pool]
    weight, bias = (np.asarray(params[k], np.float64) for k in ("kernel", "bias"))
    expected = log_softmax(hidden[np.arange(3), at].astype(np.float64) @ weight + bias)
    labels = found.labels["label"]

    def pooled(hidden):
        out = head.apply({"params": params}, hidden, found.inputs)
        label = head.log_prob(out, labels)["label"]
        return label.sum(), (head.log_probs(out), label)

    gradient, (log_probs, label) = jax.jit(jax.grad(pooled, has_aux=True))(hidden)
    np.testing.assert_allclose(log_probs, expected, atol=1e-5)
    np.testing.assert_allclose(label, expected[np.arange(3), labels], atol=1e-5)
    reached = (np.asarray(gradient) != 0).any(-1)
    np.testing.assert_array_equal(reached, np.arange(12)[None] == at[:, None])


@pytest.mark.parametrize(
    ("block", "says"),
    [
        (dict(name="mixture", density="wide"), "density must be one of"),
        (dict(name="mixture", keep=10), "keep must lie between 1 and"),
        (dict(name="mixture", mantissas="median"), "mantissas must be mean or sampled"),
        (dict(name="mixture", share=1.0), "share must lie between 0 and 1"),
        (dict(name="classify", num_classes=3, pool="middle"), "pool must be"),
    ],
)
def test_bad_options_are_named(block, says):
    row = jnp.zeros((1, 2), jnp.int32)
    with pytest.raises(UsageError, match=says):
        build("heads", block, **KNOWN).init(jax.random.key(0), jnp.zeros((1, 2, WIDTH)), Tokens(row, row, row))


def test_numbers_beyond_every_class_have_a_likelihood(rng):

    head, params, found, hidden, table = make("mixture", rng)
    far = [[Decimal("1e30"), Decimal("-1e-30"), Decimal(0), None]] * 3
    inputs = found.inputs._replace(numerals=numeral_table(far))
    targets = with_numerals(found._replace(inputs=inputs))
    out = head.apply({"params": params}, hidden, inputs, table)
    parts = jax.jit(lambda out: functools.reduce(jnp.add, head.log_prob(out, targets).values()))(out)
    assert np.isfinite(np.asarray(parts)[found.targets.mask]).all()


def test_a_pooled_classifier_is_a_tanh_and_drops_in_training_alone(rng):
    """BERT's `ForSequenceClassification`: W tanh(P h_[CLS] + p) + b."""
    tokens = batch(rng).inputs
    h = rng.standard_normal((*tokens.ids.shape, 8)).astype(np.float32)
    head = build(
        "heads", {"name": "classify", "num_classes": 3, "pool": "first", "pooler": True, "dropout": 0.5}, width=8
    )
    params = draw(head, rng, h, tokens)
    w = {name: np.asarray(value, np.float64) for name, value in params.items()}
    pooled = np.tanh(h[:, 0] @ w["pooler_kernel"] + w["pooler_bias"])
    logits = pooled @ w["kernel"] + w["bias"]
    wanted = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    plain = head.apply({"params": params}, h, tokens)
    np.testing.assert_allclose(head.log_probs(plain), wanted, atol=1e-5)
    dropped = head.apply({"params": params}, h, tokens, rngs={"dropout": jax.random.key(1)}).hidden
    kept = np.asarray(dropped) != 0
    assert 0 < kept.sum() < kept.size
    np.testing.assert_allclose(np.asarray(dropped)[kept], 2 * pooled[kept], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("text", [True, False])
def test_logits_of_single_symbols_with_and_without_text(text, rng):
    """Their rows and biases, wherever they lie; what is left out has no mass."""
    known = KNOWN | {"symbol_range": (12, 6), "symbols": (12, ((1,),) * 6), "base": 10}
    head = build("heads", {"name": "joint", "text": text}, **known)
    inputs, _ = tokens(rng, 2, 8)
    h = rng.standard_normal((2, 8, 16)).astype(np.float32)
    table = rng.standard_normal((VOCAB, 16)).astype(np.float32)
    out = head.apply({"params": draw(head, rng, h, inputs, table)}, h, inputs, table)
    ids = np.asarray([11, 12, 17], np.int32)
    logits = np.asarray(head.token_logits(out, ids))
    masses = [head.log_prob(out, Targets(np.full((2, 8), t, np.int32), inputs.ids > 0))["token"] for t in ids]
    np.testing.assert_allclose(np.diff(logits), np.diff(np.stack(masses, axis=-1)), atol=1e-4)
    assert (np.asarray(head.token_logits(out, np.asarray([3]))) < -1e29).all() == (not text)
