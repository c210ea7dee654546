"""Language models that treat numbers as numbers and formulas as trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from numjax.api import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    # The tools and the data pipeline use this package without jax: import the API, which needs jax, only on demand.
    if name == "load":
        from numjax.api import load

        return load
    raise AttributeError(f"module 'numjax' has no attribute {name!r}")
