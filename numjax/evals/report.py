"""A split scored as its task asks: losses, the task's own metrics, and predictions on disk."""

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
from numjax.runtime import files, log
from numjax.system import System, reader
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
) -> dict[str, float]:
    """Metrics of a split by name; predictions go to `workdir`/predictions/<task>.jsonl when it is given.

    Args:
      tuned: the metrics of other splits; what the task's `tuned` names of validation's is given to its `score` and
        `read`, else its default there, which is said. With `workdir`, validation's are kept there, see
        `evals/tuned.py`.
      limit: score only the first so many examples (0: all), for validation during training.
      generate: let a task that writes its answers write them; else its metrics are those of the losses.
    """
    config, task = system.config, system.task
    read = task.read if task.provides("read") else None
    loader = reader(system, encoded, compiled.mesh)
    metrics, log_probs = evaluate(system, compiled, params, loader.epoch(config.eval.batch_size, limit))
    if task.generates and not generate:
        return metrics
    if task.generates:
        from numjax.evals.generate import predict

        predictions, extra = predict(system, params, encoded, limit)
    else:
        predictions, extra = predicted(encoded, log_probs, read)
    if predictions:
        order = sorted(predictions)
        references = [encoded.example(i).reference for i in order]
        # Some metrics rank predictions.
        more: dict[str, Any] = {"log_probs": [log_probs[i] for i in order]} if task.reads_probabilities else {}
        defaults = task.tuned
        if split != "validation":  # which chooses
            more |= _given(defaults, (tuned or {}).get("validation", {}), split)
        metrics |= task.score([predictions[i] for i in order], references, **more)
        chosen = {name: metrics[name] for name in defaults}
        if chosen and read is not None:
            # Told as they are scored.
            predictions, extra = predicted(encoded, log_probs, functools.partial(read, **chosen))
        if workdir is not None and jax.process_index() == 0:
            if chosen and split == "validation":
                choices.keep(workdir, chosen)
            _write(system, encoded, split, workdir, predictions, extra)
    return metrics


def _given(defaults: Mapping[str, float], of_validation: Mapping[str, float], split: str) -> dict[str, float]:
    """What validation chose, else the default: a split must not choose for itself what it is scored with."""
    if lacking := [f"{name} {default:g}" for name, default in defaults.items() if name not in of_validation]:
        log.say(f"{split}: nothing was chosen on validation: scored with the default, {', '.join(lacking)}")
    return {name: of_validation.get(name, default) for name, default in defaults.items()}


def predicted(
    encoded: Encoded, said: Mapping[int, np.ndarray], read: Callable[..., Any] | None = None
) -> tuple[dict[int, Any], dict[int, dict[str, Any]]]:
    """(what is predicted of rows, what else is to be told), from what a head says of each.

    Classes for a classifier's log-probabilities. For spans (see `heads/span.py`) the characters of the text as it
    was, without blanks at the ends; of the windows of one text the one with the largest score, under its row. `read`:
    the task's own way, see `protocols.Task`.
    """
    if read is not None:
        pairs = {i: read(encoded.example(i), row) for i, row in said.items()}
        return {i: found for i, (found, _) in pairs.items()}, {i: more for i, (_, more) in pairs.items()}
    if encoded.kind != "span":
        extra = {i: {"confidence": float(np.exp(np.max(row)))} for i, row in said.items()}
        return {i: int(np.argmax(row)) for i, row in said.items()}, extra
    columns = encoded.columns
    best: dict[int, int] = {}
    for i in sorted(said):
        text = int(encoded.origin[i])
        if text not in best or said[i][2] > said[best[text]][2]:
            best[text] = i
    out, more = {}, {}
    for i in sorted(best.values()):
        first, last, score, log_prob = said[i].tolist()
        assert columns.offsets is not None
        offsets = columns.offsets[columns.starts[i] : columns.starts[i + 1]]
        surface = documents.surface(encoded.example(i).document)
        out[i] = surface[offsets[int(first), 0] : offsets[int(last), 1]].strip()
        more[i] = {"score": score, "confidence": math.exp(log_prob)}
    return out, more


def _write(system, encoded, split, workdir, predictions, extra):
    name = system.config.task.get("dataset", system.config.task.name)
    path = workdir / "predictions" / (f"{name}.jsonl" if split == "test" else f"{name}.{split}.jsonl")

    def lines():
        for i in sorted(predictions):
            example = encoded.example(i)
            row = {"id": example.id, "prediction": predictions[i], "reference": example.reference}
            yield log.line(row | extra.get(i, {})) + "\n"

    try:
        files.write(path, lines())
    except OSError as error:
        raise UsageError(f"cannot write {path} ({error.strerror}): make room and run --mode=eval again") from error
