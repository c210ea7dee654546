"""CrediTrans: windows of a user's card transactions, and whether one of them is a fraud."""

from __future__ import annotations

import array
import collections
import itertools
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from numjax.errors import DataError, UsageError

from .. import files
from ..builder import ArrayRecordBuilder
from ..sampling import SPLITS
from .generate import generate_rows as generate_stand_in
from .read import (
    BACKWARDS,
    WINDOW,
    Transaction,
    Window,
    check_user_order,
    count_unused,
    make_windows,
    parse_transaction,
    read_table,
)

SPLITTING = ("random", "time", "user")
SHARES = (0.6, 0.2, 0.2)  # the paper's, of train, validation and test
BLOCK = ("train", "train", "train", "validation", "test")  # the same shares in whole windows or users


class Creditrans(ArrayRecordBuilder):
    """Options: `path` of the table (.csv or .csv.gz) or of its folder, or empty for the stand-in; `by`, how windows
    are split: at "random" (as in the paper; each split has the same share of windows with a fraud), by "time" of the
    last row (if windows overlap, those on both sides of a cut are left out, since they would share rows), or by
    "user", which needs five or more; `stride` from one window to the next, 10 (none overlap) or 5; `users` of the
    stand-in; `size`, at most this many windows (0: all); `seed` of the split and of the stand-in."""

    VERSION = tfds.core.Version("1.1.0")
    FIELDS = {"id": str, "user": int, "first": int, "rows": str, "frauds": str, "label": int}
    OPTIONS = {"path": "", "by": "random", "stride": WINDOW, "users": 50, "size": 0, "seed": 0}
    KEYS = {"window": ("user", "first"), "user": ("user",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["by"] not in SPLITTING:
            raise UsageError(f"{cls.name}: by={options['by']!r} is none of {', '.join(SPLITTING)}")
        if not 1 <= options["stride"] <= WINDOW:
            raise UsageError(
                f"{cls.name}: stride={options['stride']} must be from 1 to {WINDOW}, the rows of a window"
            )
        if options["users"] < 1 or options["size"] < 0:
            raise UsageError(f"{cls.name}: users must be at least 1, and size not negative; 0 takes all windows")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        patterns = [
            "*transactions*.csv",
            "*transactions*.csv.gz",
            "card_transaction*.csv",
            "card_transaction*.csv.gz",
        ]
        return [files.find_one(options["path"], patterns, "set path to TabFormer's CSV")] if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        find_split, n_across, n_backwards, counts, users = self._choose_splitter(), 0, 0, collections.Counter(), set()
        for window in self._make_windows(self._count_rows(counts)):
            users.add(window.user)
            split = find_split(window)
            if split is None:
                n_across += 1
                continue
            record = window.record(self.name)
            if window.is_backwards:
                self.mend(record["id"], BACKWARDS)
                n_backwards += 1
            yield split, record
        if n_backwards:
            print(f"{self.name}: in {n_backwards:,} windows {BACKWARDS}", file=sys.stderr, flush=True)
        if max(counts.values(), default=0) < WINDOW:
            raise DataError(f"{self.name}: no user has {WINDOW} usable rows in a row{self._first_skip()}")
        if self.options["by"] == "user" and len(users) < len(BLOCK):
            scope = f" among the first {self.options['size']:,} windows" if self.options["size"] else ""
            raise DataError(
                f"{self.name}: by=user needs {len(BLOCK)} users or more with {WINDOW} rows each, and there are "
                f"{len(users)}{scope}: give {len(BLOCK)} or more, or another by"
            )
        if n_across:
            self.remark(self.name, f"{n_across:,} windows on both sides of a cut in time are left out")
        stride = self.options["stride"]
        # With `size` the rows after the last window are never read.
        if not self.options["size"] and (n_unused := sum(count_unused(count, stride) for count in counts.values())):
            self.remark(
                self.name,
                f"{n_unused:,} of {counts.total():,} usable rows, users' last ones, are in no window",
            )

    def _count_rows(self, counts: collections.Counter[int]) -> Iterator[Transaction]:
        """Yields the rows and counts them by user; reports rows that are left out."""
        for row in self._order_rows(self.skip):
            counts[row.user] += 1
            yield row

    def _make_windows(self, rows: Iterable[Transaction]) -> Iterator[Window]:
        size = self.options["size"]
        return itertools.islice(make_windows(rows, self.options["stride"]), size or None)

    def _order_rows(self, skip: Callable[[str, str], None]) -> Iterator[Transaction]:
        return check_user_order(self._read_rows(skip), self.options["path"])

    def _read_rows(self, skip: Callable[[str, str], None]) -> Iterator[tuple[int, Transaction]]:
        paths = self.files(self.options)
        if paths:
            source = read_table(paths[0])
        else:
            source = enumerate(generate_stand_in(self.options["users"], self.options["seed"]), 2)
        for line, cells in source:
            try:
                if isinstance(cells, ValueError):
                    raise cells
                yield line, parse_transaction(cells)
            except ValueError as error:
                skip(f"{self.name}-line-{line}", str(error))

    def _choose_splitter(self) -> Callable[[Window], str | None]:
        by, seed = self.options["by"], self.options["seed"]
        if by == "time":
            return self._split_by_time()
        deals = [_deal_splits(np.random.default_rng([seed, label])) for label in (0, 1)]
        if by == "random":
            return lambda window: next(deals[window.label])
        split_by_user: dict[int, str] = {}

        def find_split(window: Window) -> str:
            if window.user not in split_by_user:
                split_by_user[window.user] = next(deals[0])
            return split_by_user[window.user]

        return find_split

    def _split_by_time(self) -> Callable[[Window], str | None]:
        # A first pass finds the cuts, which are known only at its end. The second pass reports bad rows.
        end_times = array.array(
            "q", (_find_end_time(window) for window in self._make_windows(self._order_rows(lambda *_: None)))
        )
        if not end_times:  # there are no windows to split
            return lambda window: "train"
        cuts = np.quantile(np.frombuffer(end_times, np.int64), np.cumsum(SHARES)[:2], method="higher")

        def find_split(window: Window) -> str | None:
            first_side, last_side = np.searchsorted(
                cuts, [min(row.seconds for row in window.rows), _find_end_time(window)], side="right"
            )
            has_overlap = self.options["stride"] < WINDOW
            return None if has_overlap and first_side < last_side else SPLITS[int(last_side)]

        return find_split


def _deal_splits(rng: np.random.Generator) -> Iterator[str]:
    """Yields the splits of a `BLOCK` in random order, then those of the next block."""
    while True:
        yield from rng.permutation(BLOCK).tolist()


def _find_end_time(window: Window) -> int:
    """The time of the window's last row, in seconds since 1970."""
    return max(row.seconds for row in window.rows)


Builder = Creditrans
