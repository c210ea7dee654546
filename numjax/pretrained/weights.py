"""Weight files as Hugging Face writes them: a .safetensors file, or a folder with one."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping

import numpy as np

from numjax.errors import UsageError

FILE = "model.safetensors"


def has_weights(path: pathlib.Path) -> bool:
    """Whether a path is a .safetensors file, or a folder with one."""
    return path.suffix == ".safetensors" or (path / FILE).is_file()


def load_tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Loads the tensors by name.

    Raises:
      UsageError: the file cannot be read.
    """
    from safetensors.numpy import load_file

    path = path if path.suffix == ".safetensors" else path / FILE
    try:
        return load_file(path)
    except Exception as error:  # safetensors' error type is private
        raise UsageError(f"{path} cannot be read as safetensors: {error}") from None


def check_heads(path: pathlib.Path, heads: int, *names: str) -> None:
    """Checks the number of heads against config.json beside the tensors, if there is one. No tensor says it.

    Args:
      names: the keys of config.json to check; missing keys are ignored.

    Raises:
      UsageError: config.json has another number of heads.
    """
    folder = path.parent if path.suffix == ".safetensors" else path
    try:
        config = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError):
        return
    for name in names if isinstance(config, dict) else ():
        if config.get(name, heads) != heads:
            config_heads = config[name]
            raise UsageError(
                f"{folder}: its model has {config_heads} heads and this config {heads}: set config.backbone.heads"
            )


def save_tensors(path: pathlib.Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a .safetensors file that `transformers` can read."""
    from safetensors.numpy import save_file

    save_file(dict(tensors), path, metadata={"format": "pt"})
