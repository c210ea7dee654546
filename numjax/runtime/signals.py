"""Handles SIGTERM and SIGINT in the training loop: the run saves first. `stop.py` handles them elsewhere."""

from __future__ import annotations

import os
import signal
from typing import Any

import jax
from jax.experimental import multihost_utils

from numjax.errors import Preempted


class Signals:
    """Notes that SIGTERM or SIGINT asks for a stop; with several processes, all agree on the step.

    A signal that the loop did not answer, since it ended or failed first, goes to the handlers from before when the
    block ends. Otherwise a loop that diverges would lose it, and the next seed would be trained.
    """

    def __init__(self):
        self._requested: int | None = None
        self._old_handlers: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        if jax.process_count() == 1:
            for number in (signal.SIGTERM, signal.SIGINT):
                self._old_handlers[number] = signal.signal(number, self._request_stop)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)
        has_stopped = kind is not None and issubclass(kind, Preempted)
        if self._requested is not None and not has_stopped:
            os.kill(os.getpid(), self._requested)

    def _request_stop(self, number, frame):
        del frame
        self._requested = number

    def stop_at(self, step: int) -> bool:
        """Whether to stop before `step`."""
        if jax.process_count() > 1:
            return multihost_utils.reached_preemption_sync_point(step)
        return self._requested is not None
