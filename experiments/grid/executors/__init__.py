"""Where the jobs of a grid run. A file here with a function `run` is an executor: `--executor` is its name.

    run(jobs, options, work) → yields the `Outcome` work(job) of each job, as soon as it has ended

All executors write to one folder, and leases keep them out of each other's way: runners on any machines may share it.
A worker that is killed costs its running job alone, which is started again and resumes from its last checkpoint.
"""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.leases import BEAT, PATIENCE
from numjax.bundled.experiments.grid.runner import STOPPED, Outcome, run_job
from numjax.errors import Preempted, UsageError

NAMES = tuple(sorted(path.stem for path in pathlib.Path(__file__).parent.glob("*.py") if path.stem != "__init__"))
Work = Callable[[Job], Outcome]
RETRIES = 3  # of a job whose worker was killed or stopped


class Options(NamedTuple):
    """What a job gets.

    Attributes:
      workers: processes at a time, of the executor local.
      cpus, gpus: of each job.
      resources: more that the executor understands, name → value.
    """

    workers: int = 1
    cpus: int = 0
    gpus: int = 0
    resources: dict[str, str] = {}


def work_alone(job: Job) -> Outcome:
    """`run_job` for a process of its own: a stop is an outcome, too."""
    return _work(job, run_job)


def work_patiently(job: Job) -> Outcome:
    """`work_alone` that waits until the lease of a runner that is gone has become stale."""
    return _work(job, run_patiently)


def run_patiently(job: Job) -> Outcome:
    """`run_job` that waits, see `work_patiently`."""
    return run_job(job, PATIENCE + 2 * BEAT)


def _work(job: Job, run_one: Work) -> Outcome:
    try:
        return run_one(job)
    except Preempted as error:
        return Outcome(job.name, STOPPED, f"{job.name}: {error}")


def run(name: str, jobs: Sequence[Job], options: Options, work: Work = work_alone) -> Iterator[Outcome]:
    """Runs jobs on the executor of a name; yields their outcomes.

    Args:
      work: a function of a module, which other processes can import.

    Raises:
      UsageError: there is no such executor, or the package that it needs is not installed.
    """
    if name not in NAMES:
        raise UsageError(f"--executor={name}: choose one of {', '.join(NAMES)}")
    yield from importlib.import_module(f"{__name__}.{name}").run(jobs, options, work)


def require(package: str, extra: str, executor: str) -> Any:
    """An optional package.

    Raises:
      UsageError: it is not installed.
    """
    try:
        return importlib.import_module(package)
    except ImportError:
        raise UsageError(
            f"--executor={executor} needs {package}: in the checkout, .venv/bin/pip install -e '.[{extra}]'; or use "
            "--executor=local"
        ) from None
