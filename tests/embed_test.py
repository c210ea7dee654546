"""Embeddings against their equations in float64, computed from the decimals themselves."""

from __future__ import annotations

import math
from decimal import Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.embed import dice, linked, prototype, token
from numjax.errors import DataError, UsageError
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import Tokens
from tests.drawn import CONTEXT, DIGITS, draw_decimals, draw_tokens, make_numeral_table


def split_number(value: Decimal) -> tuple[float, int]:
    """Returns (f, e) with value = f · 10^e and 1 ≤ |f| < 10; zero is (0, 0) (NumGPT eq. 1)."""
    exponent = value.adjusted() if value else 0
    return float(value.scaleb(-exponent)), exponent


def compute_numgpt(value: Decimal, table, count: int, sigma: float, low: int, high: int) -> np.ndarray:
    """Computes a vector by NumGPT's eq. 2–4."""
    f, e = split_number(value)
    row = 0 if e < low else 1 if e > high else 2 + e - low
    q = np.array([-10 + 20 * i / (count - 1) for i in range(count)])
    return np.concatenate([np.asarray(table, np.float64)[row], np.exp(-((f - q) ** 2) / sigma**2)])


def apply_prototype(values, table, **options):
    module = prototype.Embed(**options)
    return np.asarray(jax.jit(module.apply)({"params": {"exponent": table}}, to_numeral(values, DIGITS)))


def test_prototype_agrees_with_its_equations(rng):
    count, d_e, sigma = int(rng.integers(5, 40)), int(rng.integers(1, 9)), float(rng.uniform(0.3, 5))
    values = [*draw_decimals(rng, 60, -14, 18), Decimal("9.999999"), Decimal("-9.999999"), Decimal(0)]
    table = rng.standard_normal((23, d_e)).astype(np.float32)
    vectors = apply_prototype(values, table, dim=d_e + count, exponent_dim=d_e, sigma=sigma)
    expected = np.stack([compute_numgpt(v, table, count, sigma, -8, 12) for v in values])
    # float32 keeps the mantissa to 1e-6; the steepest flank multiplies this by at most 1 / sigma.
    np.testing.assert_allclose(vectors, expected, atol=3e-6 / min(sigma, 1), rtol=1e-5)


def test_powers_of_ten_differ_only_in_their_exponent(rng):
    powers = range(-8, 13)
    table = rng.standard_normal((23, 4)).astype(np.float32)
    values = [Decimal(sign).scaleb(k) for sign in (1, -1) for k in powers]
    vectors = apply_prototype(values, table, dim=20, exponent_dim=4)
    ones = apply_prototype([Decimal(1), Decimal(-1)], table, dim=20, exponent_dim=4)
    for i, sign in enumerate((0, 1)):
        rows = vectors[i * len(powers) : (i + 1) * len(powers)]
        np.testing.assert_array_equal(rows[:, :4], table[2:])
        np.testing.assert_array_equal(rows[:, 4:], np.broadcast_to(ones[sign, 4:], (len(powers), 16)))


def test_zero_is_mantissa_and_exponent_zero_whatever_its_sign(rng):
    table = rng.standard_normal((23, 4)).astype(np.float32)
    zero, minus_zero, zero_with_exponent = apply_prototype(
        [Decimal("0"), Decimal("-0"), Decimal("0.000e5")], table, dim=21, exponent_dim=4
    )
    np.testing.assert_array_equal(zero, minus_zero)
    np.testing.assert_array_equal(zero, zero_with_exponent)
    np.testing.assert_array_equal(zero[:4], table[2 + 8])
    assert zero[4:].argmax() == 8  # of 17 prototypes the middle one is 0
    np.testing.assert_allclose(zero[4:], zero[4:][::-1], atol=1e-7)


def test_beyond_the_exponents_vectors_differ_by_the_mantissa(rng):
    table = rng.standard_normal((23, 4)).astype(np.float32)
    values = [Decimal(text) for text in ("1e13", "7e13", "7e15", "1e300", "1e-9", "7e-9", "7e-300")]
    vectors = apply_prototype(values, table, dim=20, exponent_dim=4)
    np.testing.assert_array_equal(vectors[:4, :4], np.broadcast_to(table[1], (4, 4)))
    np.testing.assert_array_equal(vectors[4:, :4], np.broadcast_to(table[0], (3, 4)))
    np.testing.assert_array_equal(vectors[1], vectors[2])
    assert np.abs(vectors[0, 4:] - vectors[1, 4:]).max() > 0.5
    np.testing.assert_array_equal(vectors[1, 4:], vectors[5, 4:])


def test_a_negative_number_mirrors_its_prototypes(rng):
    table = np.zeros((23, 1), np.float32)
    values = [abs(v) for v in draw_decimals(rng, 20)]
    plus = apply_prototype(values, table, dim=33, exponent_dim=1)[:, 1:]
    minus = apply_prototype([-v for v in values], table, dim=33, exponent_dim=1)[:, 1:]
    np.testing.assert_allclose(plus, minus[:, ::-1], atol=1e-5)


def test_prototype_refuses_sizes_that_leave_nothing():
    with pytest.raises(ValueError, match="exponent_dim"):
        prototype.Embed(dim=8, exponent_dim=8).init(jax.random.key(0), to_numeral([Decimal(1)], DIGITS))


# ---------------------------------------------------------------------------------------------------


def angle_between(u, v):
    """Computes angles from chords, which are accurate for small angles; cosines are not."""
    return 2 * np.arcsin(np.clip(np.linalg.norm(u - v, axis=-1) / 2, 0, 1))


def draw_inside(rng, count, low, high):
    return [Decimal(repr(float(x))) for x in rng.uniform(low, high, count)]


def compute_dice(values, **options):
    settings = dict(dim=16, form="2", low=0.0, high=1e5, out_of_range="clamp", as_printed=False, seed=0) | options
    return dice.dice(to_numeral(values, 20), **settings)


def test_dice_2_turns_by_exactly_the_distance(rng):
    low = float(rng.uniform(-900, 900))
    high = low + float(rng.uniform(1, 5000))
    xs, ys = draw_inside(rng, 200, low, high), draw_inside(rng, 200, low, high)
    u, v = (compute_dice(values, low=low, high=high, dim=int(rng.integers(2, 40)), seed=5) for values in (xs, xs))
    assert u.dtype == np.float64
    np.testing.assert_allclose(np.linalg.norm(u, axis=-1), 1, atol=1e-12)
    v = compute_dice(ys, low=low, high=high, dim=u.shape[-1], seed=5)
    expected = [math.pi * abs(float(x) - float(y)) / (high - low) for x, y in zip(xs, ys, strict=True)]
    np.testing.assert_allclose(angle_between(u, v), expected, atol=1e-7)
    is_mild = np.array(expected) < 2  # where a chord resolves angles best
    np.testing.assert_allclose(angle_between(u, v)[is_mild], np.array(expected)[is_mild], atol=1e-12)


@pytest.mark.parametrize("size", [2, 3, 10, 300])
def test_dice_d_norms_and_anchor(rng, size):
    values = [*draw_inside(rng, 40, 10, 510), Decimal(10), Decimal(510)]
    theta = np.array([math.pi * (float(v) - 10) / 500 for v in values])
    fixed = compute_dice(values, form="d", dim=size, low=10.0, high=510.0)
    printed = compute_dice(values, form="d", dim=size, low=10.0, high=510.0, as_printed=True)
    np.testing.assert_allclose(np.linalg.norm(fixed, axis=-1), 1, atol=1e-12)
    squared = 1 - np.sin(theta) ** (2 * (size - 1)) + np.sin(theta) ** (2 * size)
    np.testing.assert_allclose(np.square(printed).sum(-1), squared, atol=1e-12)
    anchor = compute_dice([Decimal(10)], form="d", dim=size, low=10.0, high=510.0)
    np.testing.assert_allclose(angle_between(fixed, anchor), theta, atol=1e-6)


def test_dice_d_agrees_with_its_equation_up_to_a_rotation(rng):
    size, theta = 7, rng.uniform(0, math.pi, 30)
    for printed, last in ((True, size), (False, size - 1)):
        rows = [[math.sin(t) ** (d - 1) * math.cos(t) for d in range(1, size)] + [math.sin(t) ** last] for t in theta]
        np.testing.assert_allclose(dice.on_sphere(theta, size, as_printed=printed), rows, atol=1e-12)
        values = [Decimal(repr(float(t))) for t in theta]
        rotated = compute_dice(values, form="d", dim=size, low=0.0, high=math.pi, as_printed=printed)
        np.testing.assert_allclose(rotated @ rotated.T, np.array(rows) @ np.array(rows).T, atol=1e-9)
    np.testing.assert_allclose(dice.on_sphere(theta, 2), dice.on_circle(theta), atol=1e-12)


def test_rotation_has_orthonormal_columns_and_follows_the_seed():
    q = dice.rotation(24, 24, 3)
    np.testing.assert_allclose(q.T @ q, np.eye(24), atol=1e-12)
    np.testing.assert_array_equal(dice.rotation(24, 5, 3), q[:, :5])
    assert np.abs(dice.rotation(24, 24, 4) - q).max() > 0.1


@pytest.mark.parametrize("form", ["2", "d"])
@pytest.mark.parametrize("mode", ["random", "clamp"])
def test_dice_is_the_same_on_device_and_host(rng, form, mode):
    module = dice.Embed(dim=10, form=form, low=-50.0, high=1e5, out_of_range=mode, seed=11)
    edges = [Decimal(text) for text in ("-50", "1e5", "-50.001", "100000.1", "0", "-0", "1e30", "-1e30", "1e-30")]
    for k in range(-4, 6):
        edges.append(Decimal(1).scaleb(k))
    table = make_numeral_table([[*draw_decimals(rng, 40, -3, 7), *edges]], 20)
    host_vectors = module.host_features(jax.tree.map(lambda x: x[0], table))["vector"]
    device_vectors = jax.jit(lambda n: module.apply({}, n))(table)[0]
    assert host_vectors.dtype == np.float32 and device_vectors.dtype == jnp.float32
    np.testing.assert_allclose(device_vectors, host_vectors, atol=3e-5)
    sent = module.apply({}, table, {"vector": host_vectors[None]})
    np.testing.assert_array_equal(sent[0], host_vectors)


def test_random_angles_are_seeded_by_value_and_seed(rng):
    values = sorted(set(draw_decimals(rng, 400, -5, 12)))
    numerals = to_numeral(values, 20)
    host_angles = dice.seeded_angle(numerals, 7)
    device_angles = jax.jit(lambda n: dice.seeded_angle(n, 7))(numerals)
    np.testing.assert_array_equal(np.asarray(device_angles), host_angles)
    assert len(set(host_angles.tolist())) >= len(values) - 1  # 24 bits: one collision is bad luck, two are a defect
    other_angles = dice.seeded_angle(numerals, 8)
    assert (other_angles != host_angles).mean() > 0.99
    # Uniform over the circle: the mean direction of 400 angles is near 0, and every quarter is visited.
    assert abs(np.exp(1j * host_angles.astype(np.float64)).mean()) < 0.2
    assert np.histogram(host_angles, 4, (-np.pi, np.pi))[0].min() > 50
    assert np.abs(host_angles).max() <= np.float32(np.pi)
    mirrored = to_numeral([Decimal(1).scaleb(5), Decimal(-1).scaleb(-5)], 20)
    assert len(set(dice.seeded_angle(mirrored, 7).tolist())) == 2
    # Only the value counts, not its notation.
    rewritten_angles = dice.seeded_angle(to_numeral([Decimal(f"{v:E}") for v in values], 20), 7)
    np.testing.assert_array_equal(rewritten_angles, host_angles)
    short = [v for v in values if len(v.as_tuple().digits) <= 12]
    few, many = (dice.seeded_angle(to_numeral(short, digits), 7) for digits in (12, 20))
    np.testing.assert_array_equal(few, many)
    zeros = to_numeral([Decimal("0"), Decimal("-0")], 20)
    assert len(set(dice.seeded_angle(zeros._replace(sign=np.asarray([1, -1], np.int8)), 7).tolist())) == 1


def test_out_of_range_modes():
    below, above = Decimal(-3), Decimal("1e9")
    ends = compute_dice([Decimal(0), Decimal(100)], high=100.0)
    np.testing.assert_allclose(compute_dice([below, above], high=100.0, out_of_range="clamp"), ends, atol=1e-12)
    random = compute_dice([below, above], high=100.0, out_of_range="random")
    assert np.abs(random - ends).max() > 1e-3
    np.testing.assert_allclose(np.linalg.norm(random, axis=-1), 1, atol=1e-6)
    for bad in (below, above):
        with pytest.raises(DataError, match=r"outside DICE's range \[0, 100\]"):
            compute_dice([Decimal(1), bad], high=100.0, out_of_range="error")
    compute_dice([Decimal(1), None, Decimal(100)], high=100.0, out_of_range="error")  # empty slots are no numbers
    compute_dice([], high=100.0, out_of_range="error")


@pytest.mark.parametrize("options", [dict(form="3"), dict(out_of_range="wrap"), dict(low=5.0, high=5.0), dict(dim=1)])
def test_dice_names_a_bad_option(options):
    with pytest.raises(UsageError, match=next(iter(options)) + " must be"):
        dice.Embed(**options).host_features(to_numeral([Decimal(1)], 20))


def test_token_looks_vectors_up(rng):
    module = build("embed", {"name": "token"}, dim=6, **CONTEXT)
    ids = rng.integers(0, CONTEXT["vocab_size"], (2, 9)).astype(np.int32)
    table = rng.standard_normal((CONTEXT["vocab_size"], 6)).astype(np.float32)
    vectors = module.apply({"params": {"table": table}}, Tokens(ids, ids, ids))
    np.testing.assert_array_equal(vectors, table[ids])
    np.testing.assert_array_equal(token.lookup(table, ids), table[ids])


def test_words_are_dropped_only_in_training_and_symbols_never():
    embed = linked.Embed(dim=4, vocab_size=12, symbols=(8, ((1, 2), ())), word_dropout=0.5)
    ids = jnp.asarray([[1, 2, 3, 4, 5, 6, 8, 9] * 8])
    count = ids.shape[1]
    tokens = Tokens(ids, jnp.arange(count)[None], jnp.ones((1, count), int), jnp.full((1, count), -1), None)
    params = embed.init(jax.random.key(0), tokens)
    eval_vectors = embed.apply(params, tokens)
    train_vectors = embed.apply(params, tokens, rngs={"dropout": jax.random.key(1)})
    is_dropped, is_symbol = np.asarray((train_vectors == 0).all(-1)), np.asarray(ids >= 8)
    assert not (np.asarray(eval_vectors) == 0).all(-1).any()
    assert 10 < is_dropped[~is_symbol].sum() < 40 and not is_dropped[is_symbol].any()
    np.testing.assert_array_equal(np.asarray(train_vectors)[~is_dropped], np.asarray(eval_vectors)[~is_dropped])


def test_a_token_type_is_the_first_where_a_task_adds_others(rng):
    """So a scheme's types mean the same beside the facts that a task gives about each position."""
    tokens, _ = draw_tokens(rng)
    types = rng.integers(0, 8, (*tokens.ids.shape, 3)).astype(np.int32)
    part = build("embed", {"name": "token_type", "dim": 16, "types": 8})
    alone, beside = (tokens._replace(channels={"types": channel}) for channel in (types[..., 0], types))
    params = part.init(jax.random.key(0), alone)
    np.testing.assert_array_equal(part.apply(params, beside), part.apply(params, alone))
    assert np.ptp(part.apply(params, beside), axis=(0, 1)).min() > 0


def test_token_types_begin_at_a_tenth_of_xavier(rng):
    tokens, _ = draw_tokens(rng)
    tokens = tokens._replace(channels={"types": np.zeros(tokens.ids.shape, np.int32)})
    part = build("embed", {"name": "token_type", "dim": 512, "types": 64})
    vectors = np.asarray(part.init(jax.random.key(0), tokens)["params"]["vectors"])
    assert vectors.shape == (64, 512) and vectors.std() == pytest.approx(0.1 * math.sqrt(2 / (64 + 512)), rel=0.02)


@pytest.mark.parametrize("name", ["value", "value_mlp"])
def test_a_grid_of_values_is_its_rows(name):
    part = build("embed", {"name": name, "dim": 6})
    numerals = to_numeral([Decimal(v) for v in (1, -2, 3, 400, 0, 7)], 12)
    params = part.init(jax.random.key(0), numerals)
    grid = part.apply(params, jax.tree.map(lambda x: x.reshape(2, 3, *x.shape[1:]), numerals))
    np.testing.assert_allclose(np.asarray(grid).reshape(6, 6), part.apply(params, numerals), rtol=1e-6)
    if name == "value_mlp":
        assert params["params"]["up"]["kernel"].shape == (1, 12), "twice as wide as its output"


@pytest.mark.parametrize("digits", [1, 5, 16, 30])
def test_the_value_on_the_host_is_the_nearest_float(digits, rng):
    """Also beyond float64's range, and of numbers with more digits than float64 holds."""
    texts = [
        f"{'-' * int(rng.integers(2))}{rng.integers(0, 10**18)}e{rng.integers(low, high)}"
        for low, high in ((-25, 5), (-345, 300))
        for _ in range(500)
    ]
    numerals = to_numeral([Decimal(text) for text in [*texts, "0.7", "-0", "1e400"]], digits)
    expected = [float(value) for value in to_decimals(numerals)]
    values = dice.float64_value(numerals)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(np.signbit(values), np.signbit(expected))


@pytest.mark.parametrize("high", ["0.7", "0.6", "1.1", "97.7", "0.003"])
def test_the_ends_of_dices_range_lie_inside_it(high):
    numerals = to_numeral([Decimal(high), Decimal(0)], 8)
    ends = [
        dice.Embed(dim=4, low=0.0, high=float(high), out_of_range=name).host_vectors(numerals)
        for name in ("random", "clamp", "error")
    ]
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])
