"""A task's records, from the datasets of data/, wherever the package is installed."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import Any


def load(
    dataset: Mapping[str, Any], split: str, data_dir: str | os.PathLike | None = None, *, strict: bool = False
) -> Sequence[dict[str, Any]] | None:
    """A split with random access; the dataset is built first if it is missing. None if it has no such split; of
    several splits, those that exist are joined.

    Args:
      dataset: dict(name=…, **options) of a folder in data/.
      split: "train", "validation" or "test", or several with "+" between them.
      data_dir: the folder of built datasets, see `data.find_root`.
      strict: raise an error for a bad source record instead of leaving it out.

    Raises:
      UsageError: unknown dataset or option. DataError: bad files.
    """
    data, name, options = _open(dataset)
    if split != "train":
        splits = data.prepare(name, data_dir, strict=strict, **options).info.splits
        split = "+".join(part for part in split.split("+") if part in splits)
        if not split:
            return None
    return data.load(name, split, data_dir, strict=strict, **options)


def load_skipped(dataset: Mapping[str, Any], data_dir: str | os.PathLike | None = None) -> list[dict[str, str]]:
    """The source records that were left out when the dataset was built, as {"id", "reason", "split"}."""
    data, name, options = _open(dataset)
    return [{"split": "source"} | dict(row) for row in data.load_skipped(name, data_dir, **options)]


def _open(dataset):
    options = dict(dataset)
    # Imported late, because builders take long to import.
    return importlib.import_module("numjax.bundled.data"), options.pop("name"), options
