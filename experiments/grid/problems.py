"""The problems of the grid: one stream for all rows, and a digest of what is asked."""

from __future__ import annotations

import collections
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from numjax.bundled import data as datasets
from numjax.errors import UsageError

Record = dict[str, Any]
FIELDS = ("id", "question", "answer", "accepted", "operation", "stream")


def load_records(dataset: Mapping[str, Any], split: str) -> list[Record]:
    """The problems of a split, in the order of the dataset."""
    options = {name: value for name, value in dataset.items() if name != "name"}
    return [dict(record) for record in datasets.load(dataset["name"], split, **options)]


def select(records: Sequence[Record], count: int) -> list[Record]:
    """The first `count` problems of each operation, one of each in turn."""
    by_operation = collections.defaultdict(list)
    for record in records:
        by_operation[record["operation"]].append(record)
    rounds = [[own[i] for own in by_operation.values() if i < len(own)] for i in range(count)]
    return [record for part in rounds for record in part]


def digest(records: Sequence[Record]) -> str:
    """Sixteen hexadecimal digits of the problems and their answers."""
    lines = "\n".join(json.dumps([record[name] for name in FIELDS]) for record in records)
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def list_streams(records: Sequence[Record]) -> list[str]:
    """The names of the test streams, in the order of the dataset."""
    return list(dict.fromkeys(record["stream"] for record in records))


def check_columns(records: Sequence[Record], columns: Sequence[str]) -> None:
    """Raises UsageError unless each column has a problem."""
    missing = set(columns) - {record["operation"] for record in records}
    if missing:
        raise UsageError(
            f"the dataset has no problem of {', '.join(sorted(missing))}: delete it, and it is built anew"
        )
