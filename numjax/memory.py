"""Large buffers that stay with the process, on hosts that compute.

XLA's CPU backend takes one block for all that a program computes on its way, anew at each call. The C library gives
such a block straight back to the system, so that each call finds it empty and faults on every page of it: of the
processor time of a small training step that was up to two fifths.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os

import jax

# Of glibc's mallopt(3).
TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8
NEVER = -1


def keep() -> bool:
    """Lets glibc keep what is freed for the next one who asks. Call before any JAX work; later it does nothing good.

    Nothing is changed where JAX has an accelerator, on other C libraries, or where the environment says something of
    malloc itself (MALLOC_… or GLIBC_TUNABLES).

    Returns:
      whether it was changed.
    """
    told = any(name.startswith("MALLOC_") for name in os.environ)
    if told or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", "") or not _computes():
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    # A thread's own arena cannot hold large blocks and would map them after all: one arena for all threads.
    options = ((MMAP_MAX, 0), (TRIM_THRESHOLD, NEVER), (ARENA_MAX, 1))
    return mallopt is not None and all(mallopt(option, value) == 1 for option, value in options)


def _computes() -> bool:
    """Whether JAX will run on this host's processor, as far as can be told before it starts."""
    platforms = jax.config.jax_platforms  # type: ignore[attr-defined]
    if platforms:
        return platforms == "cpu"
    return not importlib.metadata.entry_points(group="jax_plugins") and importlib.util.find_spec("libtpu") is None
