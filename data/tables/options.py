"""Options that the stand-ins of ../tatqa and ../tabfact share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numjax.errors import UsageError

TABLES = ("few", "many")
WORDINGS = ("apart", "seen")


def check_tables(name: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError if an option of the stand-in has an unknown value."""
    for option, choices in (("tables", TABLES), ("wordings", WORDINGS)):
        if options[option] not in choices:
            raise UsageError(f"{name}: {option} must be {' or '.join(choices)}, not {options[option]!r}")
