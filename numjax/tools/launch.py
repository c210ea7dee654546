"""python -m numjax.tools.launch --processes=4 --config=… --workdir=… …: one run in several processes of this machine.

What is not listed here goes to `python -m numjax.main`. Process 0 speaks; what another one says first comes behind
its number. When one ends with an error, the rest are stopped and its exit code is returned; SIGTERM and Ctrl-C
reach all of them, and all save the same step. Run the same command to go on.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from numjax.errors import DataError, Diverged, Preempted, UsageError
from numjax.tools.command import Parser

GRACE = 45.0  # seconds for the others to find out by themselves that one is gone
PATIENCE = 600.0  # seconds for a save after SIGTERM


def environment(index: int, count: int, port: int, devices: int) -> dict[str, str]:
    """What process `index` of `count` finds in its environment; it sees `devices` devices of its own."""
    mine = range(index * devices, (index + 1) * devices)
    return dict(os.environ) | {
        "NUMJAX_COORDINATOR": f"localhost:{port}",
        "NUMJAX_PROCESSES": str(count),
        "NUMJAX_PROCESS": str(index),
        "JAX_NUM_CPU_DEVICES": str(devices),  # CPU
        "JAX_LOCAL_DEVICE_IDS": ",".join(map(str, mine)),  # GPU
    }


def main(words: Sequence[str] | None = None) -> int:
    """Starts the processes and waits for them; returns the run's exit code.

    Raises:
      UsageError: bad flags.
    """
    made = Parser(
        prog="python -m numjax.tools.launch", description=(__doc__ or "").partition(": ")[2], allow_abbrev=False
    )
    made.add_argument("--processes", type=int, default=2)
    made.add_argument("--devices", type=int, default=1, help="of each process (default: 1)")
    made.add_argument("--module", default="numjax.main", help="what to start instead, with the same flags")
    options, rest = made.parse_known_args(words)
    if options.processes < 1 or options.devices < 1:
        raise UsageError("--processes and --devices must be at least 1")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", options.module, "--distributed", *rest]
    environments = [environment(i, options.processes, port, options.devices) for i in range(options.processes)]
    with _Processes(command, environments) as processes:
        return processes.wait()


def _cause(code: int) -> int:
    """A rank: of codes that processes ended with at once, the one with the least is the cause of the others. What a
    process says itself comes first, then a signal; those that lost it say so too, and JAX aborts without its
    coordinator."""
    if code in (UsageError.exit_code, DataError.exit_code, Diverged.exit_code):
        return 0
    return 3 if code == -signal.SIGABRT else 1 if code < 0 else 2


class _Processes:
    """The processes of a run; leaving the context leaves none behind."""

    def __init__(self, command: Sequence[str], environments: Sequence[Mapping[str, str]]):
        self._command, self._environments = command, environments
        self._running: list[subprocess.Popen] = []
        self._readers: list[threading.Thread] = []
        self._said: set[bytes] = set()
        self._stopped: float | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Processes:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._stop)
        for index, variables in enumerate(self._environments):
            # Sessions of their own: Ctrl-C comes from here, as the SIGTERM that JAX waits for.
            more: dict[str, Any] = {"env": dict(variables), "start_new_session": True}
            if sys.platform == "linux":
                more["preexec_fn"] = functools.partial(die_with_parent, os.getpid())
            if index:
                more |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
            self._running.append(subprocess.Popen(self._command, **more))
        for index, process in enumerate(self._running):
            if index:
                self._readers.append(threading.Thread(target=self._relay, args=(index, process.stdout), daemon=True))
                self._readers[-1].start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            if process.poll() is None:
                # A process that hangs in a collective does not answer to SIGTERM.
                process.kill()
            process.wait()
        for reader in self._readers:
            reader.join(5)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def wait(self) -> int:
        """The exit code of the run: of the first process that ended with an error, else 0."""
        first: tuple[list[int], int] | None = None
        since = 0.0
        while True:
            codes = [process.poll() for process in self._running]
            if first is None:
                bad = [(i, code) for i, code in enumerate(codes) if code not in (None, 0)]
                if bad:
                    code = min((code for _, code in bad), key=_cause)
                    first, since = ([i for i, its in bad if its == code], code), time.monotonic()
            if all(code is not None for code in codes):
                break
            overdue = self._stopped is not None and time.monotonic() - self._stopped > PATIENCE
            if overdue or (first is not None and time.monotonic() - since > GRACE):
                break
            time.sleep(0.1)
        if first is None:
            return 0
        indices, code = first
        if code != Preempted.exit_code:
            was, plural = ("was", "") if len(indices) == 1 else ("were", "es")
            how = f"{was} killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            names = " and ".join(map(str, indices))
            print(
                f"numjax: process{plural} {names} of {len(self._running)} {how}, so the others were stopped: "
                "run the same command to go on",
                file=sys.stderr,
                flush=True,
            )
        return code if code > 0 else 128 - code

    def _stop(self, number: int, frame: Any) -> None:
        del number, frame
        self._stopped = self._stopped or time.monotonic()
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    def _relay(self, index: int, source: BinaryIO) -> None:
        for line in source:
            if line not in self._said:
                self._said.add(line)
                sys.stderr.buffer.write(b"[%d] %s" % (index, line))
                sys.stderr.buffer.flush()


def die_with_parent(parent: int) -> None:
    """For `preexec_fn` on Linux: not even `kill -9` of the parent may leave processes that wait for each other.

    Args:
      parent: its process id; where it has ended before this could ask for the signal, none would come.
    """
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except UsageError as error:
        print(f"numjax: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
