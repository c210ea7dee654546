"""Numbers as a magnitude, a sign and residues by several moduli, and back (IntSeqBERT, arXiv 2603.05556).

Residues and digits are computed in 32-bit integers, never in floats, so numbers of any length have exact residues.

Legend: R moduli, M the largest of them, W beams, L limbs of four decimal digits, the lowest first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.nn.numerals import carry_over
from numjax.types import Numeral

_LIMB_DIGITS = 4
_LIMB = 10**_LIMB_DIGITS
NEVER = -1e30  # the score of what is no candidate
MOST_PLACES = 36  # of a whole number whose magnitude float32 holds


@functools.cache
def _cycles(moduli: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(powers int32[R, E], starts int32[R], lengths int32[R]): 10^e mod m is powers[e] for e < starts, and from there
    on it repeats with the period lengths."""
    cycles, starts, lengths = [], [], []
    for modulus in moduli:
        powers, index = [1 % modulus], {1 % modulus: 0}
        while (power := powers[-1] * 10 % modulus) not in index:
            index[power] = len(powers)
            powers.append(power)
        cycles.append(powers)
        starts.append(index[power])
        lengths.append(len(powers) - index[power])
    size = max(map(len, cycles))
    table = np.asarray([cycle + [0] * (size - len(cycle)) for cycle in cycles], np.int32)
    return table, np.asarray(starts, np.int32), np.asarray(lengths, np.int32)


def _multiply_by_power(residues: jax.Array, power: jax.Array, moduli: tuple[int, ...]) -> jax.Array:
    """Residues [..., R] of x · 10^power from those of x. Below 0, power needs moduli without the factors 2 and 5."""
    table, starts, lengths = _cycles(moduli)
    power = power[..., None]
    index = jnp.where(power < starts, power, starts + (power - starts) % lengths)
    index = jnp.where(power < 0, power % lengths, index)  # 10 has an inverse, so its powers have no start
    return residues * jnp.asarray(table)[np.arange(len(moduli)), index] % np.asarray(moduli, np.int32)


def log_magnitude(numerals: Numeral) -> jax.Array:
    """v = 1 + log10 |x|, 0 for x = 0, float32[...]."""
    is_zero = numerals.n_digits == 0
    # The logarithm of zero would make gradients NaN, so zero is 1.11… here.
    digits = jnp.where(is_zero[..., None], 1, numerals.digits)
    return jnp.where(is_zero, 0.0, 1 + numerals._replace(digits=digits).log10)


def sign_id(numerals: Numeral) -> jax.Array:
    """0 for negative numbers, 1 for zero and −0, 2 for positive ones, int32[...]."""
    return jnp.where(numerals.n_digits == 0, 1, 1 + numerals.sign.astype(jnp.int32))


def find_residues(numerals: Numeral, moduli: tuple[int, ...], fraction: int = 0) -> tuple[jax.Array, jax.Array]:
    """(x · 10^fraction mod m for each modulus m, int32[..., R]; bool[...], whether that number is whole and known).

    Residues are at least 0, also those of negative numbers. A number of more digits than its numeral keeps is not
    known.
    """
    keep, sizes = numerals.digits.shape[-1], np.asarray(moduli, np.int32)
    digits = numerals.digits.astype(jnp.int32)
    place = numerals.exponent.astype(jnp.int32)[..., None] - jnp.arange(keep) + fraction
    is_whole = ~((digits > 0) & (place < 0)).any(-1) & (numerals.n_digits <= keep)
    residues = jnp.zeros((*digits.shape[:-1], len(moduli)), jnp.int32)
    for i in range(keep):
        residues = jnp.where(place[..., i, None] >= 0, (residues * 10 + digits[..., i, None]) % sizes, residues)
    zeros_behind = jnp.maximum(place[..., -1], 0)  # behind the digits that are kept
    residues = _multiply_by_power(residues, zeros_behind, moduli)
    return jnp.where(numerals.sign[..., None] < 0, -residues % sizes, residues), is_whole


def find_decimal_residues(numerals: Numeral, primes: tuple[int, ...]) -> tuple[jax.Array, jax.Array]:
    """(x mod p for each prime p, int32[..., R]; bool[...], whether all digits of x are known).

    A decimal such as 0.25 is 25 · 10^−2, and 10 has an inverse modulo each prime but 2 and 5, which must not be among
    `primes`. So sums, differences and products of decimals have the sums, differences and products of residues.
    """
    keep, sizes = numerals.digits.shape[-1], np.asarray(primes, np.int32)
    residues = jnp.zeros((*numerals.digits.shape[:-1], len(primes)), jnp.int32)
    for i in range(keep):
        residues = (residues * 10 + numerals.digits[..., i, None].astype(jnp.int32)) % sizes
    residues = _multiply_by_power(residues, numerals.exponent.astype(jnp.int32) - (keep - 1), primes)
    return jnp.where(numerals.sign[..., None] < 0, -residues % sizes, residues), numerals.n_digits <= keep


@functools.cache
def choose_coprime(moduli: tuple[int, ...], digits: int) -> tuple[tuple[int, ...], int]:
    """(those of the moduli that are the largest powers of their primes, the largest first; K, so that any K of them
    have a product of at least 10^digits). () and 0 if all of them have less."""
    powers = {}
    for modulus in sorted(moduli):
        prime = next(p for p in range(2, modulus + 1) if modulus % p == 0)
        rest = modulus
        while rest % prime == 0:
            rest //= prime
        if rest == 1:
            powers[prime] = modulus
    chosen = sorted(powers.values())
    products = np.cumprod(np.asarray(chosen, dtype=object))
    enough = [count for count, product in enumerate(products, 1) if product >= 10**digits]
    return (tuple(reversed(chosen)), enough[0]) if enough else ((), 0)


@functools.cache
def _invert(moduli: tuple[int, ...]) -> np.ndarray:
    """int32[R, M]: the inverse of each residue by each modulus, 0 where there is none."""
    table = np.zeros((len(moduli), max(moduli)), np.int32)
    for row, modulus in enumerate(moduli):
        for residue in range(1, modulus):
            if math.gcd(residue, modulus) == 1:
                table[row, residue] = pow(residue, -1, modulus)
    return table


class _Beam(NamedTuple):
    """limbs int32[..., W, L] of each partial number, its residues int32[..., W, R] and its score float32[..., W]; the
    product of the moduli so far, as limbs int32[..., L] and as residues int32[..., R]."""

    limbs: jax.Array
    residues: jax.Array
    score: jax.Array
    product_limbs: jax.Array
    product_residues: jax.Array


def _start_beam(shape: tuple[int, ...], width: int, n_moduli: int, n_limbs: int) -> _Beam:
    """0, the only number below 1; the rest of the beam is no candidate."""
    score = jnp.broadcast_to(jnp.where(jnp.arange(width) == 0, 0.0, NEVER), (*shape, width))
    one = jnp.broadcast_to((jnp.arange(n_limbs) == 0).astype(jnp.int32), (*shape, n_limbs))
    zeros = jnp.zeros((*shape, width, n_limbs), jnp.int32), jnp.zeros((*shape, width, n_moduli), jnp.int32)
    return _Beam(*zeros, score, one, jnp.ones((*shape, n_moduli), jnp.int32))


def _extend(beam: _Beam, log_probs: jax.Array, index: jax.Array, moduli: tuple[int, ...]) -> _Beam:
    """The likeliest partial numbers below the product times moduli[index], int32[...]: each is one of `beam` plus a
    multiple of the product."""
    sizes, most, width = np.asarray(moduli, np.int32), max(moduli), beam.score.shape[-1]
    modulus = jnp.asarray(sizes)[index][..., None]

    def pick(array):
        return jnp.take_along_axis(array, index[..., None, None], axis=-1)[..., 0]

    row = jnp.take_along_axis(log_probs, index[..., None, None], axis=-2)[..., 0, :]
    row = jnp.where(jnp.arange(most) < modulus, row, NEVER)
    scores = beam.score[..., :, None] + row[..., None, :]
    score, flat = jax.lax.top_k(scores.reshape(*scores.shape[:-2], -1), width)
    parent, wanted = flat // most, flat % most
    limbs = jnp.take_along_axis(beam.limbs, parent[..., None], axis=-2)
    residues = jnp.take_along_axis(beam.residues, parent[..., None], axis=-2)
    # N + c · product has the wanted residue.
    inverse = jnp.asarray(_invert(moduli))[index, pick(beam.product_residues[..., None, :])[..., 0]][..., None]
    c = (wanted - pick(residues)) * inverse % modulus
    residues = (residues + c[..., None] * beam.product_residues[..., None, :]) % sizes
    limbs = carry_over(limbs + c[..., None] * beam.product_limbs[..., None, :], _LIMB)
    product_limbs = carry_over(beam.product_limbs * modulus, _LIMB)
    return _Beam(limbs, residues, score, product_limbs, beam.product_residues * modulus % sizes)


def solve(
    log_probs: jax.Array,
    moduli: Sequence[int],
    digits: int,
    width: int,
    rate: Callable[[jax.Array], jax.Array],
    also: jax.Array | None = None,
) -> jax.Array:
    """The whole number from 0 to 10^digits − 1 that residues and `rate` say, its digits int32[..., digits], the
    lowest first.

    It maximises Σ_m log p_m(N mod m) + rate(N) among candidates N, over all moduli, also those that share factors.
    Candidates come from a beam over K coprime moduli (`choose_coprime`), the surest first: after k of them, it holds
    the `width` likeliest tuples of k residues, and the Chinese remainder theorem makes each tuple one number below
    their product. The numbers of all steps are candidates, so a small number needs few moduli. The right number is a
    candidate if its residues stay in the beam, with any width if each is the likeliest of its modulus. Moduli of
    which a model knows nothing come last, or not at all where there are more than K.

    Args:
      log_probs: float32[..., R, M] of the residues 0 … m − 1 of m.
      rate: what else speaks for numbers, float32[..., W] of their digits int32[..., W, digits].
      also: digits int32[..., digits] of one more candidate.
    """
    moduli = tuple(moduli)
    coprime, count = choose_coprime(moduli, digits)
    most = math.prod(coprime[:count])
    shape, n_limbs = log_probs.shape[:-2], -(-(len(str(most)) + 1) // _LIMB_DIGITS)
    rows = np.asarray([moduli.index(modulus) for modulus in coprime])
    _, order = jax.lax.top_k(log_probs[..., rows, :].max(-1), count)

    def step(carry, index):
        beam, best_score, best_digits = carry
        beam = _extend(beam, log_probs, index, moduli)
        places = _list_places(beam.limbs)
        numbers = places[..., :digits]
        scores = jnp.where(beam.score > NEVER / 2, _sum_by_modulus(log_probs, beam.residues) + rate(numbers), NEVER)
        scores = jnp.where((places[..., digits:] > 0).any(-1), NEVER, scores)
        index = scores.argmax(-1)[..., None]
        score = jnp.take_along_axis(scores, index, axis=-1)[..., 0]
        number = jnp.take_along_axis(numbers, index[..., None], axis=-2)[..., 0, :]
        best_digits = jnp.where((score > best_score)[..., None], number, best_digits)
        return (beam, jnp.maximum(score, best_score), best_digits), None

    start = _start_beam(shape, width, len(moduli), n_limbs)
    nothing = jnp.full(shape, -jnp.inf, jnp.float32), jnp.zeros((*shape, digits), jnp.int32)
    steps = jnp.moveaxis(jnp.asarray(rows)[order], -1, 0)
    (_, best_score, best_digits), _ = jax.lax.scan(step, (start, *nothing), steps)
    if also is None:
        return best_digits
    score = _sum_by_modulus(log_probs, _find_residues_of_places(also, moduli)[..., None, :])
    score = (score + rate(also[..., None, :]))[..., 0]
    return jnp.where((score > best_score)[..., None], also, best_digits)


def value_of_places(digits: jax.Array) -> jax.Array:
    """The number of digits int32[..., P], the lowest first, float32[...]."""
    return (digits * np.asarray([10.0**i for i in range(digits.shape[-1])], np.float32)).sum(-1)


def _list_places(limbs: jax.Array) -> jax.Array:
    """The digits of limbs [..., L], the lowest first, int32[..., 4 L]."""
    places = [10**i for i in range(_LIMB_DIGITS)]
    return jnp.stack([limbs // p % 10 for p in places], axis=-1).reshape(*limbs.shape[:-1], -1)


def _find_residues_of_places(digits: jax.Array, moduli: tuple[int, ...]) -> jax.Array:
    """The residues int32[..., R] of the number of digits int32[..., P], the lowest first."""
    residues = jnp.zeros((*digits.shape[:-1], len(moduli)), jnp.int32)
    for i in reversed(range(digits.shape[-1])):
        residues = (residues * 10 + digits[..., i, None]) % np.asarray(moduli, np.int32)
    return residues


def _sum_by_modulus(log_probs: jax.Array, residues: jax.Array) -> jax.Array:
    """The sum over moduli of the log-probabilities of residues int32[..., W, R], float32[..., W]."""
    return jnp.take_along_axis(log_probs, jnp.swapaxes(residues, -1, -2), axis=-1).sum(-2)
