"""Runs of the probes, keyed by everything a result depends on; finished runs are not repeated.

On disk, under the folder of the experiment: probes/PROBE-HIGH/ROW-KEY/seed_N.json. The missing seeds of a cell are
trained together.
"""

from __future__ import annotations

import datetime
import pathlib
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.bundled.experiments import identity, stored
from numjax.bundled.experiments.stored import RunResult
from numjax.errors import UsageError
from numjax.inspect import vectors
from numjax.probes import probe
from numjax.probes.probe import ProbeSizes
from numjax.runtime import log

VERSION = 1  # of the probes: increased when results change


class ProbeCell(NamedTuple):
    """An embedding, a probe and a range.

    Attributes:
      row: name of the embedding, on disk and in results. spec: its specification for `numjax.inspect.vectors`.
      probe: one of `numjax.probes.probe.PROBES`. high: the range is 0 … high.
    """

    row: str
    spec: str
    probe: str
    high: int

    @property
    def task(self) -> str:
        """Name of the probe and its range in results."""
        return f"{self.probe}-{self.high}"


def list_settings(cell: ProbeCell, sizes: ProbeSizes, as_published: bool) -> dict[str, Any]:
    """What a result depends on; of a table of vectors the content."""
    path = pathlib.Path(cell.spec.removeprefix("table:path=")).expanduser()
    # These probes have the patience of version 2; the published version did not change.
    version = VERSION + (cell.probe in probe.LONG_PATIENCE and not as_published)
    spec = {"spec": "table", "table": identity.digest_folder(str(path))} if path.is_file() else {"spec": cell.spec}
    return {"version": version, "probe": cell.probe, "high": cell.high, **spec, **sizes._asdict()} | {
        "as_published": as_published
    }


def run(
    cell: ProbeCell, seeds: Sequence[int], out: pathlib.Path, sizes: ProbeSizes, as_published: bool = False
) -> dict[int, RunResult]:
    """Trains the missing seeds of a cell together; returns its results by seed.

    Raises:
      UsageError, DataError: an embedding or a table cannot be used.
    """
    settings = list_settings(cell, sizes, as_published)
    key = identity.make_key(settings)
    folder = out / "probes" / cell.task / f"{cell.row}-{key}"
    results_by_seed = {
        seed: stored_result
        for seed in seeds
        if (
            stored_result := stored.load_result(
                folder / f"seed_{seed}.json", out, stored.Request(cell.task, cell.row, seed, settings)
            )
        )
    }
    missing_seeds = [seed for seed in seeds if seed not in results_by_seed]
    if not missing_seeds:
        return results_by_seed
    code = identity.list_code(("numjax.probes.probe", *identity.list_vector_roots(cell.spec)))
    start = time.monotonic()
    numbers, number_vectors = embed_numbers(cell)
    results = probe.run(cell.probe, number_vectors, numbers, missing_seeds, sizes, as_published)
    seconds = round((time.monotonic() - start) / len(missing_seeds), 1)
    timestamp = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    for result in results:
        metrics: dict[str, dict[str, float]] = {}
        if result.best_epoch:
            metrics = {split: {"score": getattr(result, split)} for split in ("test", "validation")}
            counts = {"best_epoch": result.best_epoch, "epochs": result.epochs, "numbers": len(numbers)}
            metrics["training"] = {name: float(count) for name, count in counts.items()}
        diverged = None if metrics else "no epoch had a finite score"
        run_result = RunResult(
            *(cell.task, cell.row, result.seed, key, metrics, diverged, seconds),
            *(stored.describe_machine(), timestamp, settings, code),
        )
        stored.write_json(folder / f"seed_{result.seed}.json", run_result._asdict())
        results_by_seed[result.seed] = run_result
    scores = ", ".join(f"{result.test:.4g}" for result in results)
    log.say(f"{cell.task}/{cell.row}: test {scores} ({log.format_duration(seconds * len(missing_seeds))})")
    return dict(sorted(results_by_seed.items()))


def embed_numbers(cell: ProbeCell) -> tuple[np.ndarray, np.ndarray]:
    """(the numbers of the range that have a vector, their vectors); prints which numbers have none.

    Raises:
      UsageError: the range is empty.
    """
    if cell.high < 1:
        raise UsageError(f"the range 0 … {cell.high} is empty: give its highest number, 99 or more")
    # An embedding of a range gets the probe's range; in other embeddings `low` and `high` mean other things.
    span: dict[str, Any] = (
        {"low": 0.0, "high": float(cell.high)} if vectors.has_options(cell.spec, "out_of_range") else {}
    )
    source = vectors.make(cell.spec, **span)
    numbers = list(range(cell.high + 1))
    mask = source.has_vector(numbers)
    if not mask.all():
        missing_numbers = [number for number, has_vector in zip(numbers, mask, strict=True) if not has_vector]
        log.say(
            f"{cell.spec} has no vector of {vectors.summarise_numbers(list(map(str, missing_numbers)))} of "
            f"0 … {cell.high}: left out"
        )
        numbers = [number for number, has_vector in zip(numbers, mask, strict=True) if has_vector]
    return np.asarray(numbers), source(numbers)
