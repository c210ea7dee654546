"""The options that the stand-ins of ../tatqa and ../tabfact share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numjax.errors import UsageError

TABLES = ("few", "many")
WORDINGS = ("apart", "seen")


def check_tables(name: str, options: Mapping[str, Any]) -> None:
    """Raises UsageError where the stand-in's options are none that there are."""
    for option, known in (("tables", TABLES), ("wordings", WORDINGS)):
        if options[option] not in known:
            raise UsageError(f"{name}: {option} must be {' or '.join(known)}, not {options[option]!r}")
