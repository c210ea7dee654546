"""Ends the program on SIGTERM and Ctrl-C wherever there is nothing to save: outside the training loop.

The handler raises nothing. An error raised in a handler is lost where Python ignores errors (callbacks of the garbage
collector, `__del__`), and a stack that unwinds while another thread compiles can crash the interpreter. The program's
files are safe: each is complete or absent at any moment, since a kill cannot be caught either.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

from numjax.errors import Preempted
from numjax.runtime import program

SIGNALS = (signal.SIGTERM, signal.SIGINT)
MESSAGE = "stopped; what was saved is kept: run the same command to go on"


@contextlib.contextmanager
def exit_when_stopped() -> Iterator[None]:
    """Makes SIGTERM and SIGINT print a line and end the process with exit code 143, until the block ends.

    The training loop has handlers of its own, which save first (`runtime/signals.py`).
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread can set handlers
        yield
        return
    line = f"{program.prefix(program.COMMAND)}: {MESSAGE}\n".encode()

    def stop(number, frame):
        del number, frame
        with contextlib.suppress(OSError):
            os.write(2, line)
        os._exit(Preempted.exit_code)

    old_handlers = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


def use_default_handlers() -> None:
    """Undoes `exit_when_stopped`, in one of several processes: JAX waits for SIGTERM, and the loop asks JAX."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
