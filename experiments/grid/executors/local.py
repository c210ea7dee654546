"""Runs jobs on this machine: in this process, or in several."""

from __future__ import annotations

import collections
import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from numjax.bundled.experiments import command
from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.executors import (
    RETRIES,
    Options,
    Work,
    run_patiently,
    work_alone,
    work_patiently,
)
from numjax.bundled.experiments.grid.runner import FAILED, STOPPED, Outcome, run_job
from numjax.runtime import log


def run(jobs: Sequence[Job], options: Options, work: Work) -> Iterator[Outcome]:
    """Yields the outcomes of the jobs. With one worker they run in this process, one after the other."""
    if options.workers == 1:
        # Here a stop ends all jobs.
        direct: dict[Work, Work] = {work_alone: run_job, work_patiently: run_patiently}
        yield from map(direct.get(work, work), jobs)
        return
    with command.raise_when_stopped():
        yield from _run_processes(jobs, options.workers, work)


def _run_processes(jobs: Sequence[Job], n_workers: int, work: Work) -> Iterator[Outcome]:
    waiting = collections.deque((job, 0) for job in jobs)
    running: dict[Any, tuple[Any, Job, int]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < n_workers:
                job, n_lives = waiting.popleft()
                process, end = _start(job, work)
                running[end] = process, job, n_lives + 1
            ready: list[Any] = multiprocessing.connection.wait(list(running))
            for end in ready:
                process, job, n_lives = running.pop(end)
                try:
                    outcome = end.recv()
                except EOFError:
                    outcome = None
                process.join()
                if outcome is not None and outcome.state != STOPPED:
                    yield outcome
                elif n_lives <= RETRIES:
                    log.say(f"{job.name}: its process was killed ({process.exitcode}): started again")
                    waiting.append((job, n_lives))
                else:
                    yield Outcome(job.name, FAILED, f"{job.name}: its process was killed {n_lives} times")
    finally:
        for process, _, _ in running.values():
            process.terminate()  # a training saves its state
        for process, _, _ in running.values():
            process.join()


def _start(job: Job, work: Work) -> tuple[Any, Any]:
    """(a process that runs the job, the end of a pipe that gets its outcome, or closes when the process dies)."""
    context = multiprocessing.get_context("spawn")  # JAX has threads, which a fork would break
    own_end, other_end = context.Pipe(duplex=False)
    process = context.Process(target=_send_outcome, args=(job, other_end, work), name=job.name)
    process.start()
    other_end.close()
    return process, own_end


def _send_outcome(job: Job, end: Any, work: Work) -> None:
    # By default JAX reserves most of a GPU's memory for one process, and its neighbours would find none.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    outcome = work(job)
    with contextlib.suppress(BrokenPipeError):  # the process that started this one is gone
        end.send(outcome)
    end.close()


def _stop_with_parent() -> None:
    """Waits for the end of the process that started this one, then stops this one, whose training saves its state: a
    process that is killed cannot end those that it started."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
