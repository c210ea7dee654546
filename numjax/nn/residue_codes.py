"""The characters of residues by primes: angles that addition and multiplication turn.

For a residue r by a prime p, the angle 2πkr/p is an additive character: the angle of a sum is the sum of the angles.
With a generator g of the residues other than 0 and r = g^i, the angle 2πki/(p−1) is a multiplicative character: the
angle of a product is the sum of the angles. 0 has no such angle, so it has a flag of its own.

Legend: R primes, M the largest of them, H harmonics k = 1 … H, F features of a residue.
"""

from __future__ import annotations

import functools

import numpy as np

from numjax.errors import UsageError

LEAST = 7  # 2 and 5 divide 10, and 3 has two residues beside 0


def check_options(most: int, harmonics: int) -> None:
    """Raises UsageError unless there is a prime up to `most` and at least one harmonic."""
    if not LEAST <= most <= 1000 or harmonics < 1:
        raise UsageError(f"residues: most must lie between {LEAST} and 1000, and harmonics be at least 1")


@functools.cache
def list_primes(most: int) -> tuple[int, ...]:
    """The primes 7 … most."""
    return tuple(p for p in range(LEAST, most + 1) if all(p % d for d in range(2, int(p**0.5) + 1)))


@functools.cache
def find_indices(prime: int) -> tuple[int, ...]:
    """i of r = g^i mod p for r = 1 … p − 1, with the smallest generator g."""
    for generator in range(2, prime):
        index, power = {}, 1
        for i in range(prime - 1):
            index[power] = i
            power = power * generator % prime
        if len(index) == prime - 1:
            return tuple(index[r] for r in range(1, prime))
    raise ValueError(f"{prime} is no prime above 2")


def count_features(harmonics: int, multiplies: bool) -> int:
    """F."""
    return 2 * harmonics + (2 * harmonics + 1) * multiplies


@functools.cache
def make_codes(primes: tuple[int, ...], harmonics: int, multiplies: bool) -> np.ndarray:
    """float32[R, M, F], the code of each residue r < p, zeros for others.

    It is cos and sin of its H additive characters and, with `multiplies`, those of its H multiplicative ones, which
    are 0 for r = 0, and whether r is 0.
    """
    codes = np.zeros((len(primes), max(primes), count_features(harmonics, multiplies)))
    k = np.arange(1, harmonics + 1)
    for row, prime in enumerate(primes):
        additive = 2 * np.pi * np.outer(np.arange(prime), k) / prime
        columns = [np.cos(additive), np.sin(additive)]
        if multiplies:
            angles = 2 * np.pi * np.outer(find_indices(prime), k) / (prime - 1)
            zero = np.zeros((1, harmonics))
            columns += [np.concatenate([zero, f(angles)]) for f in (np.cos, np.sin)]
            columns.append(np.arange(prime)[:, None] == 0)
        codes[row, :prime] = np.concatenate(columns, axis=-1)
    return codes.astype(np.float32)
