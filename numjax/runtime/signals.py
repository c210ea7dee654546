"""SIGTERM and SIGINT: inside the loop they save first, before and after it there is nothing to save."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import jax
from jax.experimental import multihost_utils

from numjax.errors import Preempted


class Signals:
    """SIGTERM and SIGINT ask for a stop; with several processes all agree on the step."""

    def __init__(self):
        self._asked = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if jax.process_count() == 1:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._ask)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number, frame):
        del number, frame
        self._asked = True

    def stop_at(self, step: int) -> bool:
        """Whether to stop before `step`."""
        if jax.process_count() > 1:
            return multihost_utils.reached_preemption_sync_point(step)
        return self._asked


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """SIGTERM raises Preempted here and now: around what comes before the loop and after it.

    With several processes JAX waits for SIGTERM, and the loop asks it.
    """
    if jax.process_count() > 1 or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        del number, frame
        raise Preempted("stopped; what was saved is kept: run the same command to go on")

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
