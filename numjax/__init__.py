"""Language models that treat numbers as numbers and formulas as trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numjax.api import load

    __version__: str

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    # The tools and the data pipeline use this package without jax: import the API, which needs jax, only on demand.
    if name == "load":
        from numjax.api import load

        return load
    if name == "__version__":
        # Only on demand too: importlib.metadata takes longer to import than this package.
        from importlib import metadata

        try:
            return metadata.version("numjax")
        except metadata.PackageNotFoundError:  # a checkout on the path that is not installed
            return "0+unknown"
    raise AttributeError(f"module 'numjax' has no attribute {name!r}")
