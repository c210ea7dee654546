"""Where configs/, data/ and experiments/ are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import importlib
import pathlib
import sys
from typing import Any

PACKAGE = pathlib.Path(__file__).resolve().parent


def root() -> pathlib.Path:
    """The folder that holds configs/, data/ and experiments/."""
    checkout = PACKAGE.parent
    return checkout if (checkout / "configs" / "presets.py").exists() else PACKAGE / "bundled"


def put_on_path() -> pathlib.Path:
    """Puts `root()` first on the path, so that `configs`, `data` and `experiments` import; returns it."""
    found = str(root())
    if found not in sys.path:
        sys.path.insert(0, found)
    return root()


def call(module: str, function: str, *arguments: Any) -> Any:
    """Calls a function of configs, data or experiments by its name: what workers elsewhere can be asked to do."""
    put_on_path()
    return getattr(importlib.import_module(module), function)(*arguments)
