"""CrediTrans: windows of a user's card transactions, and whether one of them is a fraud."""

from __future__ import annotations

import array
import json
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from numjax.errors import UsageError

from .. import files
from ..builder import ArrayRecordBuilder
from ..sampling import SPLITS
from .generate import rows as generated
from .read import WINDOW, Transaction, Window, table, transaction, windows

SPLITTING = ("random", "time", "user")
SHARES = (0.6, 0.2, 0.2)  # the paper's, of train, validation and test


class Creditrans(ArrayRecordBuilder):
    """Options: `path` of the table (.csv or .csv.gz) or of its folder, or empty for the stand-in; `by`: windows at
    "random" (as in the paper; of those with a fraud as large a share each), by "time" of the last row, or by "user";
    `stride` from one window to the next, 10 (none overlap) or 5; `users` of the stand-in; `size`, at most so many
    windows (0: all); `seed` of the split and of the stand-in."""

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
        where = self._splitter()
        for window in self._windows(self.skip):
            name = f"{self.name}-{window.user:04d}-{window.first:06d}"
            yield (
                where(window),
                {
                    "id": name,
                    "user": window.user,
                    "first": window.first,
                    "rows": json.dumps([row.cells for row in window.rows], separators=(",", ":"), ensure_ascii=False),
                    "frauds": "".join("01"[row.fraud] for row in window.rows),
                    "label": window.label,
                },
            )

    def _windows(self, skip: Callable[[str, str], None]) -> Iterator[Window]:
        size = self.options["size"]
        for count, window in enumerate(windows(self._rows(skip), self.options["stride"])):
            if size and count == size:
                return
            yield window

    def _rows(self, skip: Callable[[str, str], None]) -> Iterator[Transaction]:
        paths = self.files(self.options)
        if paths:
            source = table(paths[0])
        else:
            source = enumerate(generated(self.options["users"], self.options["seed"]), 2)
        for line, cells in source:
            try:
                yield transaction(cells)
            except ValueError as error:
                skip(f"{self.name}-line-{line}", str(error))

    def _splitter(self) -> Callable[[Window], str]:
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

    def _by_time(self) -> Callable[[Window], str]:
        # A pass of its own: where the last fifth begins is known at the end only. Bad rows are named in the next.
        ends = array.array("q", (_end(window) for window in self._windows(lambda *_: None)))
        if not ends:  # nothing will be asked for
            return lambda window: "train"
        cuts = np.quantile(np.frombuffer(ends, np.int64), np.cumsum(SHARES)[:2], method="higher")
        return lambda window: SPLITS[int(np.searchsorted(cuts, _end(window), side="right"))]


def _dealt(rng: np.random.Generator) -> Iterator[str]:
    """Three to train, one each to validation and test, in random order; then the next five."""
    while True:
        yield from rng.permutation(["train", "train", "train", "validation", "test"]).tolist()


def _end(window: Window) -> int:
    """When the last of its rows was."""
    return max(row.seconds for row in window.rows)


Builder = Creditrans
