"""The examples of each probe, as indices into a table of vectors: splits, lists, pairs and targets.

Legend: V numbers of the table, N examples, k numbers an example.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from numjax.errors import DataError

LENGTH = 5  # numbers in a list
# The lowest rank of a list's maximum among the sorted numbers, if there are enough numbers.
LOWEST_RANK = 10
# With fewer numbers than this (a fifth of [0, 99]) the lists of a held-out split would all be alike.
MIN_HELD_OUT = 20


class Split(NamedTuple):
    """The indices of each split, int32, sorted. Each index is in one split."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class Examples(NamedTuple):
    """The examples of one split of one probe.

    Attributes:
      items: int32[N, k], indices into the table.
      targets: float32[N], centred; for lists int32[N], which of the k numbers is the largest.
    """

    items: np.ndarray
    targets: np.ndarray


def split_numbers(count: int, rng: np.random.Generator, as_published: bool = False) -> Split:
    """Splits numbers: a fifth for test, then a tenth of the rest (at least `MIN_HELD_OUT`) for validation.

    Args:
      as_published: validation is the same as test, and all the rest is training.

    Raises:
      DataError: too few numbers.
    """
    order = rng.permutation(count).astype(np.int32)
    n_train = int(0.8 * count)
    n_held_out, test = max(MIN_HELD_OUT, round(n_train / 10)), np.sort(order[n_train:])
    if as_published:
        parts = Split(np.sort(order[:n_train]), test, test)
    else:
        parts = Split(
            np.sort(order[: max(0, n_train - n_held_out)]),
            np.sort(order[max(0, n_train - n_held_out) : n_train]),
            test,
        )
    if min(map(len, parts)) < 2:
        raise DataError(f"{count} numbers are too few to train, choose and test on: give a range of 50 or more")
    return parts


def draw_lists(pool: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws lists of distinct numbers, int32[count, 5], so close to each other that their lengths tell little.

    Ranks count in the sorted pool. The rank of the maximum is uniform from 10 to the last but one. In half of the
    lists, the other ranks are uniform below it, except the rank just below. In the other half, each is lower by a
    Gaussian step, truncated to an integer. Its deviation is 5 ranks up to rank 500, and beyond that 1% of the rank. A
    step of 0 or less counts as one down; a step below the first rank ends at the first rank.

    Args:
      pool: indices into the table, in ascending order of their numbers.

    Raises:
      DataError: fewer than 7 numbers.
    """
    size = len(pool)
    if size < LENGTH + 2:
        raise DataError(f"lists of {LENGTH} need {LENGTH + 2} numbers or more to choose from, not {size}")
    lowest_rank = min(LOWEST_RANK, max(LENGTH, size // 2))
    top = rng.integers(lowest_rank, size - 1, count)
    is_uniform = rng.random(count) > 0.5
    deviation = np.where(top <= 500, 5.0, 0.01 * top)
    ranks = np.full((count, LENGTH), -1)
    ranks[:, 0] = top
    for column in range(1, LENGTH):
        open_rows = np.arange(count)
        while len(open_rows):
            highest = top[open_rows]
            steps = np.trunc(rng.normal(0.0, deviation[open_rows])).astype(np.int64)
            gaussian = np.clip(np.where(steps <= 0, highest - 1, highest - steps), 0, None)
            draws = np.where(is_uniform[open_rows], rng.integers(0, highest - 1), gaussian)
            is_repeated = (ranks[open_rows, :column] == draws[:, None]).any(axis=1)
            ranks[open_rows[~is_repeated], column] = draws[~is_repeated]
            open_rows = open_rows[is_repeated]
    return pool[rng.permuted(ranks, axis=1)].astype(np.int32)


def draw_pairs(pool: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws ordered pairs of two different numbers, uniformly: int32[count, 2]."""
    first = rng.integers(0, len(pool), count)
    second = (first + rng.integers(1, len(pool), count)) % len(pool)
    return pool[np.stack([first, second], axis=1)].astype(np.int32)


def make_list_examples(values: np.ndarray, pool: np.ndarray, count: int, rng: np.random.Generator) -> Examples:
    """Makes examples of lists; the target is the index of the largest number. `values` must be sorted."""
    items = draw_lists(pool, count, rng)
    return Examples(items, values[items].argmax(axis=1).astype(np.int32))


def make_number_examples(values: np.ndarray, pool: np.ndarray, as_published: bool) -> Examples:
    """Makes an example of every number; the target is the number minus the middle of the range.

    Args:
      as_published: the target is the number minus half of the highest, truncated to an integer; so around the middle
        two numbers share a target.
    """
    low, high = float(values[0]), float(values[-1])
    targets = np.trunc(values - high / 2) if as_published else values - (low + high) / 2
    return Examples(pool[:, None].astype(np.int32), targets[pool].astype(np.float32))


def make_pair_examples(
    values: np.ndarray, pool: np.ndarray, count: int, rng: np.random.Generator, as_published: bool
) -> Examples:
    """Makes examples of pairs; the target is their sum minus twice the middle of the range.

    Args:
      as_published: the target is the sum minus ⌊(2 · highest − 1) / 2⌋.
    """
    items = draw_pairs(pool, count, rng)
    low, high = float(values[0]), float(values[-1])
    centre = np.floor((2 * high - 1) / 2) if as_published else low + high
    return Examples(items, (values[items].sum(axis=1) - centre).astype(np.float32))
