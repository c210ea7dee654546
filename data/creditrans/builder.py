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
from .generate import rows as generated
from .read import BACKWARDS, WINDOW, Transaction, Window, table, together, transaction, unused, windows

SPLITTING = ("random", "time", "user")
SHARES = (0.6, 0.2, 0.2)  # the paper's, of train, validation and test
BLOCK = ("train", "train", "train", "validation", "test")  # the same of whole windows or users


class Creditrans(ArrayRecordBuilder):
    """Options: `path` of the table (.csv or .csv.gz) or of its folder, or empty for the stand-in; `by`: windows at
    "random" (as in the paper; of those with a fraud as large a share each), by "time" of the last row (where they
    overlap without those on both sides of a cut, which would share rows), or by "user", which takes five or more;
    `stride` from one window to the next, 10 (none overlap) or 5; `users` of the stand-in; `size`, at most so many
    windows (0: all); `seed` of the split and of the stand-in."""

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
        return [files.one_of(options["path"], patterns, "set path to TabFormer's CSV")] if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        where, across, back, counts, users = self._splitter(), 0, 0, collections.Counter(), set()
        for window in self._windows(self._counted(counts)):
            users.add(window.user)
            split = where(window)
            if split is None:
                across += 1
                continue
            record = window.record(self.name)
            if window.backwards:
                self.mend(record["id"], BACKWARDS)
                back += 1
            yield split, record
        if back:
            print(f"{self.name}: in {back:,} windows {BACKWARDS}", file=sys.stderr, flush=True)
        if max(counts.values(), default=0) < WINDOW:
            raise DataError(f"{self.name}: no user has {WINDOW} usable rows in a row{self._first_skip()}")
        if self.options["by"] == "user" and len(users) < len(BLOCK):
            among = f" among the first {self.options['size']:,} windows" if self.options["size"] else ""
            raise DataError(
                f"{self.name}: by=user needs {len(BLOCK)} users or more with {WINDOW} rows each, and there are "
                f"{len(users)}{among}: give {len(BLOCK)} or more, or another by"
            )
        if across:
            self.remark(self.name, f"{across:,} windows on both sides of a cut in time are left out")
        stride = self.options["stride"]
        # Under `size` the rows behind the last window are not asked for.
        if not self.options["size"] and (rest := sum(unused(count, stride) for count in counts.values())):
            self.remark(
                self.name,
                f"{rest:,} of {counts.total():,} usable rows, users' last ones, are in no window",
            )

    def _counted(self, counts: collections.Counter[int]) -> Iterator[Transaction]:
        """The rows, those left out told, the others counted by user."""
        for row in self._rows(self.skip):
            counts[row.user] += 1
            yield row

    def _windows(self, rows: Iterable[Transaction]) -> Iterator[Window]:
        size = self.options["size"]
        return itertools.islice(windows(rows, self.options["stride"]), size or None)

    def _rows(self, skip: Callable[[str, str], None]) -> Iterator[Transaction]:
        return together(self._read(skip), self.options["path"])

    def _read(self, skip: Callable[[str, str], None]) -> Iterator[tuple[int, Transaction]]:
        paths = self.files(self.options)
        if paths:
            source = table(paths[0])
        else:
            source = enumerate(generated(self.options["users"], self.options["seed"]), 2)
        for line, cells in source:
            try:
                if isinstance(cells, ValueError):
                    raise cells
                yield line, transaction(cells)
            except ValueError as error:
                skip(f"{self.name}-line-{line}", str(error))

    def _splitter(self) -> Callable[[Window], str | None]:
        by, seed = self.options["by"], self.options["seed"]
        if by == "time":
            return self._by_time()
        dealt = [_dealt(np.random.default_rng([seed, label])) for label in (0, 1)]
        if by == "random":
            return lambda window: next(dealt[window.label])
        known: dict[int, str] = {}

        def by_user(window: Window) -> str:
            if window.user not in known:
                known[window.user] = next(dealt[0])
            return known[window.user]

        return by_user

    def _by_time(self) -> Callable[[Window], str | None]:
        # A pass of its own: where the last fifth begins is known at the end only. Bad rows are named in the next.
        ends = array.array("q", (_end(window) for window in self._windows(self._rows(lambda *_: None))))
        if not ends:  # nothing will be asked for
            return lambda window: "train"
        cuts = np.quantile(np.frombuffer(ends, np.int64), np.cumsum(SHARES)[:2], method="higher")

        def by_time(window: Window) -> str | None:
            begin, end = np.searchsorted(cuts, [min(row.seconds for row in window.rows), _end(window)], side="right")
            overlap = self.options["stride"] < WINDOW
            return None if overlap and begin < end else SPLITS[int(end)]

        return by_time


def _dealt(rng: np.random.Generator) -> Iterator[str]:
    """The splits of a `BLOCK` in random order, then those of the next."""
    while True:
        yield from rng.permutation(BLOCK).tolist()


def _end(window: Window) -> int:
    """When the last of its rows was."""
    return max(row.seconds for row in window.rows)


Builder = Creditrans
