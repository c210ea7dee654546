"""SIGTERM and Ctrl-C: none is lost, whatever the program does at that moment."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys

from numjax.errors import Diverged, Preempted
from numjax.runtime import signals, stop
from tests.conftest import ROOT

LIMIT = 240  # seconds; a process that hangs fails the test


def test_no_signal_is_lost_where_python_ignores_errors():
    """An error that a handler raises is lost in a callback of the garbage collector, in `__del__`, and in code that
    catches all errors. Each child is there all the time when the signal comes."""
    statements = {
        "gc": "gc.callbacks.append(lambda *_: wait()); gc.collect()",
        "del": "type('X', (), {'__del__': lambda self: wait()})()",
        "except": "wait()",
    }
    for code in statements.values():
        program = f"""
import gc, time
from numjax.runtime import stop

def wait():
    print("ready", flush=True)
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            pass

with stop.exit_when_stopped():
    {code}
"""
        for number in stop.SIGNALS:
            child = subprocess.Popen(
                [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            assert child.stdout is not None and child.stdout.readline() == "ready\n"
            child.send_signal(number)
            assert child.communicate(timeout=LIMIT)[1] == f"numjax: {stop.MESSAGE}\n"
            assert child.returncode == 143


def test_after_the_block_and_after_the_loop_signals_go_to_the_handlers_from_before():
    received = []
    old_handlers = {number: signal.signal(number, lambda n, _: received.append(n)) for number in stop.SIGNALS}
    try:
        with stop.exit_when_stopped():
            pass
        for number in stop.SIGNALS:
            os.kill(os.getpid(), number)
        assert received == list(stop.SIGNALS)
        with signals.Signals() as loop_signals:
            assert not loop_signals.stop_at(1)
            os.kill(os.getpid(), signal.SIGTERM)  # after the last step, before the scores
            assert loop_signals.stop_at(2) and received == list(stop.SIGNALS)
        assert received == [*stop.SIGNALS, signal.SIGTERM], "a request that the loop has not granted"
        with contextlib.suppress(Preempted), signals.Signals():
            os.kill(os.getpid(), signal.SIGTERM)
            raise Preempted
        assert received == [*stop.SIGNALS, signal.SIGTERM], "a request that the loop has granted"
        # What calls the loop catches its other errors, and goes on with the next seed.
        with contextlib.suppress(Diverged), signals.Signals():
            os.kill(os.getpid(), signal.SIGTERM)
            raise Diverged
        assert received == [*stop.SIGNALS, signal.SIGTERM, signal.SIGTERM], "a request before another error"
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
