"""The folders configs, data and experiments: of the checkout, by links; in a wheel the folders themselves.

They are imported as `numjax.bundled.configs`, …; nothing is put on the path, where a user may have a `data` too.
"""

from __future__ import annotations

import importlib
import pathlib
from typing import Any

PACKAGE = pathlib.Path(__file__).resolve().parents[1]
# What holds the three.
HOME = (PACKAGE / "bundled" / "configs").resolve().parent


def call(module: str, function: str, *arguments: Any) -> Any:
    """Calls a function of the three by its name, such as "data.shards": what workers elsewhere can be asked to do."""
    return getattr(importlib.import_module(f"numjax.bundled.{module}"), function)(*arguments)
