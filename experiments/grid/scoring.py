"""The metrics of a cell, from the answers that a model wrote by itself, token after token."""

from __future__ import annotations

import hashlib
import math
import statistics
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from numjax.bundled.experiments.grid.problems import Record, list_streams
from numjax.metrics import number_errors
from numjax.tasks.arithmetic import SEPARATOR, score_answer, score_regressions
from numjax.text import document as documents
from numjax.types import Number

METRICS = (
    *("exact", "well_formed", "digits", "relative_error_median", "within_1_percent", "log_error", "log_smape"),
    *("sign_errors", "calibration_error", "r2", "scaled_error"),
)
EXAMPLES = 12
CLOSE = 0.01


class Answer(NamedTuple):
    """What a model wrote: None if nothing; and the probability that it gave to this, if it states one."""

    text: str | None = None
    probability: float | None = None


def score_cell(records: Sequence[Record], answers: Mapping[str, Answer]) -> dict[str, Any]:
    """ "metrics", "streams" and "examples" of a cell.

    Args:
      records: the test problems of a column. answers: id → what was written; a problem without one is not answered.
    """
    streams = {
        stream: score([record for record in records if record["stream"] == stream], answers)
        for stream in list_streams(records)
    }
    return {
        "metrics": score(records, answers),
        "streams": streams,
        "examples": choose_examples(records, answers),
    }


def score(records: Sequence[Record], answers: Mapping[str, Answer]) -> dict[str, float | None]:
    """The `METRICS` of problems; None where one has no meaning.

    "exact", "well_formed", "digits": as in `tasks/arithmetic`. The others are of problems whose answer is one number:
    "relative_error_median" (None if the median answer is no number) and "within_1_percent", its share up to 0.01;
    "log_error", the mean where it is defined, and "sign_errors", the share where it is not: no number, a wrong sign,
    or a zero; "log_smape", 0 for no number. "calibration_error" is of the model's probability of what it wrote.
    "r2" of tabular and orbit, and "scaled_error" of series, are those of `tasks/arithmetic`.
    """
    own = [answers.get(record["id"], Answer()) for record in records]
    scores = [score_answer(answer.text or "", record) for answer, record in zip(own, records, strict=True)]
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    for name in ("exact", "well_formed", "digits"):
        metrics[name] = _mean([entry[name] for entry in scores if name in entry])
    errors = [
        _list_errors(answer.text if entry["well_formed"] else None, record)
        for answer, record, entry in zip(own, records, scores, strict=True)
        if "digits" in entry
    ]
    if errors:
        median = statistics.median(error.relative for error in errors)
        metrics["relative_error_median"] = median if math.isfinite(median) else None
        metrics["within_1_percent"] = _mean([float(error.relative <= CLOSE) for error in errors])
        metrics["log_error"] = _mean([error.log for error in errors if error.log is not None])
        metrics["sign_errors"] = _mean([float(error.log is None) for error in errors])
        metrics["log_smape"] = _mean([error.smape for error in errors])
    metrics["scaled_error"] = _mean([entry["scaled_error"] for entry in scores if "scaled_error" in entry])
    explained = score_regressions([answer.text for answer in own], records)
    metrics["r2"] = next((value for name, value in explained.items() if name.count("/") == 1), None)
    stated = [(a.probability, s["exact"]) for a, s in zip(own, scores, strict=True) if a.probability is not None]
    if stated:
        metrics["calibration_error"] = number_errors.expected_calibration_error(
            [probability for probability, _ in stated], [outcome for _, outcome in stated]
        )
    return metrics


class _Errors(NamedTuple):
    relative: float = math.inf
    log: float | None = None
    smape: float = 0.0


def _list_errors(text: str | None, record: Record) -> _Errors:
    """The errors against the nearest of the accepted answers."""
    value = _value_of(text or "")
    if value is None:
        return _Errors()
    golds = [gold for text in record["accepted"].split(SEPARATOR) if (gold := _value_of(text)) is not None]
    gold = min(golds, key=lambda gold: number_errors.relative_error(value, gold))
    return _Errors(
        number_errors.relative_error(value, gold),
        number_errors.log_error(value, gold),
        number_errors.log_smape(value, gold),
    )


def _value_of(text: str) -> Decimal | None:
    values = [segment.value for segment in documents.parse(text) if isinstance(segment, Number)]
    return values[0] if len(values) == 1 else None


def _mean(values: Sequence[float]) -> float | None:
    return statistics.fmean(values) if values else None


def choose_examples(records: Sequence[Record], answers: Mapping[str, Answer]) -> list[dict[str, Any]]:
    """A sample of problems with what was written: the same for every row, over all streams."""
    by_stream = {
        stream: sorted((r for r in records if r["stream"] == stream), key=lambda record: _draw(record["id"]))
        for stream in list_streams(records)
    }
    rounds = [own[i] for i in range(EXAMPLES) for own in by_stream.values() if i < len(own)]
    chosen = sorted(rounds[:EXAMPLES], key=lambda record: (list(by_stream).index(record["stream"]), record["id"]))
    return [
        {
            "stream": record["stream"],
            "prompt": record["question"],
            "gold": record["answer"],
            "written": answers.get(record["id"], Answer()).text,
            "exact": bool(score_answer(answers.get(record["id"], Answer()).text or "", record)["exact"]),
        }
        for record in chosen
    ]


def _draw(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
