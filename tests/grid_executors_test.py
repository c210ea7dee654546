"""Executors of the grid: a worker that is killed costs its own job alone, which is run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from jax._src import xla_bridge

from numjax.bundled.experiments.grid import cells, executors, leases, runner
from numjax.bundled.experiments.grid.executors import local
from numjax.errors import Preempted, UsageError
from numjax.runtime import stop
from tests.conftest import ROOT
from tests.grid_jobs import TINY, die_once, make_job
from tests.runs_test import cache  # noqa: F401  (the fixture builds datasets once)

LIMIT = 240  # seconds; a process that hangs fails the test
BASELINES = ("oracle", "constant", "copy")


def run(name, out, work=die_once, **options):
    """Runs the baselines, and returns row → outcome; the process of one of them is killed the first time."""
    jobs = [make_job(row, out) for row in BASELINES]
    outcomes = {outcome.job: outcome for outcome in executors.run(name, jobs, executors.Options(**options), work)}
    return {job.row.name: outcomes[job.name] for job in jobs}


def check(outcomes, out):
    assert {row: outcome.state for row, outcome in outcomes.items()} == dict.fromkeys(BASELINES, runner.DONE), (
        outcomes
    )
    assert list(out.glob("*.constant.*.killed"))
    written = [(cell["row"], cell["column"]) for cell in cells.load_cells(out)]
    assert sorted(written) == sorted((row, column) for row in BASELINES for column in TINY.columns)


def test_processes_of_this_machine(tmp_path, capsys):
    check(run("local", tmp_path, workers=2), tmp_path)
    assert "its process was killed (-9): started again" in capsys.readouterr().err


def tell_memory(job):
    """An outcome that says whether JAX, which has not started yet, will reserve a GPU's memory for this process."""
    assert not xla_bridge.backends_are_initialized()
    return runner.Outcome(job.name, runner.DONE, os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "true"))


@pytest.mark.parametrize("chosen", [None, "true"])
def test_processes_share_the_memory_of_a_gpu_unless_told_otherwise(tmp_path, monkeypatch, chosen):
    monkeypatch.delenv("XLA_PYTHON_CLIENT_PREALLOCATE", raising=False)
    if chosen:
        monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", chosen)
    outcomes = run("local", tmp_path, tell_memory, workers=2)
    assert {outcome.message for outcome in outcomes.values()} == {chosen or "false"}


@pytest.mark.parametrize("work", [executors.work_alone, executors.work_patiently])
def test_a_stop_ends_the_jobs_of_one_process(work, tmp_path, monkeypatch):
    """Also where they are asked for again, since other runners had them."""
    started = []

    def stop_now(job, wait=0.0):
        started.append(job.name)
        raise Preempted("stopped")

    monkeypatch.setattr(executors, "run_job", stop_now)
    monkeypatch.setattr(local, "run_job", stop_now)
    jobs = [make_job(name, tmp_path) for name in ("oracle", "constant")]
    with pytest.raises(Preempted):
        list(executors.run("local", jobs, executors.Options(), work))
    assert started == [jobs[0].name]


def wait_for_stop(job):
    """A job that ends when it is stopped."""
    (job.folder / "pid").write_text(str(os.getpid()))
    time.sleep(300)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_stop_ends_the_processes_of_this_machine(number, tmp_path):
    code = f"""
from numjax.bundled.experiments import command
from numjax.bundled.experiments.grid import executors
from tests.grid_executors_test import wait_for_stop
from tests.grid_jobs import make_job

def main():
    list(executors.run("local", [make_job("oracle", {str(tmp_path)!r})], executors.Options(workers=2), wait_for_stop))

if __name__ == "__main__":
    command.entry(main)
"""
    (tmp_path / "program.py").write_text(code)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "program.py")], cwd=ROOT, stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    pid = int(wait_for(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()))
    process.send_signal(number)
    if number == signal.SIGTERM:
        assert process.communicate(timeout=LIMIT)[1] == f"numjax: {stop.MESSAGE}\n" and process.returncode == 143
    assert wait_for(lambda: not leases._is_alive(pid))
    process.wait(LIMIT)


def wait_for(condition):
    end = time.monotonic() + LIMIT
    while not (value := condition()):
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.1)
    return value


def test_a_cluster_of_ray_with_two_workers(tmp_path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=make_environment())
    try:
        check(run("ray", tmp_path), tmp_path)
        with pytest.raises(UsageError, match="a job needs 4 TPU, and the cluster has 0"):
            run("ray", tmp_path, resources={"TPU": "4"})
        with pytest.raises(UsageError, match="give numbers, such as TPU=4"):
            run("ray", tmp_path, resources={"TPU": "many"})
    finally:
        ray.shutdown()


def make_environment():
    from numjax.bundled.experiments.grid.executors import ray

    return ray.make_environment()


def test_jobs_of_slurm(tmp_path, monkeypatch):
    pytest.importorskip("submitit")
    from numjax.bundled.experiments.grid.executors import slurm

    monkeypatch.setattr(slurm, "POLL", 0.1)
    check(run("slurm", tmp_path, resources={"cluster": "local"}), tmp_path)
    with pytest.raises(UsageError, match="slurm has cluster, timeout"):
        run("slurm", tmp_path, resources={"color": "red"})
    with pytest.raises(UsageError, match="give minutes"):
        run("slurm", tmp_path, resources={"timeout": "soon"})


@pytest.mark.parametrize(("name", "package"), [("ray", "ray"), ("slurm", "submitit")])
def test_a_missing_package_is_one_line(name, package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UsageError, match=rf"^--executor={name} needs {package}: .*pip install .*\[{name}\]'.*$"):
        run(name, tmp_path)


def test_an_unknown_executor_is_one_line(tmp_path):
    with pytest.raises(UsageError, match="--executor=cloud: choose one of local, ray, slurm"):
        run("cloud", tmp_path)
