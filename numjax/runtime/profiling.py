"""A profiler trace of a few steps, on request."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import jax

from numjax.errors import UsageError


class Profiler:
    """Traces steps first … last − 1 of "first:last" into a folder for TensorBoard or Perfetto."""

    def __init__(self, steps: str, folder: pathlib.Path):
        """
        Raises:
          UsageError: `steps` is neither empty nor of the form first:last.
        """
        found = re.fullmatch(r"(\d+):(\d+)", steps) if steps else None
        if steps and (found is None or int(found[1]) >= int(found[2])):
            raise UsageError(f"config.profile_steps must look like 10:15, not {steps!r}")
        self._first, self._last = (int(found[1]), int(found[2])) if found else (-1, -1)
        self._folder, self._on = folder, False

    def before(self, step: int, state: Any) -> None:
        """Starts or ends the trace; waits for the device only at its two ends."""
        if step == self._first and not self._on:
            jax.block_until_ready(state)
            options = jax.profiler.ProfileOptions()
            # What the device does: frames of Python fill the trace and slow the steps.
            options.python_tracer_level = 0
            jax.profiler.start_trace(str(self._folder), profiler_options=options)
            self._on = True
        elif self._on and step >= self._last:
            self.close(state)

    def close(self, state: Any) -> None:
        """Ends a trace that is still on."""
        if self._on:
            jax.block_until_ready(state)
            jax.profiler.stop_trace()
            self._on = False
