"""A task's records: the datasets of data/, found wherever the package is installed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any


def load(
    dataset: Mapping[str, Any], split: str, data_dir: str | os.PathLike | None = None, *, strict: bool = False
) -> Sequence[dict[str, Any]] | None:
    """One split in random access, built first if it is not there; None when the dataset has no such split. Of several
    those that it has are joined.

    Args:
      dataset: dict(name=…, **options) of a folder in data/.
      split: "train", "validation" or "test", or several with "+" between them.
      data_dir: where built datasets are kept, see `data.home`.
      strict: a bad source record is an error instead of being left out.

    Raises:
      UsageError: unknown dataset or option. DataError: bad files.
    """
    data, name, options = _open(dataset)
    if split != "train":
        there = data.prepare(name, data_dir, strict=strict, **options).info.splits
        split = "+".join(part for part in split.split("+") if part in there)
        if not split:
            return None
    return data.load(name, split, data_dir, strict=strict, **options)


def skipped(dataset: Mapping[str, Any], data_dir: str | os.PathLike | None = None) -> list[dict[str, str]]:
    """Source records that were left out when the dataset was built: {"id", "reason", "split"} each."""
    data, name, options = _open(dataset)
    return [{"split": "source"} | dict(row) for row in data.skipped(name, data_dir, **options)]


def _open(dataset):
    options = dict(dataset)
    # Not before it is asked for: builders take long to import.
    return importlib.import_module("numjax.bundled.data"), options.pop("name"), options
