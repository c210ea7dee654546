"""Binary64 in 32-bit integers against the machine's own, and BitTokens, which is made of it."""

from __future__ import annotations

import sys
from decimal import ROUND_HALF_EVEN, Context, Decimal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from numjax.build import build
from numjax.bundled.configs import numgpt
from numjax.errors import UsageError
from numjax.nn import binary64
from numjax.numeral.exact import to_decimals, to_numeral
from numjax.types import HeadOut
from tests import drawn
from tests.swapped import train_with_changes

EDGES = [
    *("0", "-0", "0.1", "0.5", "-2.5", "1", "1e308", "1.7976931348623157e308", "1.7976931348623159e308", "1e309"),
    *("1e400", "5e-324", "2e-324", "3e-324", "1e-310", "2.2250738585072014e-308", "2.2250738585072011e-308"),
    # Halfway between two of them.
    *("1e-400", "9007199254740993", "9007199254740995", "4503599627370496.5", "4503599627370497.5", "0.3", "123.4"),
]


def draw_decimals(rng, count: int) -> list[Decimal]:
    """Returns decimals of up to 20 digits over the whole range, and ties between two binary64."""
    values = []
    for _ in range(count):
        digits = "".join(map(str, rng.integers(0, 10, rng.integers(1, 21))))
        exponent = rng.integers(-340, 300) if rng.random() < 0.5 else rng.integers(-20, 8)
        values.append(Decimal(f"{'-' if rng.random() < 0.5 else ''}{digits}e{exponent}"))
    for _ in range(count // 4):
        tie = 2 * int(rng.integers(2**52, 2**53)) + 1
        values.append(Decimal(tie) / 2 ** int(rng.integers(1, 4)))
    return values


def to_patterns(bits) -> np.ndarray:
    """Bits [n, 64] as uint64[n]."""
    weights = np.uint64(1) << np.arange(63, -1, -1, dtype=np.uint64)
    return (np.asarray(bits).astype(np.uint64) * weights).sum(-1, dtype=np.uint64)


def to_bits(floats: np.ndarray) -> np.ndarray:
    patterns = np.asarray(floats, np.float64).view(np.uint64)
    return ((patterns[:, None] >> np.arange(63, -1, -1, dtype=np.uint64)) & np.uint64(1)).astype(np.int32)


def draw_floats(rng, count: int) -> np.ndarray:
    floats = rng.integers(0, 2**63, count, dtype=np.int64).view(np.float64)
    floats = np.concatenate([floats, [float(Decimal(text)) for text in EDGES], 2.0 ** np.arange(-1074, 1024)])
    return floats[np.isfinite(floats)]


def test_the_bits_are_those_of_the_nearest_binary64(rng):
    values = [*map(Decimal, EDGES), *draw_decimals(rng, 1500)]
    numerals = to_numeral(values, 20)
    kept = np.flatnonzero(numerals.n_digits <= 20)
    patterns = to_patterns(jax.jit(binary64.encode)(numerals))
    expected = np.asarray([float(value) for value in values]).view(np.uint64)
    assert len(kept) > 1500
    np.testing.assert_array_equal(patterns[kept], expected[kept])


@pytest.mark.parametrize("keep", [3, 15, 17])
def test_a_binary64_is_rounded_to_decimal_digits_exactly(keep, rng):
    floats = draw_floats(rng, 2000)
    numerals = jax.jit(lambda bits: binary64.decode(bits, 20, keep))(to_bits(floats))
    context = Context(prec=keep, rounding=ROUND_HALF_EVEN)
    assert to_decimals(jax.tree.map(np.asarray, numerals)) == [context.plus(Decimal(float(x))) for x in floats]
    assert (np.asarray(numerals.n_digits) <= keep).all()


def test_decimals_of_fifteen_digits_come_back(rng):
    wholes = (Decimal(int(rng.integers(-(10**15) + 1, 10**15))) for _ in range(2000))
    values = [whole.scaleb(int(rng.integers(-300, 290))) for whole in wholes]
    numerals = to_numeral(values, 20)
    again = binary64.decode(binary64.encode(numerals), 20, 15)
    assert to_decimals(jax.tree.map(np.asarray, again)) == values


def test_reciprocals_are_the_machines(rng):
    floats = draw_floats(rng, 2000)
    with np.errstate(all="ignore"):
        expected = (1 / floats).view(np.uint64)
    np.testing.assert_array_equal(to_patterns(jax.jit(binary64.invert)(to_bits(floats))), expected)
    infinite = to_bits(np.asarray([np.inf, -np.inf]))
    np.testing.assert_array_equal(to_patterns(binary64.invert(infinite)), np.asarray([0.0, -0.0]).view(np.uint64))


def test_infinity_becomes_the_largest_number():
    bits = to_bits(np.asarray([np.inf, -np.inf, np.nan]))
    largest, least, nan = to_decimals(jax.tree.map(np.asarray, binary64.decode(bits, 20, 17)))
    assert largest == -least == abs(nan) == Decimal("1.7976931348623157e308")


@pytest.mark.parametrize(
    ("text", "sign", "exponent", "fraction"),
    [
        ("1.0", "0", "01111111111", "0" * 52),
        ("-2.5", "1", "10000000000", "01" + "0" * 50),
        ("0.1", "0", "01111111011", "10011001" * 6 + "1010"),
        ("0", "0", "0" * 11, "0" * 52),
    ],
)
def test_published_patterns(text, sign, exponent, fraction):
    bits = np.asarray(binary64.encode(to_numeral([Decimal(text)], 20)))[0]
    assert "".join(map(str, bits)) == sign + exponent + fraction


def test_the_reciprocal_of_zero_is_published_as_infinity():
    zero = binary64.encode(to_numeral([Decimal(0)], 20))
    assert "".join(map(str, np.asarray(binary64.invert(zero))[0])) == "0" + "1" * 11 + "0" * 52
    vectors = np.asarray(build("embed", dict(name="bits")).apply({}, to_numeral([Decimal(0)], 20)))
    np.testing.assert_array_equal(vectors[0], [-1] * 64 + [-1] + [1] * 11 + [-1] * 52)


@pytest.mark.parametrize(("reciprocal", "bits"), [(True, 128), (False, 64)])
def test_bits_are_as_long_as_published(reciprocal, bits):
    """±√(d / E) for each of E bits, so that the vector has the length √d; behind them zeros."""
    part = build("embed", dict(name="bits", dim=512, reciprocal=reciprocal))
    (vector,) = np.asarray(part.apply({}, to_numeral([Decimal("-2.5")], 20)))
    np.testing.assert_allclose(np.abs(vector[:bits]), (512 / bits) ** 0.5, rtol=1e-6)
    assert not vector[bits:].any()


def test_the_range_is_that_of_which_every_decimal_comes_back():
    number_range = build("embed", dict(name="bits")).number_range
    assert number_range.digits == sys.float_info.dig
    assert (number_range.low, number_range.high) == (sys.float_info.min_10_exp, sys.float_info.max_10_exp - 1)


def test_the_embedding_has_both_signs_of_all_bits():
    part = build("embed", dict(name="bits", dim=160))
    values = [Decimal(text) for text in ("0", "-0", "0.1", "-3")]
    vectors = np.asarray(part.apply({}, to_numeral(values, 20)))
    numbers = np.asarray([float(value) for value in values])
    with np.errstate(divide="ignore"):
        expected = 2.0 * np.concatenate([to_bits(numbers), to_bits(1 / numbers)], axis=1) - 1
    np.testing.assert_allclose(vectors[:, :128], expected * np.sqrt(160 / 128), rtol=1e-6)
    assert not vectors[:, 128:].any() and len({tuple(v) for v in vectors.tolist()}) == 4
    with pytest.raises(UsageError, match="128 bits do not fit dim=64: leave it 0, or set reciprocal=False"):
        build("embed", dict(name="bits", dim=64)).apply({}, to_numeral(values, 20))


def make_perfect_output(values, sharpness=20.0):
    """Returns a head, and an output in which it is certain of these numbers."""
    head = build("heads", {"name": "bits"}, **(drawn.CONTEXT | {"width": 64, "digits": 20}))
    h = np.where(to_bits(np.asarray([float(v) for v in values])) > 0, sharpness, -sharpness).astype(np.float32)
    weights = {"number_kernel": jnp.eye(64), "number_bias": jnp.zeros(64)}
    return head, HeadOut(h, weights)


def test_the_head_returns_the_numbers_whose_bits_it_is_certain_of():
    values = [Decimal(t) for t in ("0", "-0", "7", "-7", "0.001", "123456.789012345", "1e20", "-1.5e-200")]
    head, out = make_perfect_output(values)
    numeral, estimate = head.number(out, None)
    assert to_decimals(jax.tree.map(np.asarray, numeral)) == values and estimate is None
    sampled, _ = head.number(out, jax.random.key(0))
    assert to_decimals(jax.tree.map(np.asarray, sampled)) == values
    assert all(head.represents(value) for value in values)
    assert not head.represents(Decimal("1.234567890123456789")) and not head.represents(Decimal("1e309"))


def test_the_heads_mass_is_the_product_over_bits(rng):
    head, _ = make_perfect_output([Decimal(0)])
    logits = rng.standard_normal((5, 64)).astype(np.float32)
    values = [Decimal(t) for t in ("0", "-12.5", "3", "1e-5", "987654321")]
    out = HeadOut(logits, {"number_kernel": jnp.eye(64), "number_bias": jnp.zeros(64)})
    bits = to_bits(np.asarray([float(v) for v in values]))
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    expected = np.log(np.where(bits > 0, p, 1 - p)).sum(1)
    np.testing.assert_allclose(head.number_log_prob(out, to_numeral(values, 20))["bits"], expected, rtol=1e-5)


@pytest.mark.whole
def test_set_makes_numgpt_a_bittokens_model(tmp_path):
    words = ("embeds.numeral=bits:dim=128,fusion=add", "heads.next=bits")
    model, metrics = train_with_changes(tmp_path / "run", numgpt.get_config("smoke,task=generation"), *words)
    assert metrics["next/bits"] > 0
    answer = model.generate("Q: 3 and 4 are how many? A:", max_tokens=4)
    assert answer.ended and len(answer.numbers) == 1
