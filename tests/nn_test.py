"""Layers against float64 NumPy: the chunked cross-entropy, attention, norms, numerals on the device."""

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
from tests.drawn import numeral_table

B, T, D, V, SIZE, BANNED, CLASSES = 3, 11, 6, 40, 35, 4, 5


class Case:
    """Hidden states, kernel, targets, weights, and which classes are legal where; targets are legal."""

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

    def open(self) -> np.ndarray:
        """bool[B, T, V], written out."""
        ids = np.arange(V)
        mask = np.broadcast_to((ids < SIZE) & (ids != BANNED), (B, T, V))
        return mask if self.allowed is None else mask & self.allowed.classes[..., self.class_of]

    def reference(self) -> np.ndarray:
        """log p(target) in float64."""
        logits = self.hidden.astype(np.float64) @ self.kernel.astype(np.float64).T
        logits = np.where(self.open(), logits, -np.inf)
        top = logits.max(-1, keepdims=True)
        log_p = logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))
        return np.take_along_axis(log_p, self.targets[..., None], -1)[..., 0]

    def plain(self, hidden, kernel):
        """The loss that keeps everything."""
        logits = jnp.where(self.open(), hidden @ kernel.T, -jnp.inf)
        log_p = jnp.take_along_axis(jax.nn.log_softmax(logits), self.targets[..., None], -1)[..., 0]
        return (self.weights * log_p).sum()


# A position at a time, remainders, all at once, the default.
@pytest.mark.parametrize(("masked", "chunk_rows"), [(False, 1), (False, 9), (True, 5), (True, 10**6), (True, None)])
def test_cross_entropy_is_log_softmax_in_any_chunks(rng, masked, chunk_rows):
    case = Case(rng, masked)
    options = case.options | {"chunk_rows": chunk_rows}

    def total(hidden, kernel):
        return 2 * cross_entropy.total_log_prob(hidden, kernel, case.targets, case.weights, **options)

    def each(hidden, kernel):
        log_p = cross_entropy.log_prob(hidden, kernel, case.targets, **options)
        return (case.weights * log_p).sum(), log_p

    @jax.jit
    def everything(hidden, kernel):
        loss = jax.value_and_grad(total, (0, 1))(hidden, kernel)
        single = jax.value_and_grad(each, (0, 1), has_aux=True)(hidden, kernel)
        return loss, total(hidden, kernel), single, jax.grad(case.plain, (0, 1))(hidden, kernel)

    (found, mine), undifferentiated, ((_, log_p), theirs), grads = everything(case.hidden, case.kernel)
    expected = case.reference()
    assert log_p.shape == (B, T)
    np.testing.assert_allclose(log_p, expected, atol=3e-5)
    np.testing.assert_allclose(found, 2 * (case.weights * expected).sum(), rtol=2e-5)
    np.testing.assert_allclose(undifferentiated, found, rtol=1e-6)
    for want, doubled, single in zip(grads, mine, theirs, strict=True):
        np.testing.assert_allclose(doubled, 2 * want, atol=5e-5)
        np.testing.assert_allclose(single, want, atol=5e-5)


def test_padded_banned_and_forbidden_ids_have_no_mass_and_no_gradient(rng):
    case = Case(rng, masked=True)
    mass = jax.jit(lambda h, k: jax.nn.softmax(cross_entropy.vocabulary_logits(h, k, SIZE, case.allowed, BANNED)))(
        case.hidden, case.kernel
    )
    np.testing.assert_array_equal(np.asarray(mass)[~case.open()], 0)
    np.testing.assert_allclose(mass.sum(-1), 1, atol=1e-6)
    total = functools.partial(cross_entropy.total_log_prob, **case.options)
    d_kernel = jax.grad(lambda k: total(case.hidden, k, case.targets, case.weights))(case.kernel)
    never = ~case.open()[case.weights > 0].any(0)
    assert never[BANNED] and never[SIZE:].all() and not never.all()
    np.testing.assert_array_equal(np.asarray(d_kernel)[never], 0)
    assert (np.abs(d_kernel[~never]).max(-1) > 0).all()


def test_forbidden_targets_of_no_weight_leave_no_trace(rng):
    case = Case(rng, masked=True)
    targets = np.where(case.weights == 0, BANNED, case.targets)  # BANNED, and below no legal class at all
    closed = case.allowed.classes & (case.weights > 0)[..., None]
    options = case.options | {"allowed": Allowed(closed, case.class_of), "chunk_rows": 4}

    def total(hidden, kernel, targets, options):
        return cross_entropy.total_log_prob(hidden, kernel, targets, case.weights, **options)

    good = jax.value_and_grad(total, (0, 1))(case.hidden, case.kernel, case.targets, case.options)
    bad = jax.value_and_grad(total, (0, 1))(case.hidden, case.kernel, targets, options)
    for want, found in zip(jax.tree.leaves(good), jax.tree.leaves(bad), strict=True):
        np.testing.assert_allclose(found, want, atol=2e-5)
    np.testing.assert_array_equal(np.asarray(bad[1][0])[case.weights == 0], 0)


def test_bfloat16_hidden_states_keep_float32_sums_and_kernel_gradients(rng):
    case = Case(rng, masked=False)
    low = jnp.asarray(case.hidden, jnp.bfloat16)
    rounded = np.asarray(low.astype(jnp.float32))
    kernel = np.asarray(jnp.asarray(case.kernel, jnp.bfloat16).astype(jnp.float32))

    def total(hidden, kernel):
        return cross_entropy.total_log_prob(hidden, kernel, case.targets, case.weights, **case.options)

    found, (d_hidden, d_kernel) = jax.value_and_grad(total, (0, 1))(low, jnp.asarray(case.kernel))
    exact, (want_hidden, want_kernel) = jax.value_and_grad(total, (0, 1))(rounded, kernel)
    assert found.dtype == d_kernel.dtype == jnp.float32 and d_hidden.dtype == jnp.bfloat16
    np.testing.assert_allclose(found, exact, rtol=1e-5)  # inputs are rounded, the maths is not
    np.testing.assert_allclose(d_hidden.astype(np.float32), want_hidden, atol=0.05)
    np.testing.assert_allclose(d_kernel, want_kernel, atol=0.05)


def biggest(compiled) -> int:
    """Elements of the largest array in an optimised program."""
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

    mine, theirs = (jax.jit(jax.grad(f, (0, 1))).lower(hidden, kernel).compile() for f in (chunked, plain))
    assert biggest(theirs) == rows * length * vocab  # the probe sees such an array where there is one
    assert biggest(mine) == 16 * vocab
    memory = [c.memory_analysis().temp_size_in_bytes for c in (mine, theirs)]
    assert memory[0] < rows * length * vocab * 4 / 2 < memory[1]


# ---------------------------------------------------------------------------------------------------


def attention_reference(q, k, v, mask):
    """Per row and head, in float64."""
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            scores = q[b, :, h].astype(np.float64) @ k[b, :, h].T.astype(np.float64) / np.sqrt(q.shape[-1])
            scores = np.where(mask[b], scores, -np.inf)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            out[b, :, h] = weights / weights.sum(-1, keepdims=True) @ v[b, :, h]
    return out


def qkv(rng, length=9):
    return tuple(rng.standard_normal((2, length, 3, 4)).astype(np.float32) for _ in range(3))


@pytest.mark.parametrize("implementation", ["plain", "xla"])
def test_attention_sees_what_its_mask_says(rng, implementation):
    q, k, v = qkv(rng)
    segments = np.array([[1, 1, 1, 2, 2, 3, 3, 0, 0], [1] * 9])
    expected = np.array([[[row[t] == row[s] and s <= t for s in range(9)] for t in range(9)] for row in segments])
    mask = attention.segment_mask(jnp.asarray(segments), causal=True)
    np.testing.assert_array_equal(mask[:, 0], expected)
    out = attention.attend(q, k, v, jnp.asarray(segments), causal=True, implementation=implementation)
    np.testing.assert_allclose(out, attention_reference(q, k, v, expected), atol=1e-5)
    bare = attention.attend(q, k, v, None, causal=True, implementation=implementation)
    triangle = np.broadcast_to(np.tri(9, dtype=bool), (2, 9, 9))
    np.testing.assert_allclose(bare, attention_reference(q, k, v, triangle), atol=1e-5)
    alone = segments[:, :, None] == segments[:, None, :]
    both = attention.attend(q, k, v, jnp.asarray(segments), implementation=implementation)
    np.testing.assert_allclose(both, attention_reference(q, k, v, alone), atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("packed", [True, False])
def test_splash_attention_is_plain_attention(rng, causal, packed):
    q, k, v = qkv(rng, 256)
    segments = jnp.asarray(np.sort(rng.integers(1, 4, (2, 256)), axis=1)) if packed else None

    def read(implementation):
        def total(q, k, v):
            return (jnp.sin(attention.attend(q, k, v, segments, causal=causal, implementation=implementation))).sum()

        return jax.value_and_grad(total, (0, 1, 2))(q, k, v)

    mine, theirs = read("splash"), read("plain")
    np.testing.assert_allclose(mine[0], theirs[0], rtol=1e-4)
    for a, b in zip(mine[1], theirs[1], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)


def test_attention_that_cannot_be_is_said(rng):
    q, k, v = qkv(rng)
    with pytest.raises(UsageError, match="a multiple of 128: use auto or xla"):
        attention.attend(q, k, v, implementation="splash")
    with pytest.raises(UsageError, match="must be one of auto, plain"):
        attention.attend(q, k, v, implementation="flash")


def test_cached_attention_is_attention_in_pieces(rng):
    q, k, v = qkv(rng)
    valid = np.array([[False] * 3 + [True] * 6, [True] * 9])  # the first row is padded on the left
    cache = attention.empty_cache(1, 2, 12, 3, 4, jnp.float32)
    found = []
    attend = jax.jit(attention.attend_cached, static_argnums=4)
    for start, stop in ((0, 5), (5, 6), (6, 9)):
        filled = np.zeros((2, 12), bool)
        filled[:, :stop] = valid[:, :stop]
        cache = cache._replace(valid=filled)
        out, keys, values = attend(*(x[:, start:stop] for x in (q, k, v)), cache, 0)
        cache = attention.Cache((keys,), (values,), cache.valid, cache.length + stop - start)
        found.append(out)
    found = np.concatenate(found, axis=1)
    assert np.isfinite(found).all()  # also where a padded position sees nothing
    for b, first in enumerate((3, 0)):
        row = slice(b, b + 1), slice(first, None)
        expected = attention_reference(q[row], k[row], v[row], np.tri(9 - first, dtype=bool)[None])
        np.testing.assert_allclose(found[row], expected, atol=1e-5)


def test_bfloat16_attention_takes_its_softmax_in_float32(rng):
    q, k, v = (jnp.asarray(x, jnp.bfloat16) for x in qkv(rng))
    for implementation in ("plain", "xla"):
        attend = functools.partial(attention.attend, causal=True, implementation=implementation)
        text = str(jax.make_jaxpr(attend)(q, k, v))
        exponentials = re.findall(r"(\w+)\[[\d,]*\] = exp ", text)
        assert exponentials and set(exponentials) == {"f32"}
        exact = attention_reference(*(np.asarray(x, np.float32) for x in (q, k, v)), np.tri(9)[None].repeat(2, 0) > 0)
        np.testing.assert_allclose(attend(q, k, v).astype(np.float32), exact, atol=0.03)


def test_layer_norm(rng):
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


def test_gather_takes_each_rows_own_numerals(rng):
    values = [[Decimal(int(n)) for n in row] for row in rng.integers(-999, 1000, (3, 5))]
    values[1][2] = None
    index = rng.integers(-1, 5, (3, 8)).astype(np.int32)
    index[:, 0] = -1
    index[1, 1] = 2
    found = jax.tree.map(np.asarray, jax.jit(numerals.gather)(numeral_table(values), index))
    for b in range(3):
        row = to_decimals(jax.tree.map(lambda x, b=b: x[b], found))
        assert row == [None if i < 0 else values[b][i] for i in index[b]]
    rows = rng.standard_normal((3, 5, 2))
    picked = np.asarray(numerals.gather_rows(jnp.asarray(rows), index))
    for b, t in zip(*np.where(index >= 0), strict=True):
        np.testing.assert_allclose(picked[b, t], rows[b, index[b, t]], rtol=1e-6)


def test_exponent_classes_come_back():
    exponents = np.arange(-40, 41)
    classes = np.asarray(numerals.exponent_id(exponents, -8, 12))
    assert sorted(set(classes.tolist())) == list(range(23))
    np.testing.assert_array_equal(numerals.exponent_of_id(classes, -8, 12), np.clip(exponents, -9, 13))
    assert (classes[exponents < -8] == 0).all() and (classes[exponents > 12] == 1).all()


def rounded(mantissa, exponent, keep, digits=20):
    made = jax.jit(numerals.from_mantissa, static_argnums=(2, 3))(
        jnp.asarray(mantissa, jnp.float32), jnp.asarray(exponent, jnp.int32), digits, keep
    )
    return jax.tree.map(np.asarray, made)


@pytest.mark.parametrize("keep", [1, 3, 5, 6, 9])
def test_rounded_mantissas_are_the_exact_decimals_of_the_floats_rounded_half_even(rng, keep):
    signs = rng.choice([-1, 1], 3000)
    mantissas = (signs * 10 ** rng.uniform(-1.5, 7.2, 3000)).astype(np.float32)
    exponents = rng.integers(-8, 13, 3000)
    made = rounded(mantissas, exponents, keep)
    context = Context(prec=keep, rounding=ROUND_HALF_EVEN)
    want = [context.plus(Decimal(float(m)).scaleb(int(e))) for m, e in zip(mantissas, exponents, strict=True)]
    assert to_decimals(made) == want
    assert (made.digits[:, 0] > 0).all() and made.digits.dtype == np.int8
    assert made.n_digits.max() == keep and (made.digits[:, keep:] == 0).all()


@pytest.mark.parametrize("size", [(-9, -1.5), (7.3, 30)])
def test_mantissas_far_from_one_are_right_to_the_float_s_last_place(rng, size):
    mantissas = (10 ** rng.uniform(*size, 2000)).astype(np.float32)
    for mantissa, found in zip(mantissas, to_decimals(rounded(mantissas, np.zeros(2000, int), 9)), strict=True):
        assert abs(found - Decimal(float(mantissa))) <= Decimal(2.0**-21) * Decimal(float(mantissa))


@pytest.mark.parametrize("tie", ["1.5", "2.5", "12.5e0", "0.125", "6.25", "9.5", "0.75e0"])
def test_exact_ties_go_to_the_even_digit(tie):
    keep = len(Decimal(tie).as_tuple().digits) - 1
    (found,) = to_decimals(rounded([float(tie)], [0], keep))
    assert found == Context(prec=keep, rounding=ROUND_HALF_EVEN).plus(Decimal(tie))


@pytest.mark.parametrize(
    ("mantissa", "exponent", "keep", "value"),
    [
        (9.99996, 3, 5, "1e4"),  # carries into the exponent
        (-9.99996, -3, 5, "-1e-2"),
        (9.9999, 3, 5, "9999.9"),
        (0.0, 7, 5, "0"),
        (-0.0, 7, 5, "0"),
        (0.0425, 2, 5, "4.25"),  # borrows from it
        (0.99999999, 0, 5, "1"),
        (12.5, 0, 5, "12.5"),
        (123456.0, 0, 3, "123000"),
        (1e12, 0, 5, "1e12"),
        (-7.25e20, 2, 4, "-7.25e22"),
        (1e-12, 0, 5, "0"),
    ],
)
def test_rounding_at_the_edges(mantissa, exponent, keep, value):
    made = rounded([mantissa], [exponent], keep)
    (found,) = to_decimals(made)
    assert found == Decimal(value)
    digits = Decimal(value).normalize().as_tuple().digits if Decimal(value) else ()
    assert made.n_digits[0] == len(digits)
    assert made.exponent[0] == (Decimal(value).adjusted() if digits else 0)
    assert made.valid[0]


def test_rounding_refuses_more_digits_than_there_are():
    for keep in (0, 7, 10):
        with pytest.raises(ValueError, match="keep must be between 1 and"):
            numerals.from_mantissa(jnp.ones(2), jnp.zeros(2, jnp.int32), 6 if keep == 7 else 20, keep)


def decimals(rng, count: int, most: int) -> list[Decimal]:
    """Of 1 to `most` digits, signs and zeros among them."""
    out = [Decimal(0), Decimal("-0"), Decimal("0.001"), Decimal(10**20), Decimal("-9" * 1)]
    while len(out) < count:
        digits = int(rng.integers(1, most + 1))
        text = "".join(map(str, rng.choice([0, 0, 1, 5, 9, 9, int(rng.integers(10))], digits)))
        out.append(Decimal(f"{rng.choice(['', '-'])}{text}e{rng.integers(-12, 8)}"))
    return out


@pytest.mark.parametrize("most", [6, 20])
def test_digits_that_are_not_canonical_become_so_and_are_rounded_half_even(rng, most):
    """Zeros at both ends, more digits than are kept, nines that carry: against `to_numeral`, exact on the host."""
    values = decimals(rng, 800, 28)
    want = to_numeral(values, most)
    digits, tops, signs = np.zeros((len(values), 40), np.int32), [], []
    for row, value in enumerate(values):
        negative, body, places = value.as_tuple()
        before = int(rng.integers(0, 40 - len(body) + 1))
        digits[row, before : before + len(body)] = body
        tops.append(before + len(body) - 1 + places)
        signs.append(-1 if negative else 1)
    found = jax.jit(numerals.from_digits, static_argnums=3)(np.asarray(signs), digits, np.asarray(tops), most)
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(found), want)


def test_digits_by_place_go_there_and_back(rng):
    lowest, count = -6, 14
    values = [*decimals(rng, 400, 7), Decimal("1e-7"), Decimal("1e8"), Decimal("99999999.999999"), Decimal("1e7")]
    table = to_numeral(values, 20)
    digits, fits = jax.jit(numerals.to_places, static_argnums=(1, 2))(table, lowest, count)
    back = to_decimals(numerals.from_places(table.sign, digits, lowest, 20))
    for value, all_there, found in zip(values, fits, back, strict=True):
        kept = Decimal(int(abs(value).scaleb(-lowest)) % 10**count).scaleb(lowest)
        assert abs(found) == kept and bool(all_there) == (abs(value) == kept), value
        assert not all_there or found.is_signed() == value.is_signed()
    _, fits = numerals.to_places(to_numeral([Decimal("1234"), Decimal("12345")], 4), 0, 8)
    assert fits.tolist() == [True, False], "of the second not all digits are known"


def test_scaled_integers_are_exact(rng):
    whole = np.asarray([0, 1, -1, 10, -1200, 2**31 - 1, -(2**31), *rng.integers(-(2**31), 2**31, 500)], np.int32)
    for scale in (-4, 0, 3):
        found = to_decimals(jax.jit(numerals.from_integer, static_argnums=(1, 2))(whole, scale, 20))
        assert found == [Decimal(int(value)).scaleb(scale) for value in whole]
