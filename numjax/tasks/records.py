"""Reading a record's fields, with one clear line for what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from numjax.errors import DataError


def text(record: Mapping[str, Any], key: str, empty: bool = False) -> str:
    """A string field.

    Raises:
      DataError: it is missing, no string, or blank where `empty` does not allow that.
    """
    value = _field(record, key)
    if not isinstance(value, str) or not (empty or value.strip()):
        raise DataError(f"field {key!r} must be a {'' if empty else 'non-empty '}text, not {_shown(value)}")
    return value


def integer(record: Mapping[str, Any], key: str) -> int:
    """A whole-number field.

    Raises:
      DataError: it is missing or anything else.
    """
    value = _field(record, key)
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise DataError(f"field {key!r} must be a whole number, not {_shown(value)}")
    return int(value)


def label(record: Mapping[str, Any], key: str, classes: int) -> int:
    """A class in 0 … classes − 1; True and False count as 1 and 0.

    Raises:
      DataError: it is missing or anything else.
    """
    value = _field(record, key)
    if not isinstance(value, Integral) or not 0 <= int(value) < classes:
        raise DataError(f"field {key!r} must be a class from 0 to {classes - 1}, not {_shown(value)}")
    return int(value)


def _field(record: Mapping[str, Any], key: str) -> Any:
    if key not in record:
        raise DataError(f"there is no field {key!r}; the record has {', '.join(map(str, record)) or 'none'}")
    return record[key]


def _shown(value: Any) -> str:
    return repr(value)[:60]
