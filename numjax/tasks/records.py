"""Reading a record's fields, with one clear line for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numjax.errors import DataError


def text(record: Mapping[str, Any], key: str) -> str:
    """A non-empty string field.

    Raises:
      DataError: it is missing, empty or no string.
    """
    value = record.get(key)
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"field {key!r} must be a non-empty text, not {value!r}")
    return value


def label(record: Mapping[str, Any], key: str, classes: int) -> int:
    """A class in 0 … classes − 1; 0 when the record has none (prediction).

    Raises:
      DataError: anything else.
    """
    value = record.get(key, 0)
    if isinstance(value, bool):
        value = int(value)
    if not isinstance(value, int) or not 0 <= value < classes:
        raise DataError(f"field {key!r} must be a class from 0 to {classes - 1}, not {value!r}")
    return value
