"""Small jobs of the grid, for its tests."""

from __future__ import annotations

import os
import pathlib
import signal

from numjax.bundled.experiments.grid import rows
from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.runner import Outcome, run_job
from numjax.bundled.experiments.grid.scales import Scale

TINY = Scale(
    *("tiny", "smoke", 16, 1, 2),
    steps=6, batch_size=8, warmup=1, problems=30, test=4, validation=3, points=2, columns=("copy", "max"),
    rates=(1e-3,),
)  # fmt: skip


def make_job(name: str, out: pathlib.Path, scale: Scale = TINY, seed: int = 0, additions=()) -> Job:
    """The job of a row on all columns of a scale."""
    return Job(rows.list_rows(additions)[name], scale, scale.columns, seed, str(out))


def die_once(job: Job) -> Outcome:
    """Runs a job in a process that is killed the first time."""
    mark = job.folder / f"{job.name}.killed"
    if job.row.name == "constant" and not mark.exists():
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return run_job(job)
