"""Rows that need no model: the perfect answer, the same answer always, and the first number of the question."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

from numjax.build import build
from numjax.bundled.experiments.grid import problems
from numjax.bundled.experiments.grid.cells import Job
from numjax.bundled.experiments.grid.problems import Record
from numjax.bundled.experiments.grid.rows import make_config
from numjax.bundled.experiments.grid.scoring import Answer
from numjax.text import document as documents
from numjax.types import Number


def answer_all(kind: str, records: Sequence[Record], train: Sequence[Record]) -> dict[str, Answer]:
    """Id → the answer of a baseline.

    Args:
      kind: "oracle", "constant" (the most frequent training answer of the operation), or "copy" (the first number of
        the question, as it is written).
      records: test problems. train: training problems.
    """
    if kind == "oracle":
        return {record["id"]: Answer(record["answer"]) for record in records}
    if kind == "copy":
        return {record["id"]: Answer(_first_number(record["question"])) for record in records}
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for record in train:
        counts[record["operation"]][record["answer"]] += 1
    constants = {operation: count.most_common(1)[0][0] for operation, count in counts.items()}
    return {record["id"]: Answer(constants.get(record["operation"])) for record in records}


def _first_number(question: str) -> str | None:
    return next((segment.surface for segment in documents.parse(question) if isinstance(segment, Number)), None)


def answer_job(job: Job) -> tuple[list[Record], dict[str, Answer]]:
    """(the test problems of a baseline's job, its answers)."""
    task: Any = build("tasks", make_config(job.row, job.scale, job.columns).task)
    records = problems.load_records(task.dataset, "test")
    train = problems.load_records(task.dataset, "train") if job.row.name == "constant" else []
    return records, answer_all(job.row.name, records, train)
