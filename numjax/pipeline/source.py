"""A task's records: the datasets of data/, found wherever the package is installed."""

from __future__ import annotations

import importlib
import os
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from numjax import roots
from numjax.errors import DataError


def load(
    dataset: Mapping[str, Any], split: str, data_dir: str | os.PathLike | None = None, *, strict: bool = False
) -> Sequence[dict[str, Any]] | None:
    """One split in random access, built first if it is not there; None when the dataset has no such split.

    Args:
      dataset: dict(name=…, **options) of a folder in data/.
      split: "train", "validation" or "test".
      data_dir: where built datasets are kept; else $NUMJAX_CACHE, else ~/.cache/numjax.
      strict: a bad source record is an error instead of being left out.

    Raises:
      UsageError: unknown dataset or option. DataError: bad files.
    """
    data, name, options = _open(dataset)
    try:
        return data.load(name, split, folder(data_dir), strict=strict, **options)
    except DataError:
        if split == "train" or strict:
            raise
        return None


def skipped(dataset: Mapping[str, Any], data_dir: str | os.PathLike | None = None) -> list[dict[str, str]]:
    """Source records that were left out when the dataset was built: {"id", "reason", "split"} each."""
    data, name, options = _open(dataset)
    return [{"split": "source"} | dict(row) for row in data.skipped(name, folder(data_dir), **options)]


def folder(data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """Where built datasets are kept."""
    return pathlib.Path(data_dir or os.environ.get("NUMJAX_CACHE") or "~/.cache/numjax").expanduser()


def _open(dataset):
    roots.put_on_path()
    options = dict(dataset)
    return importlib.import_module("data"), options.pop("name"), options
