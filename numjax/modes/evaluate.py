"""`--mode=eval`: scores a workdir's best checkpoint."""

from __future__ import annotations

import pathlib
from typing import Any

from numjax import api
from numjax.errors import UsageError
from numjax.evals import report
from numjax.modes.data import load_data
from numjax.runtime import log


def evaluate_run(config: Any, folder: pathlib.Path, strict: bool) -> dict[str, Any]:
    """Scores the workdir's best checkpoint on validation and test."""
    model = api.load(folder, config=config)
    splits = load_data(model.system, folder, strict, splits=("validation", "test"))
    encoded_splits = [d for d in (splits.validation, splits.test) if d is not None]
    if not encoded_splits:
        raise UsageError("there is neither a validation nor a test split to score: the data are too few for them")
    compiled = model.compiled(encoded_splits[0])
    results = {}
    for split in ("validation", "test"):
        if (encoded := getattr(splits, split)) is not None:
            results[split] = report.score_split(
                model.system, compiled, model.params, encoded, split, folder, tuned=results
            )
            log.say_metrics(split, results[split])
    log.print_result(results)
    return results
