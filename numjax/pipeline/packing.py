"""Plans of an epoch: which rows go into which batch, made ahead as pure functions of lengths and a seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Plan(NamedTuple):
    """The batches of one epoch.

    Attributes:
      batches: a batch is a list of rows, a row the indices of the examples packed into it; an empty row fills
        the batch up.
      lengths: positions of each batch.
    """

    batches: list[list[np.ndarray]]
    lengths: list[int]


def buckets(lengths: np.ndarray, most: int = 4, multiple: int = 16) -> list[int]:
    """At most `most` lengths, multiples of `multiple`, that hold every row; split where rows are many."""
    rounded = -(-np.maximum(lengths, 1) // multiple) * multiple
    values = np.unique(rounded)
    if len(values) > most:
        cuts = np.quantile(rounded, np.linspace(0, 1, most + 1)[1:], method="higher")
        values = np.unique(cuts)
    return [int(v) for v in values]


def bucketed(lengths: np.ndarray, sizes: Sequence[int], batch: int, seed: int, epoch: int) -> Plan:
    """Shuffled batches of rows of similar length. What fills no batch of its bucket goes with the next
    larger one; only the very last batch may hold empty rows."""
    rng = np.random.default_rng([seed, epoch])
    order = rng.permutation(len(lengths))
    bucket = np.searchsorted(sizes, lengths[order])
    batches, lens, left = [], [], np.zeros(0, np.int64)
    for b, size in enumerate(sizes):
        mine = np.concatenate([left, order[bucket == b]])
        whole = len(mine) // batch * batch
        if b == len(sizes) - 1 and whole < len(mine):
            whole = len(mine)
        for start in range(0, whole, batch):
            batches.append(_fill([mine[i : i + 1] for i in range(start, min(start + batch, whole))], batch))
            lens.append(int(size))
        left = mine[whole:]
    shuffled = rng.permutation(len(batches))
    return Plan([batches[i] for i in shuffled], [lens[i] for i in shuffled])


def packed(
    lengths: np.ndarray, numbers: np.ndarray, room: int, numerals: int, batch: int, seed: int, epoch: int
) -> Plan:
    """Shuffled rows of at most `room` positions and `numerals` numbers, filled best-fit with whole examples."""
    rng = np.random.default_rng([seed, epoch])
    rows: list[list[int]] = []
    # A window of open rows: wide enough that little room is lost, narrow enough that a row closes soon.
    width = 64
    open_room, open_numbers = np.zeros(width, np.int64), np.zeros(width, np.int64)
    open_row = np.full(width, -1, np.int64)
    for i in rng.permutation(len(lengths)):
        spare = open_room - lengths[i]
        fits = (spare >= 0) & (open_numbers >= numbers[i])
        if fits.any():
            slot = int(np.where(fits, spare, np.iinfo(np.int64).max).argmin())
        else:
            slot = int(open_room.argmin())
            open_row[slot], open_room[slot], open_numbers[slot] = len(rows), room, numerals
            rows.append([])
        rows[open_row[slot]].append(int(i))
        open_room[slot] -= lengths[i]
        open_numbers[slot] -= numbers[i]
    order = rng.permutation(len(rows))
    arrays = [np.asarray(rows[i], np.int64) for i in order]
    batches = [_fill(arrays[start : start + batch], batch) for start in range(0, len(arrays), batch)]
    return Plan(batches, [room] * len(batches))


def sequential(lengths: np.ndarray, sizes: Sequence[int], batch: int) -> Plan:
    """Every row once, by bucket and in order; the last batch of a bucket is filled up with empty rows."""
    batches, lens = [], []
    bucket = np.searchsorted(sizes, lengths)
    for b, size in enumerate(sizes):
        mine = np.flatnonzero(bucket == b)
        for start in range(0, len(mine), batch):
            batches.append(_fill([mine[i : i + 1] for i in range(start, min(start + batch, len(mine)))], batch))
            lens.append(int(size))
    return Plan(batches, lens)


def _fill(rows: list[np.ndarray], batch: int) -> list[np.ndarray]:
    return rows + [np.zeros(0, np.int64)] * (batch - len(rows))
