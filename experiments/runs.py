"""Training runs of an experiment, keyed by system, task, seed and a hash of the config.

A run that is done is never done again, one that was stopped goes on, and a result of another config is never
taken for this one's: its key differs. Seeds differ in initialisation and data order; they share the encoded
data and the compiled step. On disk, under the folder that an experiment is given:

    runs/<task>/<system>-<key>/            config.json, vocabulary/
    runs/<task>/<system>-<key>/seed_<N>/   metrics.jsonl, best/, predictions/ and, once done, result.json
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
from numjax.runtime import files, log
from numjax.system import assemble
from numjax.train.loop import FREE as RESUMABLE
from numjax.train.loop import claim, train
from numjax.train.runs import alone, load_data, set_up

RESULT = "result.json"
# What changes no result. Results stand under keys that these settings changed, though a run may go on with others;
# decoding is left out for tasks that only classify, see `key`.
KEYED = {"decode", "data.memory", "eval.batch_size", "eval.test", "task.answer"}
FREE = (RESUMABLE - KEYED) | {"seed", "init_from", "scheme.pad_multiple"}


class Cell(NamedTuple):
    """One system on one task: a cell of a table, run with several seeds.

    Attributes:
      task, system: names, on disk and in results.
      config: of the run; its seed is set by the seeds asked for.
      start: the cell that pre-trains what this one starts from, run once with seed 0.
    """

    task: str
    system: str
    config: Any
    start: Cell | None = None


class Result(NamedTuple):
    """What one seed of a cell came to.

    Attributes:
      task, system, seed, key: whose it is.
      metrics: split → name → value, of the checkpoint that was best on validation; empty when it diverged.
      diverged: what was said when the loss stopped being finite, else None.
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


Results = dict[tuple[str, str], dict[int, Result]]


def key(cell: Cell) -> str:
    """Twelve hexadecimal digits of everything that a result depends on: the config with all options of its parts,
    said or not, without what changes nothing, the version of the dataset, and the key of what it starts from."""
    config = blocks.filled(cell.config)
    task: Any = build("tasks", cell.config.task)
    free = FREE if task.generates else FREE | {"decode"}
    for *above, name in (setting.split(".") for setting in free):
        place = config
        for block in above:
            place = place[block]
        place.pop(name, None)
    dataset = importlib.import_module(f"numjax.bundled.data.{task.dataset['name']}").Builder
    parts = [config, str(dataset.VERSION), key(cell.start) if cell.start else ""]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:12]


def home(cell: Cell, out: pathlib.Path) -> pathlib.Path:
    """The folder of a cell."""
    return out / "runs" / cell.task / f"{cell.system}-{key(cell)}"


def workdir(cell: Cell, seed: int, out: pathlib.Path) -> pathlib.Path:
    """The folder of a seed, which `numjax.load` takes."""
    return home(cell, out) / f"seed_{seed}"


def read(cell: Cell, seed: int, out: pathlib.Path, here: bool = False) -> Result | None:
    """A seed's result, None where it is not done; `here`: where its parameters are not in `out` either."""
    path = workdir(cell, seed, out) / RESULT
    return None if here and not path.exists() else stored(path, out, key(cell), seed)


def stored(path: pathlib.Path, out: pathlib.Path, name: str, seed: int) -> Result | None:
    """The result that a run has left at `path`, or what `adopt` has brought into `out` under its key `name`."""
    for place in (path, _adopted(out, name, seed)):
        with contextlib.suppress(OSError, json.JSONDecodeError, TypeError):
            return Result(**json.loads(place.read_text()))
    return None


def adopt(tables: Iterable[str], out: pathlib.Path) -> None:
    """Takes over what NAME.json of tables that were made before or on other machines say of their runs.

    A run is known by its key: what was made with another config, or of data in another folder, is not this one.

    Raises:
      UsageError: a file is not there or is not a table's.
    """
    for path in tables:
        try:
            found = [Result(**one) for one in json.loads(pathlib.Path(path).expanduser().read_text())["runs"]]
        except (OSError, json.JSONDecodeError, TypeError, KeyError) as error:
            raise UsageError(f"--known={path}: give NAME.json as tables write it ({error!r:.100})") from None
        for result in found:
            write_json(_adopted(out, result.key, result.seed), result._asdict())


def _adopted(out: pathlib.Path, name: str, seed: int) -> pathlib.Path:
    # A table may name its runs by something else than a key, such as what an embedding is made from.
    return out / "known" / urllib.parse.quote(name, safe="") / f"seed_{seed}.json"


def run(cells: Iterable[Cell], seeds: Sequence[int], out: str | pathlib.Path) -> Results:
    """Results of all cells and seeds, and of what they start from, training those that are not done.

    A seed that diverges is a result too and stops nothing. What cells start from is trained where one of them is yet
    to be done; else its result may be nowhere to be found, and there are none of its seeds.

    Args:
      cells: in the order in which to run; what they start from is run before them.
      seeds: of every cell.
      out: folder of the experiment.

    Raises:
      Preempted: SIGTERM or SIGINT; the next call goes on from there.
      Diverged: a pre-training did, so there is nothing to start from.
      UsageError: another process runs the same cell, or `out` cannot be written.
    """
    folder = pathlib.Path(out).expanduser()
    cells = list(cells)
    unfinished = [cell for cell in cells if any(read(cell, seed, folder) is None for seed in seeds)]
    needed = {key(cell.start) for cell in unfinished if cell.start is not None}
    wanted: list[tuple[Cell, Sequence[int]]] = []
    before: set[str] = set()
    for cell in cells:
        if cell.start is not None and (name := key(cell.start)) not in before:
            before.add(name)
            # What nothing starts from any more is not trained for its own sake; without seeds, none is missing.
            known = name in needed or read(cell.start, 0, folder) is not None
            wanted.append((cell.start, (0,) if known else ()))
        wanted.append((cell, seeds))
    found: Results = {}
    schedule = Schedule()
    missing: list[tuple[Cell, list[int], bool]] = []
    for cell, its_seeds in wanted:
        here = key(cell) in needed  # a table that was made elsewhere brings no parameters to start from
        done = {seed: result for seed in its_seeds if (result := read(cell, seed, folder, here)) is not None}
        found[cell.task, cell.system] = done
        for seed in its_seeds:
            schedule.add(cell, seed, done.get(seed))
        if len(done) < len(its_seeds):
            missing.append((cell, [seed for seed in its_seeds if seed not in done], here))
    log.say(f"{schedule.total} runs, {schedule.done} of them done; in {folder}")
    for cell, its_seeds, here in missing:
        for result in _train(cell, its_seeds, folder, schedule, here):
            found[cell.task, cell.system][result.seed] = result
            if result.diverged and any(other.start is not None and other.start is cell for other, _ in wanted):
                raise Diverged(f"pre-training {cell.system} diverged: {result.diverged}")
    return {name: dict(sorted(of.items())) for name, of in found.items()}


def _train(cell: Cell, seeds: Sequence[int], out: pathlib.Path, schedule: Schedule, here: bool) -> Iterator[Result]:
    place, name = home(cell, out), key(cell)
    config = ConfigDict(cell.config.to_dict())
    if cell.start is not None:
        config.init_from = str(_vocabulary_beside(cell.start, out))
    set_up(config)
    with alone(place, "--out"):
        claim(place, config)
        system = assemble(config, place)
        data = load_data(system, place, strict=False)
        compiled = None
        for seed in seeds:
            if (done := read(cell, seed, out, here)) is not None:  # by another process, since this one looked
                schedule.end(done)
                yield done
                continue
            folder = workdir(cell, seed, out)
            began = time.monotonic()
            metrics: dict[str, dict[str, float]] = {}
            diverged = None
            schedule.begin(cell, seed)
            try:
                metrics, compiled = train(system, data, folder, seed, compiled, note=schedule.note)
            except Diverged as error:
                diverged = str(error)
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            seconds = round(time.monotonic() - began, 1)
            result = Result(cell.task, cell.system, seed, name, metrics, diverged, seconds, machine(), now)
            write_json(folder / RESULT, result._asdict())
            _drop_training_state(folder)
            schedule.end(result)
            log.say(f"{cell.task}/{cell.system} seed {seed}: {_shown(result)} ({log.duration(seconds)})")
            yield result
    # Dozens of systems in one process would keep all their programs; the next one compiles anew anyway.
    jax.clear_caches()


def _vocabulary_beside(start: Cell, out: pathlib.Path) -> pathlib.Path:
    """The pre-trained workdir, which `init_from` wants with its vocabulary in it."""
    folder = workdir(start, 0, out)
    if not (folder / "vocabulary").exists():
        shutil.copytree(home(start, out) / "vocabulary", folder / "vocabulary")
    return folder


def _drop_training_state(folder: pathlib.Path) -> None:
    """Optimiser states are of no use to a finished run; the best parameters stay."""
    best = folder / "best"
    if best.is_dir() and any(path.name.isdigit() for path in best.iterdir()):
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


class Schedule:
    """What is done and what is left, for the overall time on the progress line."""

    def __init__(self) -> None:
        self._cost: dict[tuple[str, str, int], float | None] = {}
        self._now: tuple[str, str, int] | None = None
        self._began = 0.0

    def add(self, cell: Cell, seed: int, result: Result | None) -> None:
        """A run of the plan, and its result where it is done."""
        self._cost[cell.task, cell.system, seed] = None if result is None else result.seconds

    def begin(self, cell: Cell, seed: int) -> None:
        """The run that is being done."""
        self._now, self._began = (cell.task, cell.system, seed), time.monotonic()

    def end(self, result: Result) -> None:
        """It is done."""
        self._cost[result.task, result.system, result.seed] = result.seconds
        self._now = None

    @property
    def total(self) -> int:
        """Runs in all."""
        return len(self._cost)

    @property
    def done(self) -> int:
        """Runs that are done."""
        return sum(cost is not None for cost in self._cost.values())

    def note(self, left: float) -> str:
        """What a progress line says of the whole, `left` seconds before the end of the current run."""
        assert self._now is not None
        task, system, seed = self._now
        this = time.monotonic() - self._began + left
        others = [name for name, cost in self._cost.items() if cost is None and name != self._now]
        overall = left + sum(self._expected(name, this) for name in others)
        place = f"{task}/{system} seed {seed}, run {self.done + 1} of {self.total}"
        return f"{place}, all in {log.duration(overall)}"

    def _expected(self, name: tuple[str, str, int], this: float) -> float:
        """Seconds of a run to come: as its cell's, else its task's, else the current run's."""
        for alike in (2, 1):
            known = [c for n, c in self._cost.items() if c is not None and n[:alike] == name[:alike]]
            if self._now is not None and self._now[:alike] == name[:alike]:
                known.append(this)
            if known:
                return statistics.fmean(known)
        return this


def machine() -> dict[str, Any]:
    """Where a result was made: devices, cores, versions, and the commit of a checkout."""
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
        "commit": _commit(),
    }


def _commit() -> str:
    command = ["git", "-C", str(bundled.HOME), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def write_json(path: pathlib.Path, value: Any) -> None:
    """Writes the whole file or nothing.

    Raises:
      UsageError: it cannot be written.
    """
    try:
        files.write(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): make room or choose another --out") from error


def _shown(result: Result) -> str:
    if result.diverged:
        return f"diverged, {result.diverged}"
    metrics: Mapping[str, float] = result.metrics.get("test") or result.metrics.get("validation") or {}
    plain = [(name, value) for name, value in metrics.items() if "/" not in name and name != "majority"]
    return "test " + " · ".join(f"{name} {value:.4f}" for name, value in plain)
