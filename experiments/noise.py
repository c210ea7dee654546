"""Noise of results: bootstrapped differences between systems, and confidence intervals of a mean over seeds."""

from __future__ import annotations

import json
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from numjax.bundled.experiments import runs
from numjax.bundled.experiments.runs import Results, RunCell

DRAWS = 2000  # bootstrap samples


def bootstrap_differences(
    cells: Sequence[RunCell],
    results: Results,
    out: pathlib.Path,
    reference: str,
    file: str,
    score: Callable[[Mapping[str, Any]], float],
    find_problem: Callable[[str], str] = str,
    find_cell: Callable[[RunCell, int], RunCell] | None = None,
) -> list[dict[str, Any]]:
    """Each system's difference from the reference on its task, in percent, over the test examples that both answered.

    The bootstrap resamples problems, each with all its seeds and examples. "error" is the standard error of the
    reference's mean.

    Args:
      file: name of the file in a run's folder "predictions". Seeds without it are left out.
      score: a line of the file → its score.
      find_problem: an example's id → its problem. Examples of one problem are right or wrong together.
      find_cell: the cell of a seed, where seeds are folds: then each example has one seed. Without it, examples count
        that all seeds answered.
    """
    entries = []
    by_name = {(cell.task, cell.system): cell for cell in cells}
    for (task, system), cell in by_name.items():
        reference_cell = by_name.get((task, reference))
        if system == reference or reference_cell is None:
            continue
        shared_seeds = sorted(results[task, system].keys() & results[task, reference].keys())
        scores_by_seed = {
            seed: [
                _load_scores(find_cell(each, seed) if find_cell else each, seed, out, file, score)
                for each in (cell, reference_cell)
            ]
            for seed in shared_seeds
        }
        seeds = [seed for seed in shared_seeds if all(scores_by_seed[seed])]
        shared_names = {seed: set.intersection(*map(set, scores_by_seed[seed])) for seed in seeds}
        combine = set.intersection if find_cell is None else set.union
        names = sorted(combine(*shared_names.values())) if seeds else []
        if not names:
            continue
        system_scores, reference_scores = (
            100
            * np.asarray(
                [
                    np.mean([scores_by_seed[seed][side][name] for seed in seeds if name in shared_names[seed]])
                    for name in names
                ]
            )
            for side in (0, 1)
        )
        _, problem_index = np.unique([find_problem(name) for name in names], return_inverse=True)
        counts = np.bincount(problem_index)
        gaps, errors = (
            np.bincount(problem_index, x)
            for x in (system_scores - reference_scores, reference_scores - reference_scores.mean())
        )
        draws = np.random.default_rng(0).integers(0, len(counts), (DRAWS, len(counts)))
        low, high = np.percentile(gaps[draws].sum(1) / counts[draws].sum(1), (2.5, 97.5))
        entry = dict(task=task, system=system, items=len(counts), answers=len(names), seeds=seeds)
        entry |= dict(mean=float(gaps.sum() / len(names)), low=float(low), high=float(high))
        entries.append(entry | dict(error=float((errors**2).sum() ** 0.5 / len(names))))
    return entries


def describe_differences(
    entries: Sequence[Mapping[str, Any]], labels: Mapping[str, str], reference: str
) -> list[str]:
    """One remark for each entry of `bootstrap_differences`."""
    remarks = []
    for entry in entries:
        inside = "inside the noise" if entry["low"] <= 0 <= entry["high"] else "outside the noise"
        remarks.append(
            f"{labels[entry['system']]} against {reference} on {entry['task']}, {entry['items']} problems: "
            f"{entry['mean']:+.2f} points, 95% of paired bootstraps {entry['low']:+.2f} to "
            f"{entry['high']:+.2f}: {inside} "
            f"(one mean alone has a standard error of {entry['error']:.2f})."
        )
    return remarks


def describe_interval(seeds: int, per: str = "seed") -> list[str]:
    """A remark on the 95% interval of a mean over `seeds` seeds, in standard deviations; no remark for one seed.

    Args:
      per: what is repeated, such as "seed".
    """
    if seeds < 2:
        return []
    width = float(stats.t.ppf(0.975, seeds - 1)) / math.sqrt(seeds)
    return [
        f"The 95% interval of a mean over {seeds} {per}s is {width:.2f} standard deviations either way (Student's t)."
    ]


def _load_scores(
    cell: RunCell, seed: int, out: pathlib.Path, file: str, score: Callable[[Mapping[str, Any]], float]
) -> dict[str, float]:
    """Id of a test example → score of its answer."""
    path = runs.workdir(cell, seed, out) / "predictions" / file
    if not path.exists():
        return {}
    with open(path, encoding="utf-8") as rows:
        return {row["id"]: score(row) for row in map(json.loads, rows)}
