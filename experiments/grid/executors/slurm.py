"""Runs jobs as a job array of Slurm (by submitit), whose machines share the folder of the grid."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.executors import RETRIES, Options, Work, require
from numjax.bundled.experiments.grid.runner import FAILED, STOPPED, Outcome
from numjax.errors import UsageError
from numjax.runtime import log

POLL = 2.0  # seconds
MINUTES = 24 * 60
RESOURCES = ("cluster", "timeout", "partition", "account", "qos", "constraint", "mem", "array_parallelism")


class Task:
    """Work for submitit: a job that Slurm preempts, or that reaches its time, is queued again and resumes."""

    def __init__(self, work: Work):
        self.work = work

    def __call__(self, job: Job) -> Outcome:
        """Runs the job."""
        return self.work(job)

    def checkpoint(self, job: Job) -> Any:
        """What to queue after a preemption: the same job, whose state is in its folder."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, job)


def run(jobs: Sequence[Job], options: Options, work: Work) -> Iterator[Outcome]:
    """Yields the outcomes of the jobs. A job whose process dies is submitted again.

    `options.resources`: "cluster" ("slurm" or "local", by default what there is), "timeout" in minutes, and
    "partition", "account", "qos", "constraint", "mem", "array_parallelism" as Slurm has them.

    Raises:
      UsageError: submitit is not installed, or an option is wrong.
    """
    submitit = require("submitit", "slurm", "slurm")
    if not jobs:
        return
    executor = _make_executor(submitit, jobs[0], options)
    task = Task(work)
    submitted = [(future, job, 1) for future, job in zip(executor.map_array(task, jobs), jobs, strict=True)]
    while submitted:
        waiting = []
        for future, job, n_lives in submitted:
            if not future.done():
                waiting.append((future, job, n_lives))
                continue
            error = future.exception()
            outcome = None if error else future.result()
            if outcome is not None and outcome.state != STOPPED:
                yield outcome
            elif n_lives <= RETRIES:
                log.say(f"{job.name}: its process died, see {future.paths.stderr}: submitted again")
                waiting.append((executor.submit(task, job), job, n_lives + 1))
            else:
                reason = (str(error or "stopped").strip().splitlines() or [type(error).__name__])[0][:300]
                yield Outcome(job.name, FAILED, f"{job.name}: its process died {n_lives} times ({reason})")
        submitted = waiting
        time.sleep(POLL if submitted else 0)


def _make_executor(submitit: Any, job: Job, options: Options) -> Any:
    resources = dict(options.resources)
    if unknown := [name for name in resources if name not in RESOURCES]:
        raise UsageError(f"--resources={unknown[0]}: slurm has {', '.join(RESOURCES)}")
    cluster, minutes = resources.pop("cluster", None), resources.pop("timeout", str(MINUTES))
    if not minutes.isdigit():
        raise UsageError(f"--resources=timeout={minutes}: give minutes")
    try:
        executor = submitit.AutoExecutor(folder=str(job.folder / "slurm" / "%j"), cluster=cluster)
        executor.update_parameters(
            name="numjax-grid",
            timeout_min=int(minutes),
            cpus_per_task=options.cpus or 1,
            gpus_per_node=options.gpus,
            **{f"slurm_{name}": int(value) if value.isdigit() else value for name, value in resources.items()},
        )
    except (ValueError, RuntimeError, NameError) as error:
        raise UsageError(f"--executor=slurm: {' '.join(str(error).split())[:300]}") from None
    return executor
