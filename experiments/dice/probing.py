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
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.bundled.experiments.runs import Result, machine, stored, write_json
from numjax.errors import UsageError
from numjax.inspect import vectors
from numjax.probes import probe
from numjax.probes.probe import Sizes
from numjax.runtime import log

VERSION = 1  # of the probes: counted up where a result would change


class Cell(NamedTuple):
    """An embedding, a probe and a range.

    Attributes:
      row: name of the embedding, on disk and in results. spec: what `numjax.inspect.vectors` makes it from.
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
    # With the patience of version 2; the published one stayed.
    version = VERSION + (cell.probe in probe.LONGER and not as_published)
    parts = [version, *cell[1:], sizes, as_published, stamp]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]


def run(
    cell: Cell, seeds: Sequence[int], out: pathlib.Path, sizes: Sizes, as_published: bool = False
) -> dict[int, Result]:
    """A cell's results by seed, training those that are not done, at once.

    Raises:
      UsageError, DataError: an embedding or a table that cannot be used.
    """
    name = key(cell, sizes, as_published)
    folder = out / "probes" / cell.task / f"{cell.row}-{name}"
    done = {seed: made for seed in seeds if (made := stored(folder / f"seed_{seed}.json", out, name, seed))}
    missing = [seed for seed in seeds if seed not in done]
    if not missing:
        return done
    began = time.monotonic()
    numbers, made = embedded(cell)
    results = probe.run(cell.probe, made, numbers, missing, sizes, as_published)
    seconds = round((time.monotonic() - began) / len(missing), 1)
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    for result in results:
        metrics: dict[str, dict[str, float]] = {}
        if result.best_epoch:
            metrics = {split: {"score": getattr(result, split)} for split in ("test", "validation")}
            counts = {"best_epoch": result.best_epoch, "epochs": result.epochs, "numbers": len(numbers)}
            metrics["training"] = {name: float(count) for name, count in counts.items()}
        diverged = None if metrics else "no epoch had a finite score"
        of = Result(cell.task, cell.row, result.seed, name, metrics, diverged, seconds, machine(), now)
        write_json(folder / f"seed_{result.seed}.json", of._asdict())
        done[result.seed] = of
    shown = ", ".join(f"{result.test:.4g}" for result in results)
    log.say(f"{cell.task}/{cell.row}: test {shown} ({log.duration(seconds * len(missing))})")
    return dict(sorted(done.items()))


def embedded(cell: Cell) -> tuple[np.ndarray, np.ndarray]:
    """(the numbers of the range that have a vector, their vectors); numbers without are counted and named.

    Raises:
      UsageError: the range is empty.
    """
    if cell.high < 1:
        raise UsageError(f"the range 0 … {cell.high} is empty: give its highest number, 99 or more")
    # An embedding of a range is given the probe's; `low` and `high` of others mean other things.
    span: dict[str, Any] = {"low": 0.0, "high": float(cell.high)} if vectors.has(cell.spec, "out_of_range") else {}
    source = vectors.make(cell.spec, **span)
    numbers = list(range(cell.high + 1))
    known = source.known(numbers)
    if not known.all():
        lacking = [number for number, there in zip(numbers, known, strict=True) if not there]
        log.say(f"{cell.spec} has no vector of {vectors.named(list(map(str, lacking)))} of 0 … {cell.high}: left out")
        numbers = [number for number, there in zip(numbers, known, strict=True) if there]
    return np.asarray(numbers), source(numbers)
