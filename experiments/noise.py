"""What is inside the noise: differences by test problem between systems, and intervals of a mean over seeds."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from numjax.bundled.experiments import runs
from numjax.bundled.experiments.runs import Cell, Results

DRAWS = 2000  # of the bootstrap


def differences(
    asked: Sequence[Cell],
    results: Results,
    out: pathlib.Path,
    reference: str,
    file: str,
    score: Callable[[Mapping[str, Any]], float],
    problem: Callable[[str], str] = str,
) -> list[dict[str, Any]]:
    """Each system's difference from the reference on its task over the test examples that both answered, in percent,
    resampled by problem with all its seeds and examples; "error" is the standard error of the reference's mean.

    Args:
      file: of predictions, in the folder of that name of a run. Seeds without them are left out.
      score: of one line of it. problem: of an example's id: examples of one problem are right or wrong together.
    """
    found = []
    by_name = {(cell.task, cell.system): cell for cell in asked}
    for (task, system), cell in by_name.items():
        other = by_name.get((task, reference))
        if system == reference or other is None:
            continue
        both = sorted(results[task, system].keys() & results[task, reference].keys())
        scored = {seed: [_scores(one, seed, out, file, score) for one in (cell, other)] for seed in both}
        seeds = [seed for seed in both if all(scored[seed])]
        sides = list(zip(*(scored[seed] for seed in seeds), strict=True))
        names = sorted(set.intersection(*(set(of) for side in sides for of in side))) if seeds else []
        if not names:
            continue
        mine, theirs = (100 * np.mean([[of[name] for name in names] for of in side], 0) for side in sides)
        _, at = np.unique([problem(name) for name in names], return_inverse=True)
        views = np.bincount(at)
        apart, errors = (np.bincount(at, x) for x in (mine - theirs, theirs - theirs.mean()))
        drawn = np.random.default_rng(0).integers(0, len(views), (DRAWS, len(views)))
        low, high = np.percentile(apart[drawn].sum(1) / views[drawn].sum(1), (2.5, 97.5))
        one = dict(task=task, system=system, items=len(views), answers=len(names), seeds=seeds)
        one |= dict(mean=float(apart.sum() / len(names)), low=float(low), high=float(high))
        found.append(one | dict(error=float((errors**2).sum() ** 0.5 / len(names))))
    return found


def lines(found: Sequence[Mapping[str, Any]], labels: Mapping[str, str], reference: str) -> list[str]:
    """A remark for each of `differences`."""
    said = []
    for one in found:
        inside = "inside the noise" if one["low"] <= 0 <= one["high"] else "outside the noise"
        said.append(
            f"{labels[one['system']]} against {reference} on {one['task']}, {one['items']} problems: "
            f"{one['mean']:+.2f} points, 95% of paired bootstraps {one['low']:+.2f} to {one['high']:+.2f}: {inside} "
            f"(one mean alone has a standard error of {one['error']:.2f})."
        )
    return said


def interval(seeds: int) -> list[str]:
    """A remark on the 95% interval of a mean over so many seeds, in standard deviations; none for one seed."""
    if seeds < 2:
        return []
    width = float(stats.t.ppf(0.975, seeds - 1)) / math.sqrt(seeds)
    return [
        f"The 95% interval of a mean over {seeds} seeds is {width:.2f} standard deviations either way (Student's t)."
    ]


def _scores(
    cell: Cell, seed: int, out: pathlib.Path, file: str, score: Callable[[Mapping[str, Any]], float]
) -> dict[str, float]:
    """Test example → what its answer scores."""
    path = runs.workdir(cell, seed, out) / "predictions" / file
    if not path.exists():
        return {}
    with open(path, encoding="utf-8") as rows:
        return {row["id"]: score(row) for row in map(json.loads, rows)}
