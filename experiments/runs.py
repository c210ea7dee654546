"""Training runs of an experiment, keyed by system, task, seed and a hash of the config.

A finished run is never repeated, and a stopped one resumes. A result of another config is never mistaken for this
one's, because its key differs. Seeds differ in initialisation and data order; they share the encoded data and the
compiled step. On disk, under the folder of an experiment:

    runs/<task>/<system>-<key>/            config.json, vocabulary/
    runs/<task>/<system>-<key>/seed_<N>/   metrics.jsonl, best/, predictions/ and, when finished, result.json
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import time
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from ml_collections import ConfigDict

from numjax import bundled
from numjax.build import build
from numjax.config import blocks
from numjax.errors import Diverged, UsageError
from numjax.evals import report
from numjax.modes import set_up
from numjax.modes.data import load_data
from numjax.runtime import files, log
from numjax.system import assemble
from numjax.train.loop import train
from numjax.train.workdir import FREE as RESUMABLE
from numjax.train.workdir import claim, lock_folder

RESULT = "result.json"
# KEYED settings are part of the key although a run may resume with other values: existing results have keys that
# depend on them. FREE settings change no result. `make_key` also drops "decode" for tasks that only classify.
KEYED = {"decode", "data.memory", "eval.batch_size", "eval.test", "task.answer"}
FREE = (RESUMABLE - KEYED) | {"seed", "init_from", "scheme.pad_multiple"}


class RunCell(NamedTuple):
    """One system on one task: a cell of a table, run with several seeds.

    Attributes:
      task, system: names, on disk and in results.
      config: of the run; `run` sets its seed.
      start: the cell that pre-trains the parameters that this one starts from; it runs once, with seed 0.
    """

    task: str
    system: str
    config: Any
    start: RunCell | None = None


class RunResult(NamedTuple):
    """The result of one seed of a cell.

    Attributes:
      task, system, seed, key: identify the run.
      metrics: split → name → value, of the checkpoint that was best on validation; empty when the run diverged.
      diverged: the error message when the loss stopped being finite, else None.
      seconds: from the last (re)start to the end, compilation and evaluation included.
      machine: device, versions, commit.
      finished: time, UTC.
    """

    task: str
    system: str
    seed: int
    key: str
    metrics: dict[str, dict[str, float]]
    diverged: str | None
    seconds: float
    machine: dict[str, Any]
    finished: str


Results = dict[tuple[str, str], dict[int, RunResult]]


def make_key(cell: RunCell) -> str:
    """Twelve hexadecimal digits that hash everything a result depends on.

    That is the config with all options of its parts, defaults included, but without settings that change nothing; the
    version of the dataset; and the key of the cell that it starts from.
    """
    config = blocks.with_all_options(cell.config)
    task: Any = build("tasks", cell.config.task)
    free = FREE if task.generates else FREE | {"decode"}
    for *block_names, name in (setting.split(".") for setting in free):
        block_config = config
        for block_name in block_names:
            block_config = block_config[block_name]
        block_config.pop(name, None)
    dataset = importlib.import_module(f"numjax.bundled.data.{task.dataset['name']}").Builder
    parts = [config, str(dataset.VERSION), make_key(cell.start) if cell.start else ""]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def cell_folder(cell: RunCell, out: pathlib.Path) -> pathlib.Path:
    """The folder of a cell."""
    return out / "runs" / cell.task / f"{cell.system}-{make_key(cell)}"


def workdir(cell: RunCell, seed: int, out: pathlib.Path) -> pathlib.Path:
    """The folder of a seed; `numjax.load` loads it."""
    return cell_folder(cell, out) / f"seed_{seed}"


def load_result(cell: RunCell, seed: int, out: pathlib.Path, needs_parameters: bool = False) -> RunResult | None:
    """A seed's result, or None if it is not finished.

    Args:
      needs_parameters: ignore results from elsewhere (--known), whose parameters are not in `out`.
    """
    path = workdir(cell, seed, out) / RESULT
    return None if needs_parameters and not path.exists() else load_stored_result(path, out, make_key(cell), seed)


def load_stored_result(path: pathlib.Path, out: pathlib.Path, name: str, seed: int) -> RunResult | None:
    """The result that a run wrote to `path`, or the one that `adopt` copied into `out` under `name`, or None."""
    for candidate in (path, _known_path(out, name, seed)):
        with contextlib.suppress(OSError, json.JSONDecodeError, TypeError):
            return RunResult(**json.loads(candidate.read_text()))
    return None


def adopt(tables: Iterable[str], out: pathlib.Path) -> None:
    """Copies the results of earlier tables, or of tables from other machines, into `out`.

    The key identifies a run: a run with another config, or on data in another folder, is another run.

    Args:
      tables: paths of NAME.json files.

    Raises:
      UsageError: a file is missing or is not a table's.
    """
    for path in tables:
        try:
            results = [
                RunResult(**entry) for entry in json.loads(pathlib.Path(path).expanduser().read_text())["runs"]
            ]
        except (OSError, json.JSONDecodeError, TypeError, KeyError) as error:
            raise UsageError(f"--known={path}: give NAME.json as tables write it ({error!r:.100})") from None
        for result in results:
            write_json(_known_path(out, result.key, result.seed), result._asdict())


def _known_path(out: pathlib.Path, name: str, seed: int) -> pathlib.Path:
    # Some tables name their runs by something else than a key, such as an embedding's specification.
    return out / "known" / urllib.parse.quote(name, safe="") / f"seed_{seed}.json"


def run(cells: Iterable[RunCell], seeds: Sequence[int], out: str | pathlib.Path) -> Results:
    """Trains the cells and seeds that are not finished; returns the results of all, and of their pre-trainings.

    A seed that diverges is a result too and stops nothing. A pre-training runs only if a cell that starts from it is
    unfinished; otherwise its result may be unavailable, and then it has no seeds in the results.

    Args:
      cells: in the order in which they run; pre-trainings run before the cells that start from them.
      seeds: of every cell.
      out: folder of the experiment.

    Raises:
      Preempted: SIGTERM or SIGINT; the next call resumes.
      Diverged: a pre-training diverged, so there is nothing to start from.
      UsageError: another process runs the same cell, or `out` cannot be written.
    """
    folder = pathlib.Path(out).expanduser()
    cells = list(cells)
    unfinished_cells = [cell for cell in cells if any(load_result(cell, seed, folder) is None for seed in seeds)]
    needed_keys = {make_key(cell.start) for cell in unfinished_cells if cell.start is not None}
    jobs: list[tuple[RunCell, Sequence[int]]] = []
    start_keys: set[str] = set()
    for cell in cells:
        if cell.start is not None and (name := make_key(cell.start)) not in start_keys:
            start_keys.add(name)
            # A pre-training that no unfinished cell needs is not trained: it gets no seeds, so none is missing.
            is_known = name in needed_keys or load_result(cell.start, 0, folder) is not None
            jobs.append((cell.start, (0,) if is_known else ()))
        jobs.append((cell, seeds))
    results: Results = {}
    schedule = Schedule()
    unfinished_jobs: list[tuple[RunCell, list[int], bool]] = []
    for cell, cell_seeds in jobs:
        needs_parameters = (
            make_key(cell) in needed_keys
        )  # a table that was made elsewhere brings no parameters to start from
        finished_results = {
            seed: result
            for seed in cell_seeds
            if (result := load_result(cell, seed, folder, needs_parameters)) is not None
        }
        results[cell.task, cell.system] = finished_results
        for seed in cell_seeds:
            schedule.add(cell, seed, finished_results.get(seed))
        if len(finished_results) < len(cell_seeds):
            unfinished_jobs.append(
                (cell, [seed for seed in cell_seeds if seed not in finished_results], needs_parameters)
            )
    log.say(f"{schedule.n_runs} runs, {schedule.n_done} of them done; in {folder}")
    for cell, cell_seeds, needs_parameters in unfinished_jobs:
        for result in _train(cell, cell_seeds, folder, schedule, needs_parameters):
            results[cell.task, cell.system][result.seed] = result
            if result.diverged and any(job_cell.start is not None and job_cell.start is cell for job_cell, _ in jobs):
                raise Diverged(f"pre-training {cell.system} diverged: {result.diverged}")
    return {name: dict(sorted(by_seed.items())) for name, by_seed in results.items()}


def _train(
    cell: RunCell, seeds: Sequence[int], out: pathlib.Path, schedule: Schedule, needs_parameters: bool
) -> Iterator[RunResult]:
    shared_folder, cell_key = cell_folder(cell, out), make_key(cell)
    config = ConfigDict(cell.config.to_dict())
    if cell.start is not None:
        config.init_from = str(_add_vocabulary(cell.start, out))
    set_up(config)
    with lock_folder(shared_folder, "--out"):
        claim(shared_folder, config)
        system = assemble(config, shared_folder)
        data = load_data(system, shared_folder, strict=False)
        compiled = None
        for seed in seeds:
            if (
                earlier_result := load_result(cell, seed, out, needs_parameters)
            ) is not None:  # by another process, since this one looked
                schedule.end(earlier_result)
                yield earlier_result
                continue
            folder = workdir(cell, seed, out)
            start = time.monotonic()
            metrics: dict[str, dict[str, float]] = {}
            diverged = None
            schedule.begin(cell, seed)
            try:
                metrics, compiled = train(
                    system, data, folder, seed, report.score_split, compiled, note=schedule.note
                )
            except Diverged as error:
                diverged = str(error)
            timestamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            seconds = round(time.monotonic() - start, 1)
            result = RunResult(
                cell.task, cell.system, seed, cell_key, metrics, diverged, seconds, describe_machine(), timestamp
            )
            write_json(folder / RESULT, result._asdict())
            _drop_training_state(folder)
            schedule.end(result)
            log.say(
                f"{cell.task}/{cell.system} seed {seed}: {_format_result(result)} ({log.format_duration(seconds)})"
            )
            yield result
    # Otherwise one process keeps the programs of dozens of systems; the next system compiles its own anyway.
    jax.clear_caches()


def _add_vocabulary(start: RunCell, out: pathlib.Path) -> pathlib.Path:
    """Copies the vocabulary into the pre-trained workdir, where `init_from` reads it; returns the workdir."""
    folder = workdir(start, 0, out)
    if not (folder / "vocabulary").exists():
        shutil.copytree(cell_folder(start, out) / "vocabulary", folder / "vocabulary")
    return folder


def _drop_training_state(folder: pathlib.Path) -> None:
    """Removes the checkpoints of a finished run, which hold optimiser states; the best parameters stay."""
    best = folder / "best"
    if best.is_dir() and any(path.name.isdigit() for path in best.iterdir()):
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


class Schedule:
    """Tracks finished and remaining runs, to estimate the overall time for the progress line."""

    def __init__(self) -> None:
        self._cost: dict[tuple[str, str, int], float | None] = {}
        self._current: tuple[str, str, int] | None = None
        self._start_time = 0.0

    def add(self, cell: RunCell, seed: int, result: RunResult | None) -> None:
        """Adds a run of the plan, with its result if it is finished."""
        self._cost[cell.task, cell.system, seed] = None if result is None else result.seconds

    def begin(self, cell: RunCell, seed: int) -> None:
        """Marks a run as the current one."""
        self._current, self._start_time = (cell.task, cell.system, seed), time.monotonic()

    def end(self, result: RunResult) -> None:
        """Marks a run as finished."""
        self._cost[result.task, result.system, result.seed] = result.seconds
        self._current = None

    @property
    def n_runs(self) -> int:
        """Number of all runs."""
        return len(self._cost)

    @property
    def n_done(self) -> int:
        """Number of finished runs."""
        return sum(cost is not None for cost in self._cost.values())

    def note(self, seconds_left: float) -> str:
        """The text of a progress line on all runs.

        Args:
          seconds_left: until the end of the current run.
        """
        assert self._current is not None
        task, system, seed = self._current
        current_seconds = time.monotonic() - self._start_time + seconds_left
        waiting = [name for name, cost in self._cost.items() if cost is None and name != self._current]
        overall = seconds_left + sum(self._estimate_seconds(name, current_seconds) for name in waiting)
        progress = f"{task}/{system} seed {seed}, run {self.n_done + 1} of {self.n_runs}"
        return f"{progress}, all in {log.format_duration(overall)}"

    def _estimate_seconds(self, name: tuple[str, str, int], current_seconds: float) -> float:
        """Expected seconds of a run: the mean of its cell's runs, else of its task's, else the current run's."""
        for n_shared in (2, 1):
            costs = [c for n, c in self._cost.items() if c is not None and n[:n_shared] == name[:n_shared]]
            if self._current is not None and self._current[:n_shared] == name[:n_shared]:
                costs.append(current_seconds)
            if costs:
                return statistics.fmean(costs)
        return current_seconds


def describe_machine() -> dict[str, Any]:
    """The machine of a result: devices, cores, versions, and the commit of a checkout."""
    device = jax.local_devices()[0]
    kind = device.device_kind
    if device.platform == "cpu":
        with contextlib.suppress(OSError):
            lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
            kind = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), kind)
    return {
        "device": kind,
        "devices": jax.device_count(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "commit": _find_commit(),
    }


def _find_commit() -> str:
    command = ["git", "-C", str(bundled.HOME), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes a JSON file, whole or not at all.

    Raises:
      UsageError: the file cannot be written.
    """
    try:
        files.write(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): make room or choose another --out") from error


def _format_result(result: RunResult) -> str:
    if result.diverged:
        return f"diverged, {result.diverged}"
    metrics: Mapping[str, float] = result.metrics.get("test") or result.metrics.get("validation") or {}
    main_metrics = [(name, value) for name, value in metrics.items() if "/" not in name and name != "majority"]
    return "test " + " · ".join(f"{name} {value:.4f}" for name, value in main_metrics)
