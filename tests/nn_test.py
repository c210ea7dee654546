"""Layers against float64 NumPy: chunked cross-entropy, attention, norms, and numerals on the device."""

from __future__ import annotations

import functools
import re
from decimal import ROUND_HALF_EVEN, Context, Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.errors import UsageError
from numjax.nn import attention, cross_entropy, dropout, norm, numerals
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import Allowed
from tests.drawn import make_numeral_table

B, T, D, V, SIZE, BANNED, CLASSES = 3, 11, 6, 40, 35, 4, 5


class CrossEntropyCase:
    """Hidden states, kernel, legal targets, weights, and the legal classes of each position."""

    def __init__(self, rng, masked: bool):
        self.hidden = rng.standard_normal((B, T, D)).astype(np.float32)
        self.kernel = (2 * rng.standard_normal((V, D))).astype(np.float32)
        self.class_of = np.concatenate([np.arange(CLASSES), rng.integers(0, CLASSES, V - CLASSES)]).astype(np.int32)
        legal = [i for i in range(SIZE) if i != BANNED]
        self.targets = rng.choice(legal, (B, T)).astype(np.int32)
        self.weights = (rng.random((B, T)) * (rng.random((B, T)) < 0.7)).astype(np.float32)
        classes = rng.random((B, T, CLASSES)) < 0.4
        np.put_along_axis(classes, self.class_of[self.targets][..., None], True, axis=-1)
        self.allowed = Allowed(classes, self.class_of) if masked else None
        self.options = dict(size=SIZE, banned=BANNED, allowed=self.allowed)

    def make_mask(self) -> np.ndarray:
        """Returns the legal ids as bool[B, T, V]."""
        ids = np.arange(V)
        mask = np.broadcast_to((ids < SIZE) & (ids != BANNED), (B, T, V))
        return mask if self.allowed is None else mask & self.allowed.classes[..., self.class_of]

    def compute_log_prob(self) -> np.ndarray:
        """Returns log p(target) in float64."""
        logits = self.hidden.astype(np.float64) @ self.kernel.astype(np.float64).T
        logits = np.where(self.make_mask(), logits, -np.inf)
        top = logits.max(-1, keepdims=True)
        log_p = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
        return np.take_along_axis(log_p, self.targets[..., None], -1)[..., 0]

    def compute_plain_loss(self, hidden, kernel):
        """Returns the loss from an array of all logits."""
        logits = jnp.where(self.make_mask(), hidden @ kernel.T, -jnp.inf)
        log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), self.targets[..., None], -1)[..., 0]
        return (self.weights * log_p).sum()


# One position a chunk, chunks with a remainder, one chunk for all, and the default.
@pytest.mark.parametrize(("masked", "chunk_rows"), [(False, 1), (False, 9), (True, 5), (True, 10**6), (True, None)])
def test_cross_entropy_is_log_softmax_for_any_chunk_size(rng, masked, chunk_rows):
    case = CrossEntropyCase(rng, masked)
    options = case.options | {"chunk_rows": chunk_rows}

    def total(hidden, kernel):
        return 2 * cross_entropy.total_log_prob(hidden, kernel, case.targets, case.weights, **options)

    def score_each(hidden, kernel):
        log_p = cross_entropy.log_prob(hidden, kernel, case.targets, **options)
        return (case.weights * log_p).sum(), log_p

    @jax.jit
    def compute_all(hidden, kernel):
        loss = jax.value_and_grad(total, (0, 1))(hidden, kernel)
        single = jax.value_and_grad(score_each, (0, 1), has_aux=True)(hidden, kernel)
        return loss, total(hidden, kernel), single, jax.grad(case.compute_plain_loss, (0, 1))(hidden, kernel)

    (value, total_grads), plain_value, ((_, log_p), each_grads), grads = compute_all(case.hidden, case.kernel)
    expected = case.compute_log_prob()
    assert log_p.shape == (B, T)
    np.testing.assert_allclose(log_p, expected, atol=3e-5)
    np.testing.assert_allclose(value, 2 * (case.weights * expected).sum(), rtol=2e-5)
    np.testing.assert_allclose(plain_value, value, rtol=1e-6)
    for plain_grad, doubled, single in zip(grads, total_grads, each_grads, strict=True):
        np.testing.assert_allclose(doubled, 2 * plain_grad, atol=5e-5)
        np.testing.assert_allclose(single, plain_grad, atol=5e-5)


def test_padded_banned_and_illegal_ids_have_no_mass_and_no_gradient(rng):
    case = CrossEntropyCase(rng, masked=True)
    mass = jax.jit(lambda h, k: jax.nn.softmax(cross_entropy.vocabulary_logits(h, k, SIZE, case.allowed, BANNED)))(
        case.hidden, case.kernel
    )
    np.testing.assert_array_equal(np.asarray(mass)[~case.make_mask()], 0)
    np.testing.assert_allclose(mass.sum(-1), 1, atol=1e-6)
    total = functools.partial(cross_entropy.total_log_prob, **case.options)
    d_kernel = jax.grad(lambda k: total(case.hidden, k, case.targets, case.weights))(case.kernel)
    is_illegal = ~case.make_mask()[case.weights > 0].any(0)
    assert is_illegal[BANNED] and is_illegal[SIZE:].all() and not is_illegal.all()
    np.testing.assert_array_equal(np.asarray(d_kernel)[is_illegal], 0)
    assert (np.abs(d_kernel[~is_illegal]).max(-1) > 0).all()


def test_illegal_targets_without_weight_have_no_effect(rng):
    case = CrossEntropyCase(rng, masked=True)
    targets = np.where(case.weights == 0, BANNED, case.targets)  # BANNED; below, these positions have no legal class
    classes = case.allowed.classes & (case.weights > 0)[..., None]
    options = case.options | {"allowed": Allowed(classes, case.class_of), "chunk_rows": 4}

    def total(hidden, kernel, targets, options):
        return cross_entropy.total_log_prob(hidden, kernel, targets, case.weights, **options)

    legal_results = jax.value_and_grad(total, (0, 1))(case.hidden, case.kernel, case.targets, case.options)
    illegal_results = jax.value_and_grad(total, (0, 1))(case.hidden, case.kernel, targets, options)
    for expected, result in zip(jax.tree.leaves(legal_results), jax.tree.leaves(illegal_results), strict=True):
        np.testing.assert_allclose(result, expected, atol=2e-5)
    np.testing.assert_array_equal(np.asarray(illegal_results[1][0])[case.weights == 0], 0)


def test_bfloat16_hidden_states_keep_float32_sums_and_kernel_gradients(rng):
    case = CrossEntropyCase(rng, masked=False)
    low = jnp.asarray(case.hidden, jnp.bfloat16)
    low_in_float32 = np.asarray(low.astype(jnp.float32))
    kernel = np.asarray(jnp.asarray(case.kernel, jnp.bfloat16).astype(jnp.float32))

    def total(hidden, kernel):
        return cross_entropy.total_log_prob(hidden, kernel, case.targets, case.weights, **case.options)

    loss, (d_hidden, d_kernel) = jax.value_and_grad(total, (0, 1))(low, jnp.asarray(case.kernel))
    exact, (want_hidden, want_kernel) = jax.value_and_grad(total, (0, 1))(low_in_float32, kernel)
    assert loss.dtype == d_kernel.dtype == jnp.float32 and d_hidden.dtype == jnp.bfloat16
    np.testing.assert_allclose(loss, exact, rtol=1e-5)  # inputs are rounded, sums are not
    np.testing.assert_allclose(d_hidden.astype(np.float32), want_hidden, atol=0.05)
    np.testing.assert_allclose(d_kernel, want_kernel, atol=0.05)


@pytest.mark.parametrize(("n_scored", "rounds"), [(0, 0), (1, 1), (4, 1), (5, 2), (B * T, -(-B * T // 4))])
def test_positions_without_weight_are_not_computed(n_scored, rounds, rng, monkeypatch):
    case, calls = CrossEntropyCase(rng, masked=True), []
    weights = np.zeros(B * T, np.float32)
    weights[rng.permutation(B * T)[:n_scored]] = rng.uniform(0.5, 2, n_scored)
    case.weights = weights.reshape(B, T)
    compute_logits = cross_entropy.vocabulary_logits

    def count_calls(*arguments):
        jax.debug.callback(lambda: calls.append(1))
        return compute_logits(*arguments)

    def total(hidden, kernel):
        options = case.options | {"chunk_rows": 4}
        return cross_entropy.total_log_prob(hidden, kernel, case.targets, case.weights, **options)

    expected = jax.value_and_grad(case.compute_plain_loss, (0, 1))(case.hidden, case.kernel)
    monkeypatch.setattr(cross_entropy, "vocabulary_logits", count_calls)
    results = jax.jit(jax.value_and_grad(total, (0, 1)))(case.hidden, case.kernel)
    jax.effects_barrier()
    assert len(calls) == rounds
    for result, plain in zip(jax.tree.leaves(results), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(result, plain, atol=5e-5)


def count_largest_array(compiled) -> int:
    """Returns the number of elements of the largest array in an optimised program."""
    shapes = re.findall(r"\b[a-z]+\d+\[([\d,]+)\]", compiled.as_text())
    return max(int(np.prod([int(n) for n in shape.split(",")])) for shape in shapes)


def test_no_array_of_all_logits_exists(rng):
    rows, length, vocab, width = 4, 32, 512, 8
    hidden = jax.ShapeDtypeStruct((rows, length, width), "float32")
    kernel = jax.ShapeDtypeStruct((vocab, width), "float32")
    targets = jnp.zeros((rows, length), jnp.int32)

    def chunked(hidden, kernel):
        weights = jnp.ones(targets.shape)
        return cross_entropy.total_log_prob(hidden, kernel, targets, weights, size=vocab, chunk_rows=16)

    def plain(hidden, kernel):
        log_p = jax.nn.log_softmax(hidden @ kernel.T)
        return jnp.take_along_axis(log_p, targets[..., None], -1).sum()

    chunked_program, plain_program = (
        jax.jit(jax.grad(f, (0, 1))).lower(hidden, kernel).compile() for f in (chunked, plain)
    )
    assert (
        count_largest_array(plain_program) == rows * length * vocab
    )  # the count includes such an array where it exists
    assert count_largest_array(chunked_program) == 16 * vocab
    memory = [c.memory_analysis().temp_size_in_bytes for c in (chunked_program, plain_program)]
    assert memory[0] < rows * length * vocab * 4 / 2 < memory[1]


# ---------------------------------------------------------------------------------------------------


def compute_attention(q, k, v, mask):
    """Returns attention in float64, computed by row and head."""
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            scores = q[b, :, h].astype(np.float64) @ k[b, :, h].T.astype(np.float64) / np.sqrt(q.shape[-1])
            scores = np.where(mask[b], scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[b, :, h] = weights / weights.sum(-1, keepdims=True) @ v[b, :, h]
    return out


def draw_qkv(rng, length=9):
    return tuple(rng.standard_normal((2, length, 3, 4)).astype(np.float32) for _ in range(3))


@pytest.mark.parametrize("implementation", ["plain", "xla"])
def test_attention_follows_its_mask(rng, implementation):
    q, k, v = draw_qkv(rng)
    segments = np.array([[1, 1, 1, 2, 2, 3, 3, 0, 0], [1] * 9])
    expected = np.array([[[row[t] == row[s] and s <= t for s in range(9)] for t in range(9)] for row in segments])
    mask = attention.segment_mask(jnp.asarray(segments), causal=True)
    np.testing.assert_array_equal(mask[:, 0], expected)
    out = attention.attend(q, k, v, jnp.asarray(segments), causal=True, implementation=implementation)
    np.testing.assert_allclose(out, compute_attention(q, k, v, expected), atol=1e-5)
    unsegmented = attention.attend(q, k, v, None, causal=True, implementation=implementation)
    triangle = np.broadcast_to(np.tri(9, dtype=bool), (2, 9, 9))
    np.testing.assert_allclose(unsegmented, compute_attention(q, k, v, triangle), atol=1e-5)
    same_segment = segments[:, :, None] == segments[:, None, :]
    bidirectional = attention.attend(q, k, v, jnp.asarray(segments), implementation=implementation)
    np.testing.assert_allclose(bidirectional, compute_attention(q, k, v, same_segment), atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_splash_attention_is_plain_attention(rng, causal, packed):
    q, k, v = draw_qkv(rng, 256)
    segments = jnp.asarray(np.sort(rng.integers(1, 4, (2, 256)), axis=1)) if packed else None

    def differentiate(implementation):
        def total(q, k, v):
            return (jnp.sin(attention.attend(q, k, v, segments, causal=causal, implementation=implementation))).sum()

        return jax.value_and_grad(total, (0, 1, 2))(q, k, v)

    mine, theirs = differentiate("splash"), differentiate("plain")
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-4)
    for a, b in zip(mine[1], theirs[1], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_unsupported_attention_is_refused(rng):
    q, k, v = draw_qkv(rng)
    with pytest.raises(UsageError, match="a multiple of 128: use auto or xla"):
        attention.attend(q, k, v, implementation="splash")
    with pytest.raises(UsageError, match="must be one of auto, plain"):
        attention.attend(q, k, v, implementation="flash")


def test_cached_attention_is_attention_in_pieces(rng):
    q, k, v = draw_qkv(rng)
    is_valid = np.array([[False] * 3 + [True] * 6, [True] * 9])  # the first row is padded on the left
    cache = attention.empty_cache(1, 2, 12, 3, 4, jnp.float32)
    outputs = []
    attend = jax.jit(attention.attend_cached, static_argnums=4)
    for start, stop in ((0, 5), (5, 6), (6, 9)):
        is_filled = np.zeros((2, 12), bool)
        is_filled[:, :stop] = is_valid[:, :stop]
        cache = cache._replace(valid=is_filled)
        out, keys, values = attend(*(x[:, start:stop] for x in (q, k, v)), cache, 0)
        cache = attention.Cache((keys,), (values,), cache.valid, cache.length + stop - start)
        outputs.append(out)
    outputs = np.concatenate(outputs, axis=1)
    assert np.isfinite(outputs).all()  # also at padded positions, whose mask is empty
    for b, first in enumerate((3, 0)):
        row = slice(b, b + 1), slice(first, None)
        expected = compute_attention(q[row], k[row], v[row], np.tri(9 - first, dtype=bool)[None])
        np.testing.assert_allclose(outputs[row], expected, atol=1e-5)


def test_bfloat16_attention_takes_its_softmax_in_float32(rng):
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in draw_qkv(rng))
    for implementation in ("plain", "xla"):
        attend = functools.partial(attention.attend, causal=True, implementation=implementation)
        text = str(jax.make_jaxpr(attend)(q, k, v))
        exponentials = re.findall(r"(\w+)\[[\d,]*\] = exp ", text)
        assert exponentials and set(exponentials) == {"f32"}
        exact = compute_attention(*(np.asarray(x, np.float32) for x in (q, k, v)), np.tri(9)[None].repeat(2, 0) > 0)
        np.testing.assert_allclose(attend(q, k, v).astype(np.float32), exact, atol=0.03)


def test_layer_norm_is_its_equation(rng):
    x, scale, bias = rng.standard_normal((4, 7)) * 30 + 5, rng.standard_normal(7), rng.standard_normal(7)
    expected = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * scale + bias
    single = [a.astype(np.float32) for a in (x, scale, bias)]
    np.testing.assert_allclose(norm.layer_norm(*single), expected, atol=1e-5)
    low = norm.layer_norm(jnp.asarray(x, jnp.bfloat16), *single[1:])
    assert low.dtype == jnp.bfloat16
    np.testing.assert_allclose(low.astype(np.float32), expected, atol=0.1)


def test_dropout_keeps_the_mean_and_needs_a_key():
    x = jnp.full((200, 200), 3.0)
    out = np.asarray(dropout.dropout(x, 0.25, jax.random.key(1)))
    assert set(np.unique(out)) == {0.0, 4.0}
    assert abs((out == 0).mean() - 0.25) < 0.02  # nine standard deviations
    assert dropout.dropout(x, 0.25, None) is x and dropout.dropout(x, 0.0, jax.random.key(1)) is x
    assert dropout.dropout(x.astype(jnp.bfloat16), 0.5, jax.random.key(1)).dtype == jnp.bfloat16


# ---------------------------------------------------------------------------------------------------


def test_gather_takes_the_numerals_of_each_row(rng):
    values = [[Decimal(int(n)) for n in row] for row in rng.integers(-999, 1000, (3, 5))]
    values[1][2] = None
    index = rng.integers(-1, 5, (3, 8)).astype(np.int32)
    index[:, 0] = -1
    index[1, 1] = 2
    gathered_numerals = jax.tree.map(np.asarray, jax.jit(numerals.gather)(make_numeral_table(values), index))
    for b in range(3):
        row = to_decimals(jax.tree.map(lambda x, b=b: x[b], gathered_numerals))
        assert row == [None if i < 0 else values[b][i] for i in index[b]]
    rows = rng.standard_normal((3, 5, 2))
    vectors = np.asarray(numerals.gather_rows(jnp.asarray(rows), index))
    for b, t in zip(*np.where(index >= 0), strict=True):
        np.testing.assert_allclose(vectors[b, t], rows[b, index[b, t]], rtol=1e-6)


def test_exponent_classes_invert_to_exponents():
    exponents = np.arange(-40, 41)
    classes = np.asarray(numerals.exponent_id(exponents, -8, 12))
    assert sorted(set(classes.tolist())) == list(range(23))
    np.testing.assert_array_equal(numerals.exponent_of_id(classes, -8, 12), np.clip(exponents, -9, 13))
    assert (classes[exponents < -8] == 0).all() and (classes[exponents > 12] == 1).all()


def round_mantissas(mantissa, exponent, keep, digits=20):
    numeral = jax.jit(numerals.from_mantissa, static_argnums=(2, 3))(
        jnp.asarray(mantissa, jnp.float32), jnp.asarray(exponent, jnp.int32), digits, keep
    )
    return jax.tree.map(np.asarray, numeral)


@pytest.mark.parametrize("keep", [1, 3, 5, 6, 9])
def test_rounded_mantissas_are_the_exact_decimals_of_the_floats_rounded_half_even(rng, keep):
    signs = rng.choice([-1, 1], 3000)
    mantissas = (signs * 10 ** rng.uniform(-1.5, 7.2, 3000)).astype(np.float32)
    exponents = rng.integers(-8, 13, 3000)
    numeral = round_mantissas(mantissas, exponents, keep)
    context = Context(prec=keep, rounding=ROUND_HALF_EVEN)
    expected = [context.plus(Decimal(float(m)).scaleb(int(e))) for m, e in zip(mantissas, exponents, strict=True)]
    assert to_decimals(numeral) == expected
    assert (numeral.digits[:, 0] > 0).all() and numeral.digits.dtype == np.int8
    assert numeral.n_digits.max() == keep and (numeral.digits[:, keep:] == 0).all()


@pytest.mark.parametrize("size", [(-9, -1.5), (7.3, 30)])
def test_mantissas_far_from_one_are_right_to_the_last_digit_of_the_float(rng, size):
    mantissas = (10 ** rng.uniform(*size, 2000)).astype(np.float32)
    for mantissa, value in zip(
        mantissas, to_decimals(round_mantissas(mantissas, np.zeros(2000, int), 9)), strict=True
    ):
        assert abs(value - Decimal(float(mantissa))) <= Decimal(2.0**-21) * Decimal(float(mantissa))


@pytest.mark.parametrize("tie", ["1.5", "2.5", "12.5e0", "0.125", "6.25", "9.5", "0.75e0"])
def test_exact_ties_go_to_the_even_digit(tie):
    keep = len(Decimal(tie).as_tuple().digits) - 1
    (value,) = to_decimals(round_mantissas([float(tie)], [0], keep))
    assert value == Context(prec=keep, rounding=ROUND_HALF_EVEN).plus(Decimal(tie))


@pytest.mark.parametrize(
    ("mantissa", "exponent", "keep", "value"),
    [
        (9.99996, 3, 5, "1e4"),  # carries into the exponent
        (-9.99996, -3, 5, "-1e-2"),
        (9.9999, 3, 5, "9999.9"),
        (0.0, 7, 5, "0"),
        (-0.0, 7, 5, "0"),
        (0.0425, 2, 5, "4.25"),  # borrows from the exponent
        (0.99999999, 0, 5, "1"),
        (12.5, 0, 5, "12.5"),
        (123456.0, 0, 3, "123000"),
        (1e12, 0, 5, "1e12"),
        (-7.25e20, 2, 4, "-7.25e22"),
        (1e-12, 0, 5, "0"),
    ],
)
def test_rounding_carries_and_borrows(mantissa, exponent, keep, value):
    numeral = round_mantissas([mantissa], [exponent], keep)
    (result,) = to_decimals(numeral)
    assert result == Decimal(value)
    digits = Decimal(value).normalize().as_tuple().digits if Decimal(value) else ()
    assert numeral.n_digits[0] == len(digits)
    assert numeral.exponent[0] == (Decimal(value).adjusted() if digits else 0)
    assert numeral.valid[0]


def test_rounding_refuses_more_digits_than_the_numeral_has():
    for keep in (0, 7, 10):
        with pytest.raises(ValueError, match="keep must be between 1 and"):
            numerals.from_mantissa(jnp.ones(2), jnp.zeros(2, jnp.int32), 6 if keep == 7 else 20, keep)


def draw_decimals(rng, count: int, max_digits: int) -> list[Decimal]:
    """Returns numbers of 1 to `max_digits` digits, with both signs, and zeros."""
    out = [Decimal(0), Decimal("-0"), Decimal("0.001"), Decimal(10**20), Decimal("-9" * 1)]
    while len(out) < count:
        digits = int(rng.integers(1, max_digits + 1))
        text = "".join(map(str, rng.choice([0, 0, 1, 5, 9, 9, int(rng.integers(10))], digits)))
        out.append(Decimal(f"{rng.choice(['', '-'])}{text}e{rng.integers(-12, 8)}"))
    return out


@pytest.mark.parametrize("max_digits", [6, 20])
def test_digits_become_canonical_and_are_rounded_half_even(rng, max_digits):
    """Zeros at both ends, too many digits and nines that carry: compares with `to_numeral`, which is exact."""
    values = draw_decimals(rng, 800, 28)
    expected = to_numeral(values, max_digits)
    digits, tops, signs = np.zeros((len(values), 40), np.int32), [], []
    for row, value in enumerate(values):
        negative, value_digits, exponent = value.as_tuple()
        offset = int(rng.integers(0, 40 - len(value_digits) + 1))
        digits[row, offset : offset + len(value_digits)] = value_digits
        tops.append(offset + len(value_digits) - 1 + exponent)
        signs.append(-1 if negative else 1)
    numeral = jax.jit(numerals.from_digits, static_argnums=3)(np.asarray(signs), digits, np.asarray(tops), max_digits)
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(numeral), expected)


def test_digits_by_decimal_position_survive_a_round_trip(rng):
    lowest, count = -6, 14
    values = [
        *draw_decimals(rng, 400, 7),
        Decimal("1e-7"),
        Decimal("1e8"),
        Decimal("99999999.999999"),
        Decimal("1e7"),
    ]
    table = to_numeral(values, 20)
    digits, fits = jax.jit(numerals.to_places, static_argnums=(1, 2))(table, lowest, count)
    decoded_values = to_decimals(numerals.from_places(table.sign, digits, lowest, 20))
    for value, is_exact, decoded in zip(values, fits, decoded_values, strict=True):
        expected = Decimal(int(abs(value).scaleb(-lowest)) % 10**count).scaleb(lowest)
        assert abs(decoded) == expected and bool(is_exact) == (abs(value) == expected), value
        assert not is_exact or decoded.is_signed() == value.is_signed()
    _, fits = numerals.to_places(to_numeral([Decimal("1234"), Decimal("12345")], 4), 0, 8)
    assert fits.tolist() == [True, False], "a table of four digits lacks a digit of the second"


def test_scaled_integers_are_exact(rng):
    integers = np.asarray([0, 1, -1, 10, -1200, 2**31 - 1, -(2**31), *rng.integers(-(2**31), 2**31, 500)], np.int32)
    for scale in (-4, 0, 3):
        values = to_decimals(jax.jit(numerals.from_integer, static_argnums=(1, 2))(integers, scale, 20))
        assert values == [Decimal(int(value)).scaleb(scale) for value in integers]
