"""See README.md. `Builder` is imported on demand, since tensorflow-datasets takes a second."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name == "Builder":
        from .builder import Builder

        return Builder
    raise AttributeError(name)
