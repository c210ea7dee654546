"""Files of tensors as Hugging Face writes them: a .safetensors file, or a folder with one."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping

import numpy as np

from numjax.errors import UsageError

FILE = "model.safetensors"


def is_here(path: pathlib.Path) -> bool:
    """Whether a path is such a file, or a folder with one."""
    return path.suffix == ".safetensors" or (path / FILE).is_file()


def load(path: pathlib.Path) -> dict[str, np.ndarray]:
    """The tensors by name.

    Raises:
      UsageError: it cannot be read.
    """
    from safetensors.numpy import load_file

    path = path if path.suffix == ".safetensors" else path / FILE
    try:
        return load_file(path)
    except Exception as error:  # its own error type is private
        raise UsageError(f"{path} cannot be read as safetensors: {error}") from None


def check_heads(path: pathlib.Path, heads: int, *names: str) -> None:
    """Looks whether config.json beside the tensors, where there is one, has so many heads under each of these names:
    no tensor tells.

    Raises:
      UsageError: it has others.
    """
    folder = path.parent if path.suffix == ".safetensors" else path
    try:
        found = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return
    for name in names if isinstance(found, dict) else ():
        if found.get(name, heads) != heads:
            theirs = found[name]
            raise UsageError(
                f"{folder}: its model has {theirs} heads and this config {heads}: set config.backbone.heads"
            )


def save(path: pathlib.Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a .safetensors file that `transformers` reads."""
    from safetensors.numpy import save_file

    save_file(dict(tensors), path, metadata={"format": "pt"})
