"""Trials of settings before a table's runs, and when its rows may be ranked.

The rule: every row of a table gets the same trials of the same settings. A trial is a run with one seed that no
table has, and its test split is never scored. The settings with the best score on validation, by the metric that
chooses the epoch, are those of the row. A table records how many trials each row had; rows with unequal numbers are
not ranked.
"""

from __future__ import annotations

import argparse
import itertools
import math
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ml_collections import ConfigDict

from numjax.build import build
from numjax.bundled.experiments import runs, stored
from numjax.bundled.experiments.runs import RunCell
from numjax.bundled.experiments.stored import RunResult
from numjax.errors import UsageError
from numjax.tools.command import Parser

SEED = 1000  # of trials


def add_option(parser: Parser, grid: Mapping[str, Sequence[Any]]) -> None:
    """Adds --trials to a parser."""
    most = math.prod(map(len, grid.values()))
    parser.add_argument(
        "--trials",
        type=int,
        default=0,
        help=f"of settings, the same for every row, chosen on validation; {most} try all values of {', '.join(grid)}",
    )


def list_trials(grid: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    """The first `count` combinations of a grid of settings, path → value.

    Raises:
      UsageError: there are not so many.
    """
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    if not 0 <= count <= len(combinations):
        raise UsageError(f"--trials={count}: give 0 to {len(combinations)}, which is all combinations")
    return combinations[:count]


def choose_settings(
    cells: Sequence[RunCell],
    grid: Mapping[str, Sequence[Any]],
    count: int,
    out: pathlib.Path,
    find_tried: Callable[[RunCell], RunCell] = lambda cell: cell,
) -> tuple[list[RunCell], dict[str, Any]]:
    """(the cells with the settings that are best on validation, the JSON's entries of `pack_trials`).

    Args:
      grid: path of a setting → values to try. count: how many combinations, the same for each cell.
      out: folder of the experiment; trials lie in its folder "trials".
      find_tried: the cell on which the settings of a cell are tried; by default the cell itself.

    Raises:
      UsageError: there are not so many combinations, or all trials of a cell diverged.
    """
    combinations = list_trials(grid, count)
    chosen_cells, records, results = [], {}, {}
    for cell, tried in ((cell, find_tried(cell)) for cell in cells):
        trial_cells = [_make_trial(tried, number, changes) for number, changes in enumerate(combinations)]
        results |= runs.run(trial_cells, [SEED], out / stored.TRIALS)
        metric = build("tasks", tried.config.task).metric
        scores = [_score(results[trial.task, trial.system][SEED], metric) for trial in trial_cells]
        name = f"{tried.task}/{tried.system}"
        best, records[name] = choose_best(name, combinations, scores, metric)
        chosen_cells.append(cell._replace(config=change_config(cell.config, best)))
    return chosen_cells, pack_trials(records, [r for by_seed in results.values() for r in by_seed.values()])


def pack_trials(records: Mapping[str, list[dict[str, Any]]], results: Sequence[RunResult]) -> dict[str, Any]:
    """The JSON's entries of trials: their records, and their runs, which `--known` takes over.

    Args:
      records: "task/system" → its trials, as `choose_best` gives them.
    """
    return {"trial_records": dict(records), "trial_runs": stored.pack(results)}


def choose_best(
    name: str, combinations: Sequence[Mapping[str, Any]], scores: Sequence[float], metric: str
) -> tuple[Mapping[str, Any], list[dict[str, Any]]]:
    """(the settings of the best trial, all trials with settings and scores).

    Args:
      name: of what is tried. scores: larger is better; one that is not finite is of a trial that diverged, or in
        which nothing was counted: it is never chosen, and its record is None. metric: of the scores, with a minus in
        front if they are its negative.

    Raises:
      UsageError: all trials diverged.
    """
    finite = [score if math.isfinite(score) else -math.inf for score in scores]
    if math.isinf(max(finite)):
        raise UsageError(f"{name}: all {len(scores)} trials diverged: try other settings")
    best = finite.index(max(finite))
    return combinations[best], [
        {
            "settings": changes,
            metric.lstrip("-"): abs(score) if math.isfinite(score) else None,
            "chosen": number == best,
        }
        for number, (changes, score) in enumerate(zip(combinations, scores, strict=True))
    ]


def prepare(
    cells: Sequence[RunCell],
    options: argparse.Namespace,
    grid: Mapping[str, Sequence[Any]],
    labels: Mapping[str, str],
    manual_trials: Mapping[str, int],
    find_tried: Callable[[RunCell], RunCell] = lambda cell: cell,
) -> tuple[list[RunCell], dict[str, Any]]:
    """(the cells as they are run, the JSON's entries on trials).

    Args:
      options: with `trials` and `out`.
      labels: system → label of its row.
      manual_trials: label → number of settings that were tried on a row by hand. They count beside the trials, unless
        these are the whole grid.
      find_tried: as in `choose_settings`.
    """
    if not options.trials:
        return list(cells), {
            "trials": dict.fromkeys(labels.values(), 0) | dict(manual_trials) if manual_trials else {}
        }
    chosen_cells, entries = choose_settings(cells, grid, options.trials, options.out, find_tried)
    is_whole = options.trials == math.prod(map(len, grid.values()))
    names = [labels[system] for system in dict.fromkeys(cell.system for cell in cells)]
    counts = {name: options.trials + (0 if is_whole else manual_trials.get(name, 0)) for name in names}
    return chosen_cells, {"trials": counts, **entries}


def select(counts: Mapping[str, Any], task: str) -> Mapping[str, int]:
    """The trials of a table's rows on a task: label → number. A JSON has these, or these by task."""
    return counts.get(task, {}) if is_by_task(counts) else counts


def is_by_task(counts: Mapping[str, Any]) -> bool:
    """Whether a JSON's trials are those of each task."""
    return any(isinstance(count, Mapping) for count in counts.values())


def is_fair(counts: Mapping[str, int]) -> bool:
    """Whether all rows of a table had equally many trials."""
    return len(set(counts.values())) < 2


def describe(counts: Mapping[str, int]) -> str:
    """How many trials the rows of a table had, in words; empty if none had any."""
    counts_above_zero = {label: count for label, count in counts.items() if count}
    if not counts_above_zero:
        return ""
    if is_fair(counts):
        count = next(iter(counts_above_zero.values()))
        same = "trial" if count == 1 else f"{count} trials"
        return f"every row had the same {same} of settings, chosen on validation"
    parts = [f"{label} ({count} trial{'s' * (count > 1)})" for label, count in counts_above_zero.items()]
    return f"settings were chosen for {', '.join(parts)}, and for no other row"


def describe_ranking(counts: Mapping[str, int], where: str = "") -> str:
    """A sentence on the trials of rows and whether these rank them; empty if none had any.

    Args:
      where: what the rows are of, such as " on mme".
    """
    text = describe(counts)
    heading = f"Settings{where}" if is_fair(counts) else f"**These rows cannot be ranked{where}**"
    return f"{heading}: {text}." * bool(text)


def change_config(config: Any, changes: Mapping[str, Any]) -> ConfigDict:
    """A copy of a config with other values, by path."""
    changed = ConfigDict(config.to_dict())
    changed.update_from_flattened_dict(dict(changes))
    return changed


def _make_trial(cell: RunCell, number: int, changes: Mapping[str, Any]) -> RunCell:
    config = change_config(cell.config, {**changes, "eval.test": False})
    return cell._replace(system=f"{cell.system}-trial{number}", config=config)


def _score(result: RunResult, metric: str) -> float:
    """The validation score of a trial, larger is better."""
    if result.diverged:
        return -math.inf
    sign = -1.0 if metric.startswith("-") else 1.0
    return sign * result.metrics["validation"][metric.lstrip("-")]
