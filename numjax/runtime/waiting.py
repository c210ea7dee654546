"""Lines about waits that would otherwise be silent: what takes so long, and how far it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from numjax.runtime import log

PATIENCE = 3.0  # seconds before the first line; a shorter wait prints none
INTERVAL = 8.0  # seconds between the lines of a wait that counts

Item = TypeVar("Item")


class Wait:
    """A context that prints a line to stderr (process 0) if it lasts longer than `PATIENCE`, and further lines later.

    With a total, a line comes every `INTERVAL` seconds. Without one, each line comes after twice the time of the
    line before.

    Args:
      purpose: what is going on, such as "scoring test".
      total: how many units there are; 0 if they are not counted.
      unit: what is counted, such as "rows".
    """

    def __init__(self, purpose: str, total: int = 0, unit: str = ""):
        self._purpose, self._total, self._unit = purpose, total, unit
        self._n_done, self._is_over, self._is_printing = 0, threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def __enter__(self) -> Wait:
        self._start = time.monotonic()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Not joined, which would delay every wait; but no line is printed from here on.
        with self._is_printing:
            self._is_over.set()

    def count(self, items: Iterable[Item], size: int = 1) -> Iterator[Item]:
        """Yields the items. Each counts as `size` units that are done when the next one is asked for."""
        for item in items:
            yield item
            self.add(size)

    def add(self, count: int) -> None:
        """So many more units are done."""
        self._n_done = min(self._n_done + count, self._total)

    def _print_lines(self) -> None:
        pause = PATIENCE
        while not self._is_over.wait(pause):
            seconds = time.monotonic() - self._start
            share = f" {self._n_done:,} of {self._total:,} {self._unit}," if self._total else ""
            with self._is_printing:
                if not self._is_over.is_set():
                    log.say(f"{self._purpose}:{share} {log.format_duration(seconds)} so far")
            pause = INTERVAL if self._total else seconds
