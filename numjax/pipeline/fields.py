"""The fields of a record, checked, with a one-line message for what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from numjax.errors import DataError


def text(record: Mapping[str, Any], key: str, empty: bool = False) -> str:
    """A string field.

    Raises:
      DataError: it is missing, no string, or blank without `empty`.
    """
    value = _field(record, key)
    if not isinstance(value, str) or not (empty or value.strip()):
        raise DataError(f"field {key!r} must be a {'' if empty else 'non-empty '}text, not {_excerpt(value)}")
    return value


def split_prompt(text: str, end: str) -> tuple[str, str] | None:
    """(P, what follows) of a typed text "Question: P [SEP] END …", with or without [SEP]; None for any other text."""
    match = re.fullmatch(rf"\s*Question:(.*?)(?:\[SEP\])?\s*{end}(.*)", text, re.DOTALL)
    return (match[1].strip(), match[2].strip()) if match else None


def integer(record: Mapping[str, Any], key: str) -> int:
    """A whole-number field.

    Raises:
      DataError: it is missing or anything else.
    """
    value = _field(record, key)
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise DataError(f"field {key!r} must be a whole number, not {_excerpt(value)}")
    return int(value)


def label(record: Mapping[str, Any], key: str, classes: int) -> int:
    """A class in 0 … classes − 1; True and False count as 1 and 0.

    Raises:
      DataError: it is missing or anything else.
    """
    value = _field(record, key)
    if not isinstance(value, Integral) or not 0 <= int(value) < classes:
        raise DataError(f"field {key!r} must be a class from 0 to {classes - 1}, not {_excerpt(value)}")
    return int(value)


LONGEST_CELL = 20_000  # characters; TAT-QA's longest has 144, TabFact's 420


def cell(value: Any, row: int) -> str:
    """The text of a table's cell; empty for None and for NaN, which pandas uses for missing cells.

    Raises:
      DataError: it is neither a text nor a number, or longer than `LONGEST_CELL`.
    """
    if value is None or (isinstance(value, Real) and (value != value or abs(value) == math.inf)):
        return ""
    if isinstance(value, bool) or not isinstance(value, str | Real):
        raise DataError(f"a cell must be a text or a number, not {_excerpt(value)} in row {row}")
    text = str(value)
    if len(text.strip()) > LONGEST_CELL:
        raise DataError(f"the table has a cell of {len(text):,} characters in row {row}; {LONGEST_CELL:,} at most")
    return text


def _field(record: Mapping[str, Any], key: str) -> Any:
    if key not in record:
        names = [str(name) for name in record if name != "id"]
        raise DataError(f"there is no field {key!r}; the record has {', '.join(names) or 'none'}")
    return record[key]


def _excerpt(value: Any) -> str:
    return repr(value)[:60]
