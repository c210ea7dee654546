"""Training runs of an experiment, keyed by what their results depend on (`identity.py`).

A finished run is never repeated, and a stopped one resumes. A result of other settings or data is never mistaken for
this one's. Seeds differ in initialisation and data order; they share the encoded data and the compiled step. On disk,
under the folder of an experiment:

    runs/<task>/<system>-<key>/            settings.json, config.json, vocabulary/
    runs/<task>/<system>-<key>/seed_<N>/   metrics.jsonl, best/, predictions/ and, when finished, result.json
"""

from __future__ import annotations

import datetime
import pathlib
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from ml_collections import ConfigDict

from numjax.bundled.experiments import identity, stored
from numjax.bundled.experiments.stored import RunResult
from numjax.errors import Diverged
from numjax.evals import report
from numjax.modes import set_up
from numjax.modes.data import load_data
from numjax.runtime import log
from numjax.system import assemble
from numjax.train.loop import train
from numjax.train.workdir import claim, lock_folder

RESULT = "result.json"


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


Results = dict[tuple[str, str], dict[int, RunResult]]


def list_settings(cell: RunCell) -> dict[str, Any]:
    """The settings of a cell and of the cells that it starts from."""
    return identity.list_settings(cell.config, list_settings(cell.start) if cell.start else None)


def list_defaults(cell: RunCell) -> dict[str, Any]:
    """The defaults of the options of a cell and of the cells that it starts from."""
    start = list_defaults(cell.start) if cell.start else {}
    return identity.list_defaults(cell.config) | {f"{identity.START}{path}": value for path, value in start.items()}


def fix_precision(config: Any) -> None:
    """Makes the precision "auto" float32, so that a table does not depend on the device that it is made on. A scale
    that is meant for 16 bits names them."""
    if config.backbone.get("dtype") == "auto":
        config.backbone.dtype = "float32"


def make_key(cell: RunCell) -> str:
    """Twelve hexadecimal digits that name the settings of a cell."""
    return identity.make_key(list_settings(cell))


def cell_folder(cell: RunCell, out: pathlib.Path) -> pathlib.Path:
    """The folder of a cell: the one whose settings are the same, or a new one."""
    settings = list_settings(cell)
    folder = out / "runs" / cell.task
    new_folder = folder / f"{cell.system}-{identity.make_key(settings)}"
    if new_folder.exists():
        return new_folder
    defaults = list_defaults(cell)
    matches = (p for p in folder.glob(f"{cell.system}-*") if stored.has_settings(p, settings, defaults))
    return min(matches, default=new_folder)


def workdir(cell: RunCell, seed: int, out: pathlib.Path) -> pathlib.Path:
    """The folder of a seed; `numjax.load` loads it."""
    return cell_folder(cell, out) / f"seed_{seed}"


def load_result(cell: RunCell, seed: int, out: pathlib.Path, needs_parameters: bool = False) -> RunResult | None:
    """A seed's result, or None if it is not finished.

    Args:
      needs_parameters: ignore results from elsewhere (--known), whose parameters are not in `out`.
    """
    path = workdir(cell, seed, out) / RESULT
    if needs_parameters and not path.exists():
        return None
    request = stored.Request(cell.task, cell.system, seed, list_settings(cell), list_defaults(cell))
    return stored.load_result(path, out, request)


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
    start_names: dict[str, tuple[str, str]] = {}
    for cell in cells:
        if cell.start is not None and (name := make_key(cell.start)) not in start_names:
            start_names[name] = cell.start.task, cell.start.system
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
    log.say(f"{schedule.n_runs} run{'s' * (schedule.n_runs != 1)}, {schedule.n_done} done before; in {folder}")
    for cell, cell_seeds, needs_parameters in unfinished_jobs:
        start = results[start_names[make_key(cell.start)]].get(0) if cell.start is not None else None
        if start is not None and start.diverged:
            raise Diverged(f"pre-training {start.system} diverged: {start.diverged}")
        for result in _train(cell, cell_seeds, folder, schedule, needs_parameters):
            results[cell.task, cell.system][result.seed] = result
    return {name: dict(sorted(by_seed.items())) for name, by_seed in results.items()}


def run_folds(
    make_cell: Callable[[str, str, int], RunCell],
    names: Sequence[tuple[str, str]],
    folds: Sequence[int],
    out: str | pathlib.Path,
) -> Results:
    """As `run`, of cells that differ by fold: fold n is trained with seed n.

    Args:
      make_cell: (task, system, fold) → its cell. names: (task, system) of the cells.
    """
    results: Results = {name: {} for name in names}
    for fold in folds:
        for name, by_seed in run([make_cell(*name, fold) for name in names], [fold], out).items():
            results.setdefault(name, {}).update(by_seed)
    return results


def _train(
    cell: RunCell, seeds: Sequence[int], out: pathlib.Path, schedule: Schedule, needs_parameters: bool
) -> Iterator[RunResult]:
    shared_folder, settings = cell_folder(cell, out), list_settings(cell)
    config = ConfigDict(cell.config.to_dict())
    fix_precision(config)
    cell_code: Mapping[str, str] = identity.list_code(identity.list_roots(cell.config))
    if cell.start is not None:
        config.init_from = str(_add_vocabulary(cell.start, out))
        start_result = load_result(cell.start, 0, out, needs_parameters=True)
        assert start_result is not None, "pre-trainings run before the cells that start from them"
        cell_code = stored.merge_code(start_result.code, cell_code)
    set_up(config)
    log.say(f"{cell.task}/{cell.system}: preparing the data and the model")
    with lock_folder(shared_folder, "--out"):
        claim(shared_folder, config)
        stored.write_json(shared_folder / stored.SETTINGS, settings)
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
            folder = shared_folder / f"seed_{seed}"
            code = stored.start_code(folder, cell_code)
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
                *(cell.task, cell.system, seed, identity.make_key(settings), metrics, diverged, seconds),
                *(stored.describe_machine(), timestamp, settings, code),
            )
            stored.write_json(folder / RESULT, result._asdict())
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


def _format_result(result: RunResult) -> str:
    if result.diverged:
        return f"diverged, {result.diverged}"
    split = next((split for split in ("test", "validation") if result.metrics.get(split)), "no metrics")
    metrics = result.metrics.get(split, {})
    main_metrics = [(name, value) for name, value in metrics.items() if "/" not in name and name != "majority"]
    return f"{split} " + " · ".join(f"{name} {value:.4f}" for name, value in main_metrics)
