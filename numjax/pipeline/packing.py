"""Plans of an epoch: which examples go into which row of which batch, made ahead as pure functions of the
lengths, a seed and the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.pipeline.columns import ranges

# A further bucket is one more compilation: it must save this share of all positions.
LEAST_GAIN = 0.05
_OPEN = 64


class Plan(NamedTuple):
    """The batches of one epoch. Every example stands in exactly one row.

    Attributes:
      members: int64[E], examples row after row.
      row_starts: int64[rows + 1] into `members`; a row without members only fills its batch.
      lengths: int64[batches], positions of each batch's rows.
      size: rows of a batch.
    """

    members: np.ndarray
    row_starts: np.ndarray
    lengths: np.ndarray
    size: int

    def rows(self, batch: int, held: Sequence[int] = (0,), parts: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """(examples row after row, how many each row holds) of a batch, or of some of `parts` equal slices of it.

        Raises:
          UsageError: the batch has no such slices.
        """
        if self.size % parts:
            raise UsageError(f"a batch of {self.size} rows does not divide over {parts}")
        share = self.size // parts
        at = (np.asarray(held)[:, None] * share + np.arange(share)).ravel() + batch * self.size
        counts = self.row_starts[at + 1] - self.row_starts[at]
        return self.members[ranges(self.row_starts[at], counts)], counts


class Filling(NamedTuple):
    """Rows filled by size alone: `slots` are places in the examples sorted by (length, numbers).

    Examples of one size can stand for each other, so one filling serves all epochs, and they all have the
    same number of rows.

    Attributes:
      lengths, numbers: of each example.
      slots: int64[E], row after row. row_starts: int64[rows + 1].
      room: positions of a row.
    """

    lengths: np.ndarray
    numbers: np.ndarray
    slots: np.ndarray
    row_starts: np.ndarray
    room: int


def buckets(lengths: np.ndarray, most: int = 4, multiple: int = 8, longest: int | None = None) -> list[int]:
    """At most `most` lengths that hold every row with the least padding; multiples of `multiple`, but none
    above `longest`. Fewer where another one would save less than 5% of all positions."""
    rounded = -(-np.maximum(lengths, 1) // multiple) * multiple
    if longest is not None:
        rounded = np.minimum(rounded, longest)
    values, counts = np.unique(rounded, return_counts=True)
    if not len(values):
        return [multiple if longest is None else min(multiple, longest)]
    before = np.concatenate([[0], np.cumsum(counts)])
    # cost[j]: least positions of the rows of the first j values; last[k][j]: where its k-th bucket begins.
    cost = np.concatenate([[0.0], before[1:] * values])
    last = [np.zeros(len(values) + 1, np.int64)]
    while len(last) < min(most, len(values)):
        choices = [cost[:j] + (before[j] - before[:j]) * values[j - 1] for j in range(1, len(values) + 1)]
        begin = np.asarray([0, *(int(c.argmin()) for c in choices)])
        fresh = np.asarray([0.0, *(c.min() for c in choices)])
        if cost[-1] - fresh[-1] < LEAST_GAIN * cost[-1]:
            break
        cost = fresh
        last.append(begin)
    found, end = [], len(values)
    for begin in reversed(last):
        found.append(int(values[end - 1]))
        end = int(begin[end])
    return found[::-1]


def paired(
    lengths: np.ndarray,
    others: np.ndarray,
    most: int = 4,
    longest: int | None = None,
    longest_other: int | None = None,
) -> tuple[np.ndarray, dict[int, tuple[int, int]]]:
    """Buckets of rows that have two lengths: (the length that rows are put into buckets by, bucket → both lengths).

    There are at most `most` shapes. Rows lie in `buckets` of whichever length leaves less padding on both sides; the
    other one is as long as any row of the bucket, or of a shorter one, since what is left over moves up.
    """
    found = []
    for first, key, rest in ((0, lengths, others), (1, others, lengths)):
        limits = (longest, longest_other) if first == 0 else (longest_other, longest)
        sizes = buckets(key, most, longest=limits[0])
        at = np.searchsorted(sizes, key)
        room = np.zeros(len(sizes), np.int64)
        np.maximum.at(room, at, rest)
        room = np.maximum.accumulate(-(-np.maximum(room, 1) // 8) * 8)
        room = room if limits[1] is None else np.minimum(room, limits[1])
        cost = int(np.asarray(sizes)[at].sum() + room[at].sum())
        shapes = {size: (size, int(r)) if first == 0 else (int(r), size) for size, r in zip(sizes, room, strict=True)}
        found.append((cost, first, key, shapes))
    _, _, key, shapes = min(found, key=lambda one: one[:2])
    return key, shapes


def bucketed(lengths: np.ndarray, sizes: Sequence[int], batch: int, seed: int, epoch: int) -> Plan:
    """Shuffled batches of one example a row, of similar lengths.

    What fills no batch of its bucket goes with the next larger one; one batch at most holds empty rows.

    Args:
      sizes: ascending lengths, the last no shorter than the longest example.
      batch: rows.
    """
    rng = np.random.default_rng([seed, epoch])
    rows, lens = _by_length(lengths, sizes, batch, rng.permutation(len(lengths)))
    shuffled = rng.permutation(len(rows))
    return _plan(rows[shuffled], lens[shuffled])


def sequential(lengths: np.ndarray, sizes: Sequence[int], batch: int) -> Plan:
    """Every example once, one a row, short ones first and otherwise in order; one batch at most, the last,
    holds empty rows. Arguments as in `bucketed`."""
    return _plan(*_by_length(lengths, sizes, batch, np.arange(len(lengths))))


def fill(lengths: np.ndarray, numbers: np.ndarray, room: int, numerals: int) -> Filling:
    """Rows of at most `room` positions and `numerals` numerals, filled best-fit.

    Raises:
      UsageError: an example is larger than a row.
    """
    lengths, numbers = np.asarray(lengths), np.asarray(numbers)
    if len(lengths) and (lengths.max() > room or numbers.max() > numerals):
        raise UsageError(
            f"an example of {lengths.max()} positions and {numbers.max()} numbers does not fit a packed row of "
            f"{room} positions and {numerals} numbers: raise data.length"
        )
    # Examples come in mixed sizes, so that short ones are at hand for every gap and numbers spread evenly. Only so
    # many rows are open at once; the one that has least left of either kind makes place for a new row.
    spare_room, spare_numerals = np.zeros(_OPEN, np.int64), np.zeros(_OPEN, np.int64)
    open_row = np.full(_OPEN, -1, np.int64)
    row_of, count = np.zeros(len(lengths), np.int64), 0
    order = np.lexsort((numbers, lengths))
    for slot in np.random.default_rng(0).permutation(len(lengths)).tolist():
        size, many = lengths[order[slot]], numbers[order[slot]]
        gap = np.where(spare_numerals >= many, spare_room - size, -1)
        place = int(np.where(gap >= 0, gap, room + 1).argmin())
        if gap[place] < 0:
            place = int(np.minimum(spare_room * numerals, spare_numerals * room).argmin())
            open_row[place], spare_room[place], spare_numerals[place] = count, room, numerals
            count += 1
        row_of[slot] = open_row[place]
        spare_room[place] -= size
        spare_numerals[place] -= many
    slots = np.argsort(row_of, kind="stable")
    row_starts = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=count))])
    return Filling(lengths, numbers, slots, row_starts, room)


def packed(filling: Filling, batch: int, seed: int, epoch: int) -> Plan:
    """Shuffled batches of packed rows: each epoch draws anew which examples of a size take its places, and
    shuffles the rows. The last batch may hold empty rows."""
    rng = np.random.default_rng([seed, epoch])
    drawn = np.lexsort((rng.random(len(filling.lengths)), filling.numbers, filling.lengths))
    rows = rng.permutation(len(filling.row_starts) - 1)
    counts = np.diff(filling.row_starts)[rows]
    members = drawn[filling.slots[ranges(filling.row_starts[:-1][rows], counts)]]
    batches = -(-len(rows) // batch)
    counts = np.concatenate([counts, np.zeros(batches * batch - len(rows), np.int64)])
    starts = np.concatenate([[0], np.cumsum(counts)])
    return Plan(members, starts, np.full(batches, filling.room, np.int64), batch)


def _by_length(lengths, sizes, batch, order):
    """(int64[batches, batch] of examples, −1 where empty; int64[batches] positions), short ones first."""
    bucket = np.searchsorted(sizes, np.asarray(lengths)[order])
    rows, lens, left = [], [], np.zeros(0, np.int64)
    for b, size in enumerate(sizes):
        mine = np.concatenate([left, order[bucket == b]])
        whole = len(mine) // batch * batch
        rows.append(mine[:whole].reshape(-1, batch))
        lens += [int(size)] * (whole // batch)
        left = mine[whole:]
    if len(left):
        rows.append(np.concatenate([left, np.full(batch - len(left), -1)])[None])
        # What is left over may all be short.
        lens.append(int(sizes[np.searchsorted(sizes, np.asarray(lengths)[left].max())]))
    return np.concatenate([np.zeros((0, batch), np.int64), *rows]), np.asarray(lens, np.int64)


def _plan(rows: np.ndarray, lengths: np.ndarray) -> Plan:
    flat = rows.reshape(-1)
    starts = np.concatenate([[0], np.cumsum(flat >= 0)])
    return Plan(flat[flat >= 0], starts, lengths, rows.shape[1])
