"""Runs jobs as tasks of a Ray cluster, whose machines share the folder of the grid."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.executors import RETRIES, Options, Work, require
from numjax.bundled.experiments.grid.runner import FAILED, STOPPED, Outcome
from numjax.errors import UsageError


def run(jobs: Sequence[Job], options: Options, work: Work) -> Iterator[Outcome]:
    """Yields the outcomes of the jobs. Ray starts a task again if its worker or its machine dies.

    `options.resources`: "address" of a cluster (by default $RAY_ADDRESS, else a cluster on this machine); any other
    name is a resource of the cluster, such as TPU.

    Raises:
      UsageError: Ray is not installed, there is no such cluster, or it lacks a resource.
    """
    ray = require("ray", "ray", "ray")
    resources = dict(options.resources)
    _connect(ray, resources.pop("address", None) or os.environ.get("RAY_ADDRESS"))
    try:
        wanted = {name: float(value) for name, value in resources.items()}
    except ValueError:
        raise UsageError(f"--resources={resources}: give numbers, such as TPU=4") from None
    needs = wanted | {"CPU": float(options.cpus or 1), "GPU": float(options.gpus)}
    offers = ray.cluster_resources()
    for name, amount in needs.items():
        if amount > offers.get(name, 0.0):
            raise UsageError(
                f"--executor=ray: a job needs {amount:g} {name}, and the cluster has {offers.get(name, 0):g}"
            )
    task = ray.remote(
        num_cpus=options.cpus or 1, num_gpus=options.gpus, resources=wanted, max_retries=RETRIES, max_calls=1
    )(work)
    waiting = {task.options(name=job.name).remote(job): (job, 1) for job in jobs}
    while waiting:
        (reference,), _ = ray.wait(list(waiting), num_returns=1)
        job, n_lives = waiting.pop(reference)
        try:
            outcome = ray.get(reference)
            if outcome.state == STOPPED and n_lives <= RETRIES:
                waiting[task.options(name=job.name).remote(job)] = job, n_lives + 1
            else:
                yield outcome
        except ray.exceptions.RayError as error:
            reason = str(error).strip().splitlines()[0][:300]
            yield Outcome(job.name, FAILED, f"{job.name}: its worker was lost ({reason})")


def make_environment() -> dict[str, Any]:
    """The environment of workers: they import what this process can, such as the parts of a user's own row."""
    paths = [os.path.abspath(path or ".") for path in sys.path]
    return {"env_vars": {"PYTHONPATH": os.pathsep.join(paths)}}


def _connect(ray: Any, address: str | None) -> None:
    if ray.is_initialized():
        return
    try:
        ray.init(address=address, runtime_env=make_environment(), include_dashboard=False, log_to_driver=False)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UsageError(f"--executor=ray: no cluster at {address} ({str(error).splitlines()[0][:200]})") from None
