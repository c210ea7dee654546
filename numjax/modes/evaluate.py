"""`--mode=eval`: scores a workdir's best checkpoint."""

from __future__ import annotations

import pathlib
from typing import Any

from numjax import api
from numjax.evals import report
from numjax.modes.data import load_data
from numjax.runtime import log


def evaluate_run(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Scores the workdir's best checkpoint on validation and test."""
    model = api.load(folder, config=config)
    splits = load_data(model.system, folder, strict, splits=("validation", "test"))
    compiled = model.compiled(next(d for d in (splits.validation, splits.test) if d is not None))
    results = {}
    for split in ("validation", "test"):
        if (encoded := getattr(splits, split)) is not None:
            results[split] = report.score_split(
                model.system, compiled, model.params, encoded, split, folder, tuned=results
            )
            log.say_metrics(split, results[split])
    log.print_result(results)
    return results
