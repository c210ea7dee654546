"""python -m numjax.tools.launch --processes=4 --config=… --workdir=… …: starts a run in several processes of this
machine.

Other flags go to the run, which trains unless --mode says otherwise. Process 0 prints as usual. A line of another
process is printed once, after the number of the process that printed it first. If one process ends with an error, the
others are stopped and its exit code is returned. SIGTERM and Ctrl-C reach all processes, and all save the same step.
Run the same command to resume.
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

from numjax.errors import DataError, Diverged, Lost, Preempted, UsageError
from numjax.runtime import program
from numjax.tools.command import make_parser

GRACE = 45.0  # seconds for the others to notice by themselves that one has ended
PATIENCE = 600.0  # seconds for a save after SIGTERM


def make_environment(index: int, count: int, port: int, devices: int) -> dict[str, str]:
    """Makes the environment variables of process `index` of `count`, which has `devices` devices of its own."""
    device_ids = range(index * devices, (index + 1) * devices)
    return dict(os.environ) | {
        "NUMJAX_COORDINATOR": f"localhost:{port}",
        "NUMJAX_PROCESSES": str(count),
        "NUMJAX_PROCESS": str(index),
        "JAX_NUM_CPU_DEVICES": str(devices),  # CPU
        "JAX_LOCAL_DEVICE_IDS": ",".join(map(str, device_ids)),  # GPU
    }


def main(words: Sequence[str] | None = None) -> int:
    """Starts the processes and waits for them; returns the run's exit code.

    Raises:
      UsageError: bad flags.
    """
    parser = make_parser("launch", __doc__, allow_abbrev=False)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=1, help="of each process (default: 1)")
    parser.add_argument("--module", default="numjax.main", help="what to start instead, with the same flags")
    options, rest = parser.parse_known_args(words)
    if options.processes < 1 or options.devices < 1:
        raise UsageError("--processes and --devices must be at least 1")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", options.module, "--distributed", *rest]
    environments = [make_environment(i, options.processes, port, options.devices) for i in range(options.processes)]
    with _Processes(command, environments) as processes:
        return processes.wait()


def _rank_cause(code: int) -> int:
    """Ranks exit codes: if processes end at the same time, the code with the lowest rank is the cause.

    First come errors that a process reports itself, then signals, then other codes. A process that lost another one
    ends with the code of `Lost`. Last is SIGABRT: JAX aborts when it loses its coordinator.
    """
    if code in (UsageError.exit_code, DataError.exit_code, Diverged.exit_code):
        return 0
    if code in (Lost.exit_code, -signal.SIGABRT):
        return 3 if code == Lost.exit_code else 4
    return 1 if code < 0 else 2


class _Processes:
    """The processes of a run. When the context ends, all have ended."""

    def __init__(self, command: Sequence[str], environments: Sequence[Mapping[str, str]]):
        self._command, self._environments = command, environments
        self._running: list[subprocess.Popen] = []
        self._readers: list[threading.Thread] = []
        self._seen_lines: set[bytes] = set()
        self._stop_time: float | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> _Processes:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._handlers[number] = signal.signal(number, self._stop)
        for index, variables in enumerate(self._environments):
            # Each has its own session: Ctrl-C reaches only this process, which sends the SIGTERM that JAX waits for.
            options: dict[str, Any] = {"env": dict(variables), "start_new_session": True}
            if sys.platform == "linux":
                options["preexec_fn"] = functools.partial(die_with_parent, os.getpid())
            if index:
                options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
            self._running.append(subprocess.Popen(self._command, **options))
        for index, process in enumerate(self._running):
            if index:
                self._readers.append(threading.Thread(target=self._relay, args=(index, process.stdout), daemon=True))
                self._readers[-1].start()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            if process.poll() is None:
                # A process that hangs in a collective does not react to SIGTERM.
                process.kill()
            process.wait()
        for reader in self._readers:
            reader.join(5)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def wait(self) -> int:
        """Waits for the processes; returns the exit code of the first that ended with an error, that of a stopped run
        if some did not end within `PATIENCE` of a signal, else 0."""
        failure: tuple[list[int], int] | None = None
        failure_time = 0.0
        while True:
            codes = [process.poll() for process in self._running]
            if failure is None:
                failures = [(i, code) for i, code in enumerate(codes) if code not in (None, 0)]
                if failures:
                    code = min((code for _, code in failures), key=_rank_cause)
                    failure, failure_time = (
                        ([i for i, exit_code in failures if exit_code == code], code),
                        time.monotonic(),
                    )
            if all(code is not None for code in codes):
                break
            overdue = self._stop_time is not None and time.monotonic() - self._stop_time > PATIENCE
            if overdue or (failure is not None and time.monotonic() - failure_time > GRACE):
                break
            time.sleep(0.1)
        if failure is None:
            # Those that are still there have not saved: what starts the run again must know that it has not ended.
            return 0 if all(code == 0 for code in codes) else Preempted.exit_code
        indices, code = failure
        if code != Preempted.exit_code:
            was, plural = ("was", "") if len(indices) == 1 else ("were", "es")
            ending = f"{was} killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
            names = " and ".join(map(str, indices))
            print(
                f"{program.prefix(program.COMMAND)}: process{plural} {names} of {len(self._running)} {ending}, so "
                "the others were stopped: run the same command to go on",
                file=sys.stderr,
                flush=True,
            )
        return code if code > 0 else 128 - code

    def _stop(self, number: int, frame: Any) -> None:
        del number, frame
        self._stop_time = self._stop_time or time.monotonic()
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    def _relay(self, index: int, source: BinaryIO) -> None:
        for line in source:
            if line not in self._seen_lines:
                self._seen_lines.add(line)
                sys.stderr.buffer.write(b"[%d] %s" % (index, line))
                sys.stderr.buffer.flush()


def die_with_parent(parent: int) -> None:
    """Makes this process die when its parent dies, even by `kill -9`. For `preexec_fn` on Linux.

    Otherwise the children would wait for each other forever.

    Args:
      parent: process id of the parent. If it has ended already, no signal would come, so the process ends now.
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
