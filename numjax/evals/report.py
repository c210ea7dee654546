"""Scores a split: losses, the task's own metrics, and predictions on disk."""

from __future__ import annotations

import functools
import math
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from numjax.errors import UsageError
from numjax.evals import tuned as choices
from numjax.evals.score import evaluate
from numjax.pipeline.features import Encoded
from numjax.runtime import files, log, program
from numjax.runtime.waiting import Wait
from numjax.system import System, make_loader
from numjax.text import document as documents
from numjax.train.compile import Compiled


def score_split(
    system: System,
    compiled: Compiled,
    params: Any,
    encoded: Encoded,
    split: str,
    workdir: pathlib.Path | None,
    limit: int = 0,
    tuned: Mapping[str, Mapping[str, float]] | None = None,
    generate: bool = True,
    losses: bool = True,
) -> dict[str, float]:
    """Metrics of a split by name; writes predictions to `workdir`/predictions/<task>.jsonl if there is a workdir.

    Args:
      tuned: split → metrics that are known already. The task's `score` and `make_prediction` get the values that the
        task's `tuned` names from the validation metrics. A missing one is replaced by its default, which is reported.
        With `workdir`, the validation values are saved there, see `evals/tuned.py`.
      limit: score only the first `limit` examples (0: all), for validation during training.
      generate: generate the answers of a task that generates them; else its metrics are only those of the losses.
      losses: compute the losses too; a task that does not generate needs them for its predictions.
    """
    config, task = system.config, system.task
    make_prediction = task.make_prediction if task.provides("make_prediction") else None
    metrics, log_probs = {}, {}
    if losses or not task.generates or task.reads_probabilities:
        loader, size = make_loader(system, encoded, compiled.mesh), config.eval.batch_size
        with Wait(f"scoring {split}", min(limit or len(encoded), len(encoded)), "rows") as wait:
            metrics, log_probs = evaluate(system, compiled, params, wait.count(loader.epoch(size, limit), size))
    if task.generates and not generate:
        return metrics
    if task.generates:
        from numjax.evals.generate import predict

        predictions, extra = predict(system, params, encoded, limit)
    else:
        predictions, extra = make_predictions(encoded, log_probs, make_prediction)
    if predictions:
        order = sorted(predictions)
        references = [encoded.example(i).reference for i in order]
        # Some metrics rank the predictions.
        arguments: dict[str, Any] = {"log_probs": [log_probs[i] for i in order]} if task.reads_probabilities else {}
        defaults = task.tuned
        if split != "validation":  # validation chooses the values
            arguments |= _tuned_arguments(defaults, (tuned or {}).get("validation", {}), split)
        metrics |= task.score([predictions[i] for i in order], references, **arguments)
        tuned_values = {name: metrics[name] for name in defaults}
        if tuned_values and make_prediction is not None:
            # Report the predictions with the values that they were scored with.
            predictions, extra = make_predictions(
                encoded, log_probs, functools.partial(make_prediction, **tuned_values)
            )
        if workdir is not None and jax.process_index() == 0:
            if tuned_values and split == "validation":
                choices.save(workdir, tuned_values)
            _write(system, encoded, split, workdir, predictions, extra)
    return metrics


def _tuned_arguments(
    defaults: Mapping[str, float], validation_values: Mapping[str, float], split: str
) -> dict[str, float]:
    """The values that validation chose, else the defaults: a split must not choose the values that it is scored
    with."""
    if missing := [f"{name} {default:g}" for name, default in defaults.items() if name not in validation_values]:
        log.say(f"{split}: nothing was chosen on validation: scored with the default, {', '.join(missing)}")
    return {name: validation_values.get(name, default) for name, default in defaults.items()}


def make_predictions(
    encoded: Encoded, outputs: Mapping[int, np.ndarray], make_prediction: Callable[..., Any] | None = None
) -> tuple[dict[int, Any], dict[int, dict[str, Any]]]:
    """(row → prediction, row → other fields to report), from the output of the head for each row.

    The prediction of a classifier is the most probable class. For spans (see `heads/span.py`) it is the characters of
    the original text, without blanks at the ends; of the windows of a text only the one with the largest score is
    returned, under its own row. `make_prediction`: the task's own method, see `protocols.Task`.
    """
    if make_prediction is not None:
        pairs = {i: make_prediction(encoded.example(i), row) for i, row in outputs.items()}
        return {i: prediction for i, (prediction, _) in pairs.items()}, {
            i: fields for i, (_, fields) in pairs.items()
        }
    if encoded.kind != "span":
        extra = {i: {"confidence": float(np.exp(np.max(row)))} for i, row in outputs.items()}
        return {i: int(np.argmax(row)) for i, row in outputs.items()}, extra
    columns = encoded.columns
    best: dict[int, int] = {}
    for i in sorted(outputs):
        text = int(encoded.origin[i])
        if text not in best or outputs[i][2] > outputs[best[text]][2]:
            best[text] = i
    predictions, fields = {}, {}
    for i in sorted(best.values()):
        first, last, score, log_prob = outputs[i].tolist()
        assert columns.offsets is not None
        offsets = columns.offsets[columns.starts[i] : columns.starts[i + 1]]
        surface = documents.surface(encoded.example(i).document)
        predictions[i] = surface[offsets[int(first), 0] : offsets[int(last), 1]].strip()
        fields[i] = {"score": score, "confidence": math.exp(log_prob)}
    return predictions, fields


def _write(system, encoded, split, workdir, predictions, extra):
    name = system.config.task.get("dataset", system.config.task.name)
    path = workdir / "predictions" / (f"{name}.jsonl" if split == "test" else f"{name}.{split}.jsonl")

    def lines():
        for i in sorted(predictions):
            example = encoded.example(i)
            row = {"id": example.id, "prediction": predictions[i], "reference": example.reference}
            yield log.to_json(row | extra.get(i, {})) + "\n"

    try:
        files.write(path, lines())
    except OSError as error:
        raise UsageError(
            f"cannot write {path} ({error.strerror}): make room and run {program.mode_of('eval')} again"
        ) from error
