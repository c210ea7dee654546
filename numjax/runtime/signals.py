"""Handles SIGTERM and SIGINT: inside the loop the run saves first; outside it there is nothing to save."""

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
    """Notes that SIGTERM or SIGINT asks for a stop; with several processes, all agree on the step."""

    def __init__(self):
        self._stop_requested = False
        self._old_handlers: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if jax.process_count() == 1:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._old_handlers[number] = signal.signal(number, self._request_stop)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def _request_stop(self, number, frame):
        del number, frame
        self._stop_requested = True

    def stop_at(self, step: int) -> bool:
        """Whether to stop before `step`."""
        if jax.process_count() > 1:
            return multihost_utils.reached_preemption_sync_point(step)
        return self._stop_requested


@contextlib.contextmanager
def stop_immediately() -> Iterator[None]:
    """Makes SIGTERM raise Preempted immediately, for the code before and after the loop.

    With several processes it does nothing: JAX waits for SIGTERM, and the loop asks JAX.
    """
    if jax.process_count() > 1 or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number, frame):
        del number, frame
        raise Preempted("stopped; what was saved is kept: run the same command to go on")

    old_handler = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, old_handler)
