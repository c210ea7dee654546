"""The numerals of a batch, each string once, in tables that groups of rows share.

A group is the rows of one microbatch on one device, so that no device needs another's table. All tables of a batch
have one width: the step of a ladder that holds the fullest table. As the numbers of a batch vary little, training
compiles only a few programs.

Legend: B rows, T positions, N numerals of a row, S groups, W width of a table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.pipeline.columns import Columns, ranges


class Groups(NamedTuple):
    """The groups of rows: one block per device, and in it every `accumulate`-th row belongs to one microbatch."""

    devices: int
    accumulate: int

    def group_rows(self, rows: int) -> np.ndarray:
        """int64[B], the group of each row; groups are in the order in which devices hold them.

        Raises:
          UsageError: the rows do not divide evenly.
        """
        if rows % (self.devices * self.accumulate):
            raise UsageError(
                f"data.shared: {rows} rows do not divide over {self.devices} devices × {self.accumulate} "
                "microbatches: change optim.batch_size, or set data.shared=False"
            )
        device = np.arange(rows) // (rows // self.devices)
        return device * self.accumulate + np.arange(rows) % self.accumulate


def count_needed(columns: Columns, members: np.ndarray, counts: np.ndarray, group_B: np.ndarray) -> int:
    """The largest number of distinct numerals in a group."""
    return int(np.bincount(_find_distinct(columns, members, counts, group_B)[0]).max(initial=0))


def choose_width(need: int, limit: int) -> int:
    """The width W ≥ `need` from 8, 12, 16, 24, 32, 48, …, but at most `limit` rounded up to a multiple of 8."""
    step = 8
    while step < need:
        step = step * 3 // 2 if step & (step - 1) == 0 else step * 4 // 3
    return min(step, -(-max(limit, 1) // 8) * 8)


def make_tables(
    numbers_BN: np.ndarray, index_BT: np.ndarray, group_B: np.ndarray, width: int
) -> tuple[np.ndarray, np.ndarray]:
    """(entries of the tables, int64[S, W], −1 if empty; each position's index in its table or −1, int32[B, T]).

    Args:
      numbers_BN: entries of `Columns.numerals`, −1 for none. index_BT: each position's numeral of its row, or −1.
      group_B: the group of each row.
    """
    is_present = numbers_BN >= 0
    groups = int(group_B.max(initial=0)) + 1
    large = int(numbers_BN.max(initial=0)) + 1
    keys, inverse = np.unique((group_B[:, None] * large + numbers_BN)[is_present], return_inverse=True)
    group, entry = keys // large, keys % large
    rank = np.arange(len(keys)) - np.searchsorted(group, np.arange(groups))[group]
    entries_SW = np.full((groups, width), -1, np.int64)
    entries_SW[group, rank] = entry
    rank_BN = np.full(numbers_BN.shape, -1, np.int32)
    rank_BN[is_present] = rank[inverse]
    rank_BT = np.take_along_axis(rank_BN, np.maximum(index_BT, 0), axis=1)
    return entries_SW, np.where(index_BT >= 0, rank_BT, -1).astype(np.int32)


def _find_distinct(columns: Columns, members: np.ndarray, counts: np.ndarray, group_B: np.ndarray):
    n_numbers = np.diff(columns.number_starts)[members]
    entries = columns.numbers[ranges(columns.number_starts[members], n_numbers)].astype(np.int64)
    row = np.repeat(np.arange(len(counts)), counts)
    large = int(entries.max(initial=0)) + 1
    keys = np.unique(np.repeat(group_B[row], n_numbers) * large + entries)
    return keys // large, keys % large
