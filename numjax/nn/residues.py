"""Whole numbers as a magnitude, a sign and residues by 2 … M, and back (IntSeqBERT).

Residues and digits are computed in 32-bit integers, never in floats, so numbers of any length have exact residues.

Legend: R moduli 2 … M, W beams, L limbs of four decimal digits, the lowest first.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.types import Numeral

_LIMB_DIGITS = 4
_LIMB = 10**_LIMB_DIGITS
NEVER = -1e30  # the score of what is no candidate


@functools.cache
def _cycles(most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(powers int32[R, E], starts int32[R], lengths int32[R]): 10^e mod m is powers[e] for e < starts, and from there
    on it repeats with the period lengths."""
    cycles, starts, lengths = [], [], []
    for modulus in range(2, most + 1):
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


def list_moduli(most: int) -> np.ndarray:
    """2 … most, int32[R]."""
    return np.arange(2, most + 1, dtype=np.int32)


def log_magnitude(numerals: Numeral) -> jax.Array:
    """v = 1 + log10 |x|, 0 for x = 0, float32[...]."""
    is_zero = numerals.n_digits == 0
    # The logarithm of zero would make gradients NaN, so zero is 1.11… here.
    digits = jnp.where(is_zero[..., None], 1, numerals.digits)
    return jnp.where(is_zero, 0.0, 1 + numerals._replace(digits=digits).log10)


def sign_id(numerals: Numeral) -> jax.Array:
    """0 for negative numbers, 1 for zero and −0, 2 for positive ones, int32[...]."""
    return jnp.where(numerals.n_digits == 0, 1, 1 + numerals.sign.astype(jnp.int32))


def find_residues(numerals: Numeral, most: int, fraction: int = 0) -> tuple[jax.Array, jax.Array]:
    """(x · 10^fraction mod m for m = 2 … most, int32[..., R]; bool[...], whether that number is whole and known).

    Residues are at least 0, also those of negative numbers. A number of more digits than its numeral keeps is not
    known.
    """
    keep = numerals.digits.shape[-1]
    moduli = list_moduli(most)
    digits = numerals.digits.astype(jnp.int32)
    place = numerals.exponent.astype(jnp.int32)[..., None] - jnp.arange(keep) + fraction
    is_whole = ~((digits > 0) & (place < 0)).any(-1) & (numerals.n_digits <= keep)
    residues = jnp.zeros((*digits.shape[:-1], len(moduli)), jnp.int32)
    for i in range(keep):
        residues = jnp.where(place[..., i, None] >= 0, (residues * 10 + digits[..., i, None]) % moduli, residues)
    table, starts, lengths = _cycles(most)
    rest = jnp.maximum(place[..., -1:], 0)  # zeros behind the digits that are kept
    index = jnp.where(rest < starts, rest, starts + (rest - starts) % lengths)
    powers = jnp.asarray(table)[np.arange(len(moduli)), index]
    residues = residues * powers % moduli
    return jnp.where(numerals.sign[..., None] < 0, (moduli - residues) % moduli, residues), is_whole


@functools.cache
def choose_coprime(most: int, digits: int) -> tuple[int, ...]:
    """Prime powers up to `most` of different primes, the largest first, until their product is at least 10^digits;
    () if it never is."""
    powers = {}
    for modulus in range(2, most + 1):
        prime = next(p for p in range(2, modulus + 1) if modulus % p == 0)
        rest = modulus
        while rest % prime == 0:
            rest //= prime
        if rest == 1:
            powers[prime] = modulus
    chosen, product = [], 1
    for modulus in sorted(powers.values(), reverse=True):
        if product >= 10**digits:
            break
        chosen.append(modulus)
        product *= modulus
    return tuple(chosen) if product >= 10**digits else ()


class _Beam(NamedTuple):
    """limbs int32[..., W, L] of each partial number, its residues int32[..., W, R], and its score float32[..., W]."""

    limbs: jax.Array
    residues: jax.Array
    score: jax.Array


def _extend(beam: _Beam, log_probs: jax.Array, modulus: int, product: int, moduli: np.ndarray, width: int) -> _Beam:
    """The likeliest partial numbers below product · modulus: each is one of `beam` plus a multiple of `product`."""
    values = jnp.arange(modulus)
    scores = beam.score[..., :, None] + log_probs[..., modulus - 2, :modulus][..., None, :]
    score, flat = jax.lax.top_k(
        scores.reshape(*scores.shape[:-2], -1), min(width, scores.shape[-2] * scores.shape[-1])
    )
    parent, wanted = flat // modulus, values[flat % modulus]
    limbs = jnp.take_along_axis(beam.limbs, parent[..., None], axis=-2)
    residues = jnp.take_along_axis(beam.residues, parent[..., None], axis=-2)
    # N + c · product has the wanted residue.
    c = (wanted - residues[..., modulus - 2]) * pow(product, -1, modulus) % modulus
    steps = np.asarray([product % int(m) for m in moduli], np.int32)
    residues = (residues + c[..., None] * steps) % moduli
    product_limbs = np.asarray([product // _LIMB**i % _LIMB for i in range(limbs.shape[-1])], np.int32)
    total, carry, columns = limbs + c[..., None] * product_limbs, jnp.zeros_like(c), []
    for i in range(limbs.shape[-1]):
        column = total[..., i] + carry
        columns.append(column % _LIMB)
        carry = column // _LIMB
    return _Beam(jnp.stack(columns, axis=-1), residues, score)


def solve(log_probs: jax.Array, log10: jax.Array, digits: int, width: int) -> jax.Array:
    """The whole number from 1 to 10^digits − 1 that residues and a magnitude say, its digits int32[..., digits], the
    lowest first.

    It maximises Σ_m log p_m(N mod m) − (log10 N − μ)² among candidates N, over all moduli 2 … M, also those that
    share factors. Candidates come from a beam over the moduli of `choose_coprime`: after k of them, it holds the
    `width` likeliest tuples of k residues, and the Chinese remainder theorem makes each tuple one number below their
    product. The numbers of all steps are candidates, so a small number needs few moduli. The right number is a
    candidate if its residues stay in the beam, with any width if each is the likeliest of its modulus.

    Args:
      log_probs: float32[..., R, M] of the residues 0 … m − 1 of m. log10: μ, float32[...].
    """
    most = log_probs.shape[-2] + 1
    moduli, coprime = list_moduli(most), choose_coprime(most, digits)
    n_limbs = -(-(len(str(int(np.prod([int(m) for m in coprime], dtype=object)))) + 1) // _LIMB_DIGITS)
    shape = log10.shape
    beam = _Beam(
        jnp.zeros((*shape, 1, n_limbs), jnp.int32),
        jnp.zeros((*shape, 1, len(moduli)), jnp.int32),
        jnp.zeros((*shape, 1), jnp.float32),
    )
    best_score, best_limbs = jnp.full(shape, 2 * NEVER, jnp.float32), jnp.zeros((*shape, n_limbs), jnp.int32)
    product = 1
    for modulus in coprime:
        beam = _extend(beam, log_probs, modulus, product, moduli, width)
        product *= modulus
        scores = _score(beam, log_probs, log10, digits)
        index = scores.argmax(-1)[..., None]
        score = jnp.take_along_axis(scores, index, axis=-1)[..., 0]
        limbs = jnp.take_along_axis(beam.limbs, index[..., None], axis=-2)[..., 0, :]
        best_limbs = jnp.where((score > best_score)[..., None], limbs, best_limbs)
        best_score = jnp.maximum(score, best_score)
    places = [10**i for i in range(_LIMB_DIGITS)]
    return jnp.stack([best_limbs // p % 10 for p in places], axis=-1).reshape(*shape, -1)[..., :digits]


def _score(beam: _Beam, log_probs: jax.Array, log10: jax.Array, digits: int) -> jax.Array:
    """The score of each number of a beam by all moduli and the magnitude, float32[..., W]."""
    # [..., R, W]: of each modulus the log probability of each number's residue.
    by_modulus = jnp.take_along_axis(log_probs, jnp.swapaxes(beam.residues, -1, -2), axis=-1)
    value = (beam.limbs * np.asarray([float(_LIMB) ** i for i in range(beam.limbs.shape[-1])], np.float32)).sum(-1)
    above = [10**i for i in range(_LIMB_DIGITS)][digits % _LIMB_DIGITS]
    top = digits // _LIMB_DIGITS
    is_long = (beam.limbs[..., top] >= above) | (beam.limbs[..., top + 1 :] > 0).any(-1)
    magnitude = jnp.square(jnp.log10(jnp.maximum(value, 1)) - log10[..., None])
    return jnp.where(is_long | (value == 0), NEVER, by_modulus.sum(-2) - magnitude)
