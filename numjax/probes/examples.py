"""The examples of each probe, as places in a table of vectors: which numbers are split off, lists, pairs, targets.

Legend: V numbers of the table, N examples, k numbers an example.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from numjax.errors import DataError

LENGTH = 5  # numbers in a list
# The lowest place, from below, of a list's maximum in the sorted numbers, where there are enough of them.
LOWEST = 10
# With fewer numbers than this, as [0, 99] leaves in its fifth, the lists of a held-out split would be all alike.
LEAST_HELD = 20


class Split(NamedTuple):
    """Places in the table, each in one of three: int32 arrays, sorted."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Examples(NamedTuple):
    """One split of one probe.

    Attributes:
      items: int32[N, k], places in the table.
      targets: float32[N], centred; for lists int32[N], which of the k is the largest.
    """

    items: np.ndarray
    targets: np.ndarray


def split(count: int, rng: np.random.Generator, as_published: bool = False) -> Split:
    """A fifth of the numbers for test, a tenth of the rest, or `LEAST_HELD` if that is more, for validation.

    Args:
      as_published: validation is test, and all the rest is training.

    Raises:
      DataError: too few numbers.
    """
    order = rng.permutation(count).astype(np.int32)
    rest = int(0.8 * count)
    held, test = max(LEAST_HELD, round(rest / 10)), np.sort(order[rest:])
    if as_published:
        parts = Split(np.sort(order[:rest]), test, test)
    else:
        parts = Split(np.sort(order[: max(0, rest - held)]), np.sort(order[max(0, rest - held) : rest]), test)
    if min(map(len, parts)) < 2:
        raise DataError(f"{count} numbers are too few to train, choose and test on: give a range of 50 or more")
    return parts


def lists(pool: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Lists of distinct numbers near enough to each other that their lengths tell little: int32[count, 5].

    Places count in the sorted pool. The maximum's is uniform from 10 to the last, which is left out. In half of the
    lists the others are uniform below it, its neighbour left out. In the other half they lie below it by a Gaussian
    cut to an integer, with a deviation of 5 places up to place 500 and of 1% of the place beyond: a step of 0 or
    upwards is one place down, one beyond the first ends there.

    Args:
      pool: places in the table, in the order of their numbers.

    Raises:
      DataError: fewer than 7 numbers.
    """
    size = len(pool)
    if size < LENGTH + 2:
        raise DataError(f"lists of {LENGTH} need {LENGTH + 2} numbers or more to choose from, not {size}")
    lowest = min(LOWEST, max(LENGTH, size // 2))
    top = rng.integers(lowest, size - 1, count)
    uniform = rng.random(count) > 0.5
    deviation = np.where(top <= 500, 5.0, 0.01 * top)
    chosen = np.full((count, LENGTH), -1)
    chosen[:, 0] = top
    for place in range(1, LENGTH):
        open_rows = np.arange(count)
        while len(open_rows):
            highest = top[open_rows]
            below = np.trunc(rng.normal(0.0, deviation[open_rows])).astype(np.int64)
            near = np.clip(np.where(below <= 0, highest - 1, highest - below), 0, None)
            drawn = np.where(uniform[open_rows], rng.integers(0, highest - 1), near)
            taken = (chosen[open_rows, :place] == drawn[:, None]).any(axis=1)
            chosen[open_rows[~taken], place] = drawn[~taken]
            open_rows = open_rows[taken]
    return pool[rng.permuted(chosen, axis=1)].astype(np.int32)


def pairs(pool: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Ordered pairs of two different numbers, uniform: int32[count, 2]."""
    first = rng.integers(0, len(pool), count)
    second = (first + rng.integers(1, len(pool), count)) % len(pool)
    return pool[np.stack([first, second], axis=1)].astype(np.int32)


def of_lists(values: np.ndarray, pool: np.ndarray, count: int, rng: np.random.Generator) -> Examples:
    """Lists and the place of their largest number. `values` are sorted."""
    items = lists(pool, count, rng)
    return Examples(items, values[items].argmax(axis=1).astype(np.int32))


def of_numbers(values: np.ndarray, pool: np.ndarray, as_published: bool) -> Examples:
    """Every number, less the middle of the range.

    Args:
      as_published: half of the highest is taken away and the rest cut to an integer, so that around the middle two
        numbers share a target.
    """
    low, high = float(values[0]), float(values[-1])
    targets = np.trunc(values - high / 2) if as_published else values - (low + high) / 2
    return Examples(pool[:, None].astype(np.int32), targets[pool].astype(np.float32))


def of_pairs(
    values: np.ndarray, pool: np.ndarray, count: int, rng: np.random.Generator, as_published: bool
) -> Examples:
    """Pairs and their sums, less twice the middle of the range (as published ⌊(2 · highest − 1) / 2⌋)."""
    items = pairs(pool, count, rng)
    low, high = float(values[0]), float(values[-1])
    centre = np.floor((2 * high - 1) / 2) if as_published else low + high
    return Examples(items, (values[items].sum(axis=1) - centre).astype(np.float32))
