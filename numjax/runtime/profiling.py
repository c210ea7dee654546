"""A profiler trace of a few steps, on request."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import jax

from numjax.errors import UsageError


class Profiler:
    """Writes a trace of the steps first … last − 1 of "first:last" to a folder, for TensorBoard or Perfetto."""

    def __init__(self, steps: str, folder: pathlib.Path):
        """
        Raises:
          UsageError: `steps` is neither empty nor of the form first:last.
        """
        match = re.fullmatch(r"(\d+):(\d+)", steps) if steps else None
        if steps and (match is None or int(match[1]) >= int(match[2])):
            raise UsageError(f"config.profile_steps must look like 10:15, not {steps!r}")
        self._first, self._last = (int(match[1]), int(match[2])) if match else (-1, -1)
        self._folder, self._on = folder, False

    def start_or_stop(self, step: int, state: Any) -> None:
        """Starts or ends the trace if this step is one of its ends; waits for the device only then."""
        if step == self._first and not self._on:
            jax.block_until_ready(state)
            options = jax.profiler.ProfileOptions()
            # Trace only the device: Python frames fill the trace and slow the steps.
            options.python_tracer_level = 0
            jax.profiler.start_trace(str(self._folder), profiler_options=options)
            self._on = True
        elif self._on and step >= self._last:
            self.close(state)

    def close(self, state: Any) -> None:
        """Ends the trace if it is running."""
        if self._on:
            jax.block_until_ready(state)
            jax.profiler.stop_trace()
            self._on = False
