"""Plans of an epoch: which examples go into which row of which batch. They are pure functions of the lengths, a seed
and the epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.pipeline.columns import ranges

# A further bucket needs one more compilation: it must save this share of all positions.
LEAST_GAIN = 0.05
_OPEN = 64


class EpochPlan(NamedTuple):
    """The batches of one epoch. Every example is in exactly one row.

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

    def rows(self, batch: int, slices: Sequence[int] = (0,), parts: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """(examples row after row, how many each row holds) of a batch, or of some of `parts` equal slices of it.

        Raises:
          UsageError: the batch has no such slices.
        """
        if self.size % parts:
            raise UsageError(f"a batch of {self.size} rows does not divide over {parts}")
        share = self.size // parts
        rows = (np.asarray(slices)[:, None] * share + np.arange(share)).ravel() + batch * self.size
        counts = self.row_starts[rows + 1] - self.row_starts[rows]
        return self.members[ranges(self.row_starts[rows], counts)], counts


class Filling(NamedTuple):
    """Rows filled only by size: `slots` are indices into the examples sorted by (length, numbers).

    Examples of one size are interchangeable, so one filling serves all epochs, and all epochs have the same number of
    rows.

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


def round_up(count: int, least: int) -> int:
    """The first of least · (1, 1.5, 2, 3, 4, 6, 8, …) that holds the count, beyond 512 the first multiple of 256.

    So texts of all lengths need few compilations, and a third of a shape at most, or `least`, is padding.
    """
    if count > 512:
        return -(-count // 256) * 256
    half = least
    while 2 * half < count:
        half *= 2
    return next(size for size in (least, half * 3 // 2, 2 * half) if size >= count)


def choose_buckets(lengths: np.ndarray, limit: int = 4, multiple: int = 8, longest: int | None = None) -> list[int]:
    """At most `limit` lengths that hold every row with the least padding: multiples of `multiple`, but none above
    `longest`. Fewer if a further one would save less than 5% of all positions."""
    rounded = -(-np.maximum(lengths, 1) // multiple) * multiple
    if longest is not None:
        rounded = np.minimum(rounded, longest)
    values, counts = np.unique(rounded, return_counts=True)
    if not len(values):
        return [multiple if longest is None else min(multiple, longest)]
    cumulative = np.concatenate([[0], np.cumsum(counts)])
    # cost[j]: least positions of the rows of the first j values; last[k][j]: where its k-th bucket begins.
    cost = np.concatenate([[0.0], cumulative[1:] * values])
    last = [np.zeros(len(values) + 1, np.int64)]
    while len(last) < min(limit, len(values)):
        choices = [cost[:j] + (cumulative[j] - cumulative[:j]) * values[j - 1] for j in range(1, len(values) + 1)]
        begin = np.asarray([0, *(int(c.argmin()) for c in choices)])
        new_cost = np.asarray([0.0, *(c.min() for c in choices)])
        if cost[-1] - new_cost[-1] < LEAST_GAIN * cost[-1]:
            break
        cost = new_cost
        last.append(begin)
    lengths_chosen, end = [], len(values)
    for begin in reversed(last):
        lengths_chosen.append(int(values[end - 1]))
        end = int(begin[end])
    return lengths_chosen[::-1]


def pair_buckets(
    lengths: np.ndarray,
    other_lengths: np.ndarray,
    limit: int = 4,
    longest: int | None = None,
    longest_other: int | None = None,
) -> tuple[np.ndarray, dict[int, tuple[int, ...]]]:
    """(the length that selects a row's bucket, bucket → both lengths), for rows with two lengths.

    There are at most `limit` shapes. The buckets are those of the length that leaves less padding in total.
    """
    candidates = []
    for first, key, bound in ((0, lengths, longest), (1, other_lengths, longest_other)):
        sizes = choose_buckets(key, limit, longest=bound)
        shapes = find_shapes(key, sizes, (lengths, other_lengths), (longest, longest_other))
        shapes = {size: tuple(size if i == first else room for i, room in enumerate(shapes[size])) for size in sizes}
        per_bucket = np.bincount(np.searchsorted(sizes, key), minlength=len(sizes))
        cost = sum(int(count) * sum(shapes[size]) for count, size in zip(per_bucket, sizes, strict=True))
        candidates.append((cost, first, key, shapes))
    _, _, key, shapes = min(candidates, key=lambda candidate: candidate[:2])
    return key, shapes


def find_shapes(
    keys: np.ndarray, sizes: Sequence[int], lengths: Sequence[np.ndarray], longest: Sequence[int | None]
) -> dict[int, tuple[int, ...]]:
    """Bucket → the positions of its rows, for each of several lengths: those of the longest row of this bucket or of
    a shorter one, since leftover rows move up, as a multiple of 8.

    Args:
      keys: of each row, the number that selects its bucket. sizes: ascending, the largest key of each bucket.
      lengths: of each row, several. longest: bounds, one for each.
    """
    bucket, rooms = np.searchsorted(sizes, keys), []
    for own, bound in zip(lengths, longest, strict=True):
        room = np.zeros(len(sizes), np.int64)
        np.maximum.at(room, bucket, own)
        room = np.maximum.accumulate(-(-np.maximum(room, 1) // 8) * 8)
        rooms.append(room if bound is None else np.minimum(room, bound))
    return {int(size): tuple(int(room[i]) for room in rooms) for i, size in enumerate(sizes)}


def plan_buckets(lengths: np.ndarray, sizes: Sequence[int], batch: int, seed: int, epoch: int) -> EpochPlan:
    """Shuffled batches of similar lengths, one example per row.

    Rows that do not fill a batch of their bucket move to the next larger bucket; at most one batch holds empty rows.

    Args:
      sizes: ascending lengths, the last no shorter than the longest example.
      batch: rows of a batch.
    """
    rng = np.random.default_rng([seed, epoch])
    rows, lens = _batch_by_length(lengths, sizes, batch, rng.permutation(len(lengths)))
    shuffled = rng.permutation(len(rows))
    return _make_plan(rows[shuffled], lens[shuffled])


def plan_sequential(lengths: np.ndarray, sizes: Sequence[int], batch: int) -> EpochPlan:
    """Every example once, one per row, short ones first and otherwise in order; only the last batch may hold empty
    rows. Arguments as in `plan_buckets`."""
    return _make_plan(*_batch_by_length(lengths, sizes, batch, np.arange(len(lengths))))


def fill_rows(lengths: np.ndarray, numbers: np.ndarray, room: int, numerals: int) -> Filling:
    """Rows of at most `room` positions and `numerals` numerals, filled by best fit.

    Raises:
      UsageError: an example is larger than a row.
    """
    lengths, numbers = np.asarray(lengths), np.asarray(numbers)
    if len(lengths) and (lengths.max() > room or numbers.max() > numerals):
        raise UsageError(
            f"an example of {lengths.max()} positions and {numbers.max()} numbers does not fit a packed row of "
            f"{room} positions and {numerals} numbers: raise data.length"
        )
    # Examples come in random order, so that short ones are available for every gap and numbers spread evenly. Only
    # _OPEN rows are open at once; the fullest one is closed for a new row.
    spare_room, spare_numerals = np.zeros(_OPEN, np.int64), np.zeros(_OPEN, np.int64)
    open_row = np.full(_OPEN, -1, np.int64)
    row_of, count = np.zeros(len(lengths), np.int64), 0
    order = np.lexsort((numbers, lengths))
    for slot in np.random.default_rng(0).permutation(len(lengths)).tolist():
        size, n_numbers = lengths[order[slot]], numbers[order[slot]]
        gap = np.where(spare_numerals >= n_numbers, spare_room - size, -1)
        best = int(np.where(gap >= 0, gap, room + 1).argmin())
        if gap[best] < 0:
            best = int(np.minimum(spare_room * numerals, spare_numerals * room).argmin())
            open_row[best], spare_room[best], spare_numerals[best] = count, room, numerals
            count += 1
        row_of[slot] = open_row[best]
        spare_room[best] -= size
        spare_numerals[best] -= n_numbers
    slots = np.argsort(row_of, kind="stable")
    row_starts = np.concatenate([[0], np.cumsum(np.bincount(row_of, minlength=count))])
    return Filling(lengths, numbers, slots, row_starts, room)


def plan_packed(filling: Filling, batch: int, seed: int, epoch: int) -> EpochPlan:
    """Shuffled batches of packed rows: each epoch assigns the examples of a size to its slots at random, and shuffles
    the rows. The last batch may hold empty rows."""
    rng = np.random.default_rng([seed, epoch])
    order = np.lexsort((rng.random(len(filling.lengths)), filling.numbers, filling.lengths))
    rows = rng.permutation(len(filling.row_starts) - 1)
    counts = np.diff(filling.row_starts)[rows]
    members = order[filling.slots[ranges(filling.row_starts[:-1][rows], counts)]]
    batches = -(-len(rows) // batch)
    counts = np.concatenate([counts, np.zeros(batches * batch - len(rows), np.int64)])
    starts = np.concatenate([[0], np.cumsum(counts)])
    return EpochPlan(members, starts, np.full(batches, filling.room, np.int64), batch)


def _batch_by_length(lengths, sizes, batch, order):
    """(examples, int64[batches, batch], −1 for empty rows; positions, int64[batches]), short ones first."""
    bucket = np.searchsorted(sizes, np.asarray(lengths)[order])
    rows, lens, leftover = [], [], np.zeros(0, np.int64)
    for b, size in enumerate(sizes):
        candidates = np.concatenate([leftover, order[bucket == b]])
        n_full = len(candidates) // batch * batch
        rows.append(candidates[:n_full].reshape(-1, batch))
        lens += [int(size)] * (n_full // batch)
        leftover = candidates[n_full:]
    if len(leftover):
        rows.append(np.concatenate([leftover, np.full(batch - len(leftover), -1)])[None])
        # The leftover rows may all be short.
        lens.append(int(sizes[np.searchsorted(sizes, np.asarray(lengths)[leftover].max())]))
    return np.concatenate([np.zeros((0, batch), np.int64), *rows]), np.asarray(lens, np.int64)


def _make_plan(rows: np.ndarray, lengths: np.ndarray) -> EpochPlan:
    flat = rows.reshape(-1)
    starts = np.concatenate([[0], np.cumsum(flat >= 0)])
    return EpochPlan(flat[flat >= 0], starts, lengths, rows.shape[1])
