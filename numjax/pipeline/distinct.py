"""The numerals of a batch, each string once: tables that groups of rows share.

A group is the rows that one device reads of one microbatch, so that a batch on one device is one group, and no device
needs another's table. All tables of a batch have one width, taken from a ladder that the fullest decides on: as the
numbers of a batch vary little, training runs with a few programs.

Legend: B rows, T positions, N numerals of a row, S groups, W width of a table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.pipeline.columns import Columns, ranges


class Groups(NamedTuple):
    """How rows are grouped: a block for each of `devices`, and in it every `accumulate`-th row for a microbatch."""

    devices: int
    accumulate: int

    def of_rows(self, rows: int) -> np.ndarray:
        """int64[B], the group of each row; groups are in the order in which devices hold them.

        Raises:
          UsageError: the rows do not divide.
        """
        if rows % (self.devices * self.accumulate):
            raise UsageError(
                f"data.shared: {rows} rows do not divide over {self.devices} devices × {self.accumulate} "
                "microbatches: change optim.batch_size, or set data.shared=False"
            )
        device = np.arange(rows) // (rows // self.devices)
        return device * self.accumulate + np.arange(rows) % self.accumulate


def needed(columns: Columns, members: np.ndarray, counts: np.ndarray, group_B: np.ndarray) -> int:
    """The most distinct numerals that a group has."""
    return int(np.bincount(_distinct(columns, members, counts, group_B)[0]).max(initial=0))


def width(need: int, most: int) -> int:
    """W of at least `need`: 8, 12, 16, 24, 32, 48, …, and no more than `most` rounded up to 8."""
    step = 8
    while step < need:
        step = step * 3 // 2 if step & (step - 1) == 0 else step * 4 // 3
    return min(step, -(-max(most, 1) // 8) * 8)


def tables(
    numbers_BN: np.ndarray, index_BT: np.ndarray, group_B: np.ndarray, wide: int
) -> tuple[np.ndarray, np.ndarray]:
    """(the entry of each place of each table, int64[S, W], −1 in empty ones; each position's place, int32[B, T]).

    Args:
      numbers_BN: entries of `Columns.numerals`, −1 for none. index_BT: each position's numeral of its row, or −1.
    """
    there = numbers_BN >= 0
    groups = int(group_B.max(initial=0)) + 1
    large = int(numbers_BN.max(initial=0)) + 1
    keys, inverse = np.unique((group_B[:, None] * large + numbers_BN)[there], return_inverse=True)
    group, entry = keys // large, keys % large
    place = np.arange(len(keys)) - np.searchsorted(group, np.arange(groups))[group]
    found = np.full((groups, wide), -1, np.int64)
    found[group, place] = entry
    place_BN = np.full(numbers_BN.shape, -1, np.int32)
    place_BN[there] = place[inverse]
    at = np.take_along_axis(place_BN, np.maximum(index_BT, 0), axis=1)
    return found, np.where(index_BT >= 0, at, -1).astype(np.int32)


def _distinct(columns: Columns, members: np.ndarray, counts: np.ndarray, group_B: np.ndarray):
    many = np.diff(columns.number_starts)[members]
    entries = columns.numbers[ranges(columns.number_starts[members], many)].astype(np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    large = int(entries.max(initial=0)) + 1
    keys = np.unique(np.repeat(group_B[row], many) * large + entries)
    return keys // large, keys % large
