"""Huge pages for large buffers, on hosts that compute.

XLA's CPU backend takes one block for all that a program computes on its way, anew at each call, and glibc gives such
a block straight back to the system. Each call so finds it empty and faults on every 4 KiB of it: a third of the
processor time of a small model's step. With pages of 2 MiB it is a tenth. Where the system gives them only to those
who ask ("madvise"), glibc (from 2.35) asks only if told so before the program starts.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import pathlib
import sys

TUNABLES = "GLIBC_TUNABLES"
ASK, REFUSE = "glibc.malloc.hugetlb=1", "glibc.malloc.hugetlb=0"
DEVICES, TPUS = pathlib.Path("/dev"), ("accel*", "vfio/*")
MODES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")


def ask() -> None:
    """Starts this program anew in its place, told to ask for huge pages, where that is of use: same process, same
    arguments. For programs' first lines: what was imported is imported again.

    Nothing is done where JAX has an accelerator, where the environment says something of malloc itself, where the
    system gives huge pages to all or to none, or inside another program, such as a notebook's %run.
    """
    told = os.environ.get(TUNABLES, "")
    by_user = "glibc.malloc" in told or any(name.startswith("MALLOC_") for name in os.environ)
    if by_user or not (_began_as_this() and _on_request() and _glibc() >= (2, 35) and _computes()):
        return
    environment = os.environ | {TUNABLES: ":".join(filter(None, (told, ASK)))}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def plain(environment: dict[str, str]) -> dict[str, str]:
    """The environment as it was before `ask` changed it, for programs of others."""
    left = [part for part in environment.get(TUNABLES, "").split(":") if part and part != ASK]
    rest = {name: value for name, value in environment.items() if name != TUNABLES}
    return rest | ({TUNABLES: ":".join(left)} if left else {})


def _computes() -> bool:
    """Whether JAX will run on this host's processor, as far as can be told before it is imported."""
    if platforms := os.environ.get("JAX_PLATFORMS", ""):
        return platforms == "cpu"
    # The TPU compiler alone, for plans, is no TPU.
    tpu = importlib.util.find_spec("libtpu") is not None and any(next(DEVICES.glob(kind), None) for kind in TPUS)
    return not tpu and not importlib.metadata.entry_points(group="jax_plugins")


def _began_as_this() -> bool:
    """Whether the process was started to run what is __main__ now: `python -m MODULE`, `python FILE` or a script."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    name = spec.name if spec else getattr(main, "__file__", None)
    if not sys.executable or not name:
        return False
    return any(word == name or os.path.abspath(word) == name for word in sys.orig_argv[1:])


def _on_request() -> bool:
    try:
        return "[madvise]" in MODES.read_text()
    except OSError:  # not Linux, or none of its huge pages
        return False


def _glibc() -> tuple[int, ...]:
    """(2, 36) or the like; () where the C library is another."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return tuple(map(int, version.split("."))) if name == "glibc" else ()
    except (AttributeError, OSError, ValueError):
        return ()
