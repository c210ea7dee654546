"""`--mode=train`: trains the seeds of a config, one after the other."""

from __future__ import annotations

import math
import pathlib
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from numjax.errors import Diverged
from numjax.evals import report
from numjax.modes.data import load_data
from numjax.runtime import files, log
from numjax.system import assemble
from numjax.train.loop import train


def train_seeds(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Trains config.num_seeds seeds one after the other with the same compiled step. If a seed diverges, it is
    reported and the others go on. With one seed the run is in `folder`, else in folder/seed_0, …."""
    system = assemble(config, folder)
    splits = load_data(system, folder, strict)
    if config.num_seeds == 1:
        results, _ = train(system, splits, folder, config.seed, report.score_split)
        return results
    compiled, outcomes, diverged = None, {}, {}
    for i in range(config.num_seeds):
        seed = config.seed + i
        log.say(f"seed {seed} ({i + 1} of {config.num_seeds})")
        try:
            outcomes[seed], compiled = train(
                system, splits, folder / f"seed_{seed}", seed, report.score_split, compiled
            )
        except Diverged as error:
            diverged[seed] = str(error)
            log.say(f"seed {seed} diverged: {error}")
    summary = summarise(outcomes)
    results_by_seed = {"seeds": outcomes, "diverged": diverged, "summary": summary}
    if jax.process_index() == 0:
        files.write(folder / "seeds.json", log.to_json(results_by_seed, indent=1) + "\n")
    for split, metrics in summary.items():
        metrics_text = " · ".join(f"{k} {v['mean']:.4f}{_format_std(v)}" for k, v in metrics.items())
        log.say(f"{split} over {len(outcomes)} seeds: {metrics_text}")
    if diverged and not outcomes:
        raise Diverged(f"all {config.num_seeds} seeds diverged: lower config.optim.learning_rate in a new workdir")
    return results_by_seed


def _format_std(figures: Mapping[str, float]) -> str:
    return f" ± {figures['std']:.4f}" if figures["n"] > 1 else ""


def summarise(outcomes: dict[int, dict[str, dict[str, float]]]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean and sample standard deviation over seeds of every metric, by split. Of one value the deviation is NaN."""
    out: dict[str, dict[str, dict[str, float]]] = {}
    for split in {split for results in outcomes.values() for split in results}:
        names = {name for results in outcomes.values() for name in results.get(split, {})}
        for name in sorted(names):
            values = [results[split][name] for results in outcomes.values() if name in results.get(split, {})]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
            out.setdefault(split, {})[name] = {"mean": float(np.mean(values)), "std": spread, "n": len(values)}
    return out
