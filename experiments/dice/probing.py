"""Runs of the probes, keyed by everything a result depends on: what is done is not done again.

On disk, under the folder of the experiment: probes/PROBE-HIGH/ROW-KEY/seed_N.json. The seeds of a cell are trained at
once, those that are missing.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import pathlib
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from experiments.runs import Result, Results, machine, write_json
from numjax import log, vectors
from numjax.errors import UsageError
from numjax.probes import probe
from numjax.probes.probe import Sizes

VERSION = 1  # of the probes: counted up where a result would change


class Cell(NamedTuple):
    """An embedding, a probe and a range.

    Attributes:
      row: name of the embedding, on disk and in results. spec: what `numjax.vectors` makes it from.
      probe: one of `numjax.probes.probe.PROBES`. high: the range is 0 … high.
    """

    row: str
    spec: str
    probe: str
    high: int

    @property
    def task(self) -> str:
        """The probe and its range, as the results name it."""
        return f"{self.probe}-{self.high}"


def key(cell: Cell, sizes: Sizes, as_published: bool) -> str:
    """Twelve hexadecimal digits of what a result depends on; of a table, its size and time too."""
    path = pathlib.Path(cell.spec.removeprefix("table:path=")).expanduser()
    stamp = [path.stat().st_size, path.stat().st_mtime_ns] if path.is_file() else []
    parts = [VERSION, *cell[1:], sizes, as_published, stamp]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def read(path: pathlib.Path) -> Result | None:
    """A seed's result, None where it is not done."""
    try:
        return Result(**json.loads(path.read_text()))
    except (OSError, json.JSONDecodeError, TypeError):
        return None


def run(
    cells: Iterable[Cell], seeds: Sequence[int], out: pathlib.Path, sizes: Sizes, as_published: bool = False
) -> Results:
    """Results of all cells, training the seeds that are not done; those of a cell at once.

    Raises:
      UsageError, DataError: an embedding or a table that cannot be used.
    """
    cells, found = list(cells), {}
    for number, cell in enumerate(cells, 1):
        name = key(cell, sizes, as_published)
        folder = out / "probes" / cell.task / f"{cell.row}-{name}"
        done = {seed: made for seed in seeds if (made := read(folder / f"seed_{seed}.json")) is not None}
        missing = [seed for seed in seeds if seed not in done]
        if missing:
            log.say(f"{cell.task}/{cell.row}, cell {number} of {len(cells)}")
            began = time.monotonic()
            numbers, made = embedded(cell)
            results = probe.run(cell.probe, made, numbers, missing, sizes, as_published)
            seconds = round((time.monotonic() - began) / len(missing), 1)
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            for result in results:
                splits = {"test": result.test, "validation": result.validation}
                metrics = {split: {"score": value} for split, value in splits.items()}
                metrics["training"] = {"best_epoch": result.best_epoch, "epochs": result.epochs}
                metrics["training"]["numbers"] = len(numbers)
                diverged = None if result.best_epoch else "no epoch had a finite score"
                if diverged:
                    metrics = {}
                of = Result(cell.task, cell.row, result.seed, name, metrics, diverged, seconds, machine(), now)
                write_json(folder / f"seed_{result.seed}.json", of._asdict())
                done[result.seed] = of
            shown = ", ".join(f"{result.test:.4g}" for result in results)
            log.say(f"{cell.task}/{cell.row}: test {shown} ({log.duration(seconds * len(missing))})")
        found[cell.task, cell.row] = dict(sorted(done.items()))
    return found


def embedded(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """(the numbers of the range that have a vector, their vectors); numbers without are counted and named.

    Raises:
      UsageError: the range is empty.
    """
    if cell.high < 1:
        raise UsageError(f"the range 0 … {cell.high} is empty: give its highest number, 99 or more")
    numbers = np.arange(cell.high + 1)
    source = vectors.make(cell.spec, low=0.0, high=float(cell.high))
    known = source.known(numbers)
    if not known.all():
        lacking = vectors.named([str(n) for n in numbers[~known]])
        log.say(f"{cell.spec} has no vector of {lacking} from 0 to {cell.high}: left out")
    return numbers[known], source(numbers[known])
