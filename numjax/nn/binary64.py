"""Numerals as IEEE 754 binary64 bits and back, correctly rounded, in 32-bit integers: devices without float64 have
them too.

A numeral is X · 10^q with a whole X. Its bits are those of X times 10^q as 128 bits and a power of two.

Legend: K digits of a `Numeral`, L limbs of 16 bits, the lowest first, N bits, the highest first.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from numjax.nn.numerals import carry_over, from_digits, recount_digits
from numjax.types import Numeral

BITS = 64
LEAST, MOST = -400, 360  # powers of ten in the table: outside, every numeral of 60 digits is 0 or infinite
EXACT = 55  # 10^55 is the largest power of ten within 128 bits
POWER_BITS = 128
_LIMB = 16
_DIGITS = 18  # of a binary64 before it is rounded; 10^18 has 60 bits
EXPONENT_BIAS, MANTISSA_BITS = 1023, 52
# Bits behind the mantissa that must all be ones for a product with a rounded power to stand for an exact tie.
_TIE_BITS = 56


@functools.cache
def _powers_of_ten() -> tuple[np.ndarray, np.ndarray]:
    """(limbs uint32[Q, 8] of the 128 highest bits of 10^q, exponents int32[Q]): 10^q = limbs · 2^exponent, cut
    off."""
    limbs, exponents = [], []
    for q in range(LEAST, MOST + 1):
        if q >= 0:
            power, shift = 10**q, (10**q).bit_length() - POWER_BITS
            mantissa = power >> shift if shift > 0 else power << -shift
        else:
            size = 10**-q
            shift = -(size.bit_length() + POWER_BITS - 1)
            mantissa = (1 << -shift) // size
            if mantissa.bit_length() > POWER_BITS:
                mantissa, shift = mantissa >> 1, shift + 1
        limbs.append([(mantissa >> (_LIMB * i)) & 0xFFFF for i in range(POWER_BITS // _LIMB)])
        exponents.append(shift)
    return np.asarray(limbs, np.uint32), np.asarray(exponents, np.int32)


def _multiply(a: jax.Array, b: jax.Array) -> jax.Array:
    """The product of whole numbers, uint32[..., La + Lb] limbs."""
    products = a[..., :, None] * b[..., None, :]
    n_rows, n_limbs = a.shape[-1], a.shape[-1] + b.shape[-1]

    def add_columns(rows: jax.Array) -> jax.Array:
        # With zeros up to n_limbs + 1 behind it, each row begins one column further when the rows are joined and cut.
        padded = jnp.pad(rows, [(0, 0)] * (rows.ndim - 1) + [(0, n_limbs + 1 - b.shape[-1])])
        joined = padded.reshape(*padded.shape[:-2], -1)[..., : n_rows * n_limbs]
        return joined.reshape(*padded.shape[:-2], n_rows, n_limbs).sum(-2)

    low, high = add_columns(products & 0xFFFF), add_columns(products >> _LIMB)
    return carry_over(low + jnp.pad(high[..., :-1], [(0, 0)] * (high.ndim - 1) + [(1, 0)]), 1 << _LIMB)


def _to_bits(limbs: jax.Array) -> jax.Array:
    """Limbs as bits, int32[..., 16 L], the highest first."""
    bits = (limbs[..., ::-1, None] >> jnp.arange(_LIMB - 1, -1, -1, dtype=jnp.uint32)) & 1
    return bits.reshape(*limbs.shape[:-1], -1).astype(jnp.int32)


def _to_limbs(bits: jax.Array) -> jax.Array:
    """Bits as limbs, uint32[..., N / 16]."""
    groups = bits.reshape(*bits.shape[:-1], -1, _LIMB)[..., ::-1, :]
    return _to_integer(groups).astype(jnp.uint32)


def _take_bits(bits: jax.Array, start: jax.Array, count: int) -> jax.Array:
    """int32[..., count] from `start` on; 0 outside."""
    index = start[..., None] + jnp.arange(count)
    inside = (index >= 0) & (index < bits.shape[-1])
    return jnp.where(inside, jnp.take_along_axis(bits, jnp.clip(index, 0, bits.shape[-1] - 1), axis=-1), 0)


def _spell_whole(digits: jax.Array) -> jax.Array:
    """Limbs of the whole number with these decimal digits."""
    n_digits = digits.shape[-1]
    n_limbs = -(-int(n_digits * np.log2(10) + 1) // _LIMB)
    powers = _list_digits([10**k for k in range(n_digits - 1, -1, -1)], 1 << _LIMB, n_limbs)
    return carry_over((digits[..., None].astype(jnp.uint32) * powers).sum(-2), 1 << _LIMB)


def _list_digits(values: Sequence[int], base: int, count: int) -> np.ndarray:
    """The digits of whole numbers in a base, uint32[values, count], the lowest first."""
    return np.asarray([[value // base**i % base for i in range(count)] for value in values], np.uint32)


def encode(numerals: Numeral) -> jax.Array:
    """The bits of the nearest binary64, int32[..., 64]: sign, 11 of the exponent, 52 of the fraction.

    A tie goes to the even one. Numbers too large are infinite; zero keeps its sign.
    """
    digits = numerals.digits.astype(jnp.int32)
    powers, shifts = _powers_of_ten()
    q = numerals.exponent.astype(jnp.int32) - (digits.shape[-1] - 1)
    # The digits behind the last that is not zero are moved into q, so that 0.5 is 5 · 10^−1.
    used = jnp.max(jnp.where(digits > 0, jnp.arange(1, digits.shape[-1] + 1), 0), axis=-1)
    places = jnp.arange(digits.shape[-1]) - (digits.shape[-1] - used)[..., None]
    whole = jnp.where(places >= 0, jnp.take_along_axis(digits, jnp.maximum(places, 0), axis=-1), 0)
    q = q + digits.shape[-1] - used
    index = jnp.clip(q, LEAST, MOST) - LEAST
    product = _multiply(_spell_whole(whole), jnp.asarray(powers)[index])
    bits = _to_bits(product)
    first = jnp.argmax(bits, axis=-1).astype(jnp.int32)
    exponent = jnp.asarray(shifts)[index] + bits.shape[-1] - 1 - first  # of the first bit
    is_exact = (q >= 0) & (q <= EXACT)
    fields = _round(bits, first, exponent, is_exact)
    is_zero = (used == 0) | (q < LEAST)
    is_large = ~is_zero & (q > MOST)
    infinity = jnp.asarray([1] * 11 + [0] * MANTISSA_BITS, jnp.int32)
    fields = jnp.where(is_large[..., None], infinity, jnp.where(is_zero[..., None], 0, fields))
    return jnp.concatenate([(numerals.sign < 0).astype(jnp.int32)[..., None], fields], axis=-1)


def _round(bits: jax.Array, first: jax.Array, exponent: jax.Array, is_exact: jax.Array) -> jax.Array:
    """Exponent and fraction, int32[..., 63], of a number with these bits; `exponent` is that of the bit `first`."""
    least = 1 - EXPONENT_BIAS
    start = first - jnp.maximum(least - exponent, 0)  # numbers below the normal ones begin with zeros
    mantissa = _take_bits(bits, start, MANTISSA_BITS + 1)
    rest = start + MANTISSA_BITS + 1
    behind = _take_bits(bits, rest, _TIE_BITS)
    guard = behind[..., 0]
    sticky = ((jnp.arange(bits.shape[-1]) > rest[..., None]) & (bits > 0)).any(-1) | ~is_exact
    # A power that is cut off makes an exact tie look like the bits 0111…: it is one.
    is_tie = ~is_exact & (guard == 0) & (behind[..., 1:] > 0).all(-1)
    up = jnp.where(is_tie, mantissa[..., -1] > 0, (guard > 0) & (sticky | (mantissa[..., -1] > 0)))
    biased = jnp.where(exponent < least, 0, exponent + EXPONENT_BIAS)
    # Rounding up may carry into the exponent, which is right also from the largest number to infinity.
    fields = jnp.concatenate([_bits_of(biased, 11), mantissa[..., 1:]], axis=-1)
    fields = _increment(fields, up)
    return jnp.where((biased >= 2047)[..., None], jnp.asarray([1] * 11 + [0] * MANTISSA_BITS, jnp.int32), fields)


def _bits_of(value: jax.Array, count: int) -> jax.Array:
    return (value[..., None] >> jnp.arange(count - 1, -1, -1)) & 1


def _increment(bits: jax.Array, by_one: jax.Array) -> jax.Array:
    """The whole number of these bits plus one, where asked."""
    ones_behind = jnp.flip(jnp.cumprod(jnp.flip(bits, -1), axis=-1), -1)
    carries = jnp.concatenate([ones_behind[..., 1:], jnp.ones_like(bits[..., :1])], axis=-1)
    return jnp.where(by_one[..., None] & (carries > 0), 1 - bits, bits)


def decode(bits: jax.Array, digits: int, keep: int = 15) -> Numeral:
    """The number of a binary64, rounded to `keep` ≤ 17 significant digits: a decimal of 15 digits comes back exactly.

    Infinity and what is no number become the largest number of its sign.

    Args:
      bits: int[..., 64]. digits: K.
    """
    bits = bits.astype(jnp.int32)
    sign, biased = jnp.where(bits[..., 0] > 0, -1, 1), _to_integer(bits[..., 1:12])
    is_large = biased == 2047
    biased = jnp.where(is_large, 2046, biased)
    fraction = jnp.where(is_large[..., None], 1, bits[..., 12:])
    mantissa_bits = jnp.concatenate([(biased > 0).astype(jnp.int32)[..., None], fraction], axis=-1)
    exponent = jnp.maximum(biased, 1) - EXPONENT_BIAS - MANTISSA_BITS  # of the last bit
    padded = jnp.pad(mantissa_bits, [(0, 0)] * (bits.ndim - 1) + [(64 - MANTISSA_BITS - 1, 0)])
    mantissa = _to_limbs(padded)
    first = jnp.argmax(mantissa_bits, axis=-1)
    is_zero = ~(mantissa_bits > 0).any(-1)
    # The decimal exponent from the binary one: the product with this log is at most one too low.
    top_bit = exponent + MANTISSA_BITS - first
    decimal = jnp.floor(top_bit * np.float32(np.log10(2.0)) - 1e-4).astype(jnp.int32)
    columns = _spell_scaled(mantissa, exponent, _DIGITS - 1 - decimal)
    rounded = from_digits(sign, columns, decimal + 1, min(keep, digits))
    kept = jnp.zeros((*sign.shape, digits), jnp.int8).at[..., : min(keep, digits)].set(rounded.digits)
    numeral = recount_digits(rounded._replace(digits=jnp.where(is_zero[..., None], 0, kept).astype(jnp.int8)))
    return numeral._replace(exponent=jnp.where(is_zero, 0, numeral.exponent))


def find_cell(numerals: Numeral, digits: int, keep: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(the bits of the nearest binary64, int32[..., 64]; the least and the largest bits behind the sign that `decode`
    writes as this one, int32[..., 63]); arguments as in `decode`."""
    bits = encode(numerals)
    center, keep = decode(bits, digits, keep), min(keep, digits)
    kept = center.digits[..., :keep].astype(jnp.int32)
    # The number less one unit of its last digit, which of a power of ten is a tenth as large.
    at, last = jnp.arange(keep), jnp.maximum(_count_digits(kept), 1) - 1
    less = jnp.where(at < last[..., None], kept, jnp.where(at == last[..., None], kept - 1, 9))
    is_power = (kept[..., 0] == 1) & (last == 0)
    five, zero = jnp.full_like(kept[..., :1], 5), jnp.zeros_like(kept[..., :1])
    nines = jnp.concatenate([zero, jnp.full_like(kept, 9), five], axis=-1)
    below = jnp.where(is_power[..., None], nines, jnp.concatenate([less, five, zero], axis=-1))
    above = jnp.concatenate([kept, five, zero], axis=-1)
    ends = jnp.maximum(jnp.stack([below, above]), 0).astype(jnp.int8)
    ends = encode(jax.tree.map(lambda x: jnp.stack([x, x]), center)._replace(digits=ends))
    # Half way between two numbers the nearest binary64 may belong to the neighbour.
    is_outside = ~_is_same(decode(ends, digits, keep), center)
    low = _increment(ends[0], is_outside[0])[..., 1:]
    high = 1 - _increment(1 - ends[1], is_outside[1])[..., 1:]
    # All that is no number is written as the largest one, and only 0 as 0.
    high = jnp.where((high[..., :11] > 0).all(-1, keepdims=True), 1, high)
    is_zero = (center.n_digits == 0)[..., None]
    return bits, jnp.where(is_zero, 0, low), jnp.where(is_zero, 0, high)


def _count_digits(digits: jax.Array) -> jax.Array:
    return jnp.max(jnp.where(digits > 0, jnp.arange(1, digits.shape[-1] + 1), 0), axis=-1)


def _is_same(a: Numeral, b: Numeral) -> jax.Array:
    return (a.digits == b.digits).all(-1) & (a.exponent == b.exponent)


def log_mass(log_probs: jax.Array, low: jax.Array, high: jax.Array) -> jax.Array:
    """The log-probability that independent bits are a whole number from `low` to `high`, float32[...].

    Args:
      log_probs: float32[..., N, 2], of a bit that is 0 or 1. low, high: int[..., N].
    """

    def add_bit(state, bit):
        above, below, between = state  # of the lower bits: at least `low`, at most `high`, both
        (zero, one), at_low, at_high = (bit[0][..., 0], bit[0][..., 1]), bit[1] > 0, bit[2] > 0
        inner = jnp.where(at_low, one, zero) + between
        inner = jnp.where(at_low == at_high, inner, jnp.logaddexp(zero + above, one + below))
        above = jnp.where(at_low, one + above, jnp.logaddexp(one, zero + above))
        below = jnp.where(at_high, jnp.logaddexp(zero, one + below), zero + below)
        return (above, below, inner), None

    bits = tuple(jnp.moveaxis(x, axis, 0)[::-1] for x, axis in ((log_probs, -2), (low, -1), (high, -1)))
    start = jnp.zeros(low.shape[:-1])
    return jax.lax.scan(add_bit, (start, start, start), bits)[0][2]


def invert(bits: jax.Array) -> jax.Array:
    """The bits of the nearest binary64 to 1 / x, int32[..., 64]; that of 0 is infinite, and that of infinity 0."""
    bits = bits.astype(jnp.int32)
    biased = _to_integer(bits[..., 1:12])
    mantissa = jnp.concatenate([(biased > 0).astype(jnp.int32)[..., None], bits[..., 12:]], axis=-1)
    first = jnp.argmax(mantissa, axis=-1)
    exponent = jnp.maximum(biased, 1) - EXPONENT_BIAS - first
    divisor = _take_bits(mantissa, first, MANTISSA_BITS + 1)
    is_power = divisor.sum(-1) == 1
    # Bit by bit: twice the remainder, less the divisor where it fits. Both have 54 bits, as two whole numbers.
    half = 27
    high, low = (_to_integer(part).astype(jnp.uint32) for part in (divisor[..., :-half], divisor[..., -half:]))
    rest_high, rest_low = jnp.full(first.shape, 1 << (MANTISSA_BITS - half), jnp.uint32), jnp.zeros_like(low)

    def add_bit(rest, _):
        rest_high, rest_low = rest
        rest_low = rest_low << 1
        rest_high, rest_low = (rest_high << 1) + (rest_low >> half), rest_low & ((1 << half) - 1)
        fits = (rest_high > high) | ((rest_high == high) & (rest_low >= low))
        borrow = (rest_low < low).astype(jnp.uint32)
        rest_high = jnp.where(fits, rest_high - high - borrow, rest_high)
        rest_low = jnp.where(fits, (rest_low + (borrow << half)) - low, rest_low)
        return (rest_high, rest_low), fits.astype(jnp.int32)

    # Few steps at once: all of them in one program take long to compile.
    rest, quotient = jax.lax.scan(add_bit, (rest_high, rest_low), None, length=MANTISSA_BITS + 2, unroll=6)
    remainder = ((rest[0] > 0) | (rest[1] > 0)).astype(jnp.int32)
    one = jnp.zeros(MANTISSA_BITS + 3, jnp.int32).at[0].set(1)
    digits = jnp.where(is_power[..., None], one, jnp.stack([*quotient, remainder], axis=-1))
    result_exponent = jnp.where(is_power, -exponent, -exponent - 1)
    exact = jnp.ones(first.shape, bool)
    fields = _round(digits, jnp.zeros_like(first), result_exponent, exact)
    infinity = jnp.asarray([1] * 11 + [0] * MANTISSA_BITS, jnp.int32)
    is_zero, is_infinite = ~(bits[..., 1:] > 0).any(-1), biased == 2047
    fields = jnp.where(is_zero[..., None], infinity, jnp.where(is_infinite[..., None], 0, fields))
    return jnp.concatenate([bits[..., :1], fields], axis=-1)


def _to_integer(bits: jax.Array) -> jax.Array:
    return (bits << jnp.arange(bits.shape[-1] - 1, -1, -1)).sum(-1)


def _spell_scaled(mantissa: jax.Array, exponent: jax.Array, q: jax.Array) -> jax.Array:
    """The decimal digits of mantissa · 2^exponent · 10^q, which is below 10^19, int32[..., 20]; the last is 1 if more
    follow."""
    powers, shifts = _powers_of_ten()
    index = jnp.clip(q, LEAST, MOST) - LEAST
    bits = _to_bits(_multiply(mantissa, jnp.asarray(powers)[index]))
    shift = exponent + jnp.asarray(shifts)[index]  # of the last bit
    units = bits.shape[-1] - 1 + shift  # index of the bit that counts 1
    whole_bits = _take_bits(bits, units - 63, 64)
    rest = units + 1
    behind = _take_bits(bits, rest, _TIE_BITS)
    is_exact = (q >= 0) & (q <= EXACT)
    # A power that is cut off makes a whole number look like …111: it is the next one.
    rounds_up = ~is_exact & (behind > 0).all(-1)
    has_more = (((jnp.arange(bits.shape[-1]) >= rest[..., None]) & (bits > 0)).any(-1) | ~is_exact) & ~rounds_up
    whole_bits = _increment(whole_bits, rounds_up)
    limbs = _to_limbs(whole_bits)
    powers = _list_digits([1 << (_LIMB * i) for i in range(limbs.shape[-1])], 10, _DIGITS + 1)
    columns = carry_over((limbs[..., None] * powers).sum(-2), 10).astype(jnp.int32)
    return jnp.concatenate([columns[..., ::-1], has_more.astype(jnp.int32)[..., None]], axis=-1)
