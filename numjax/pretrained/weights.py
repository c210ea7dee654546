"""Weight files as Hugging Face writes them: a .safetensors file, or a folder with one or with shards and an index."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.runtime import files

FILE = "model.safetensors"
INDEX = "model.safetensors.index.json"


def has_weights(path: pathlib.Path) -> bool:
    """Whether a path is a .safetensors file, or a folder with one, whole or in shards."""
    return path.suffix == ".safetensors" or (path / FILE).is_file() or (path / INDEX).is_file()


def load_params(
    path: pathlib.Path, to_params: Callable[[Mapping[str, np.ndarray], int], dict[str, Any]], heads: int
) -> dict[str, Any]:
    """Loads the tensors and converts them to parameters.

    Raises:
      UsageError: the file cannot be read, or its tensors are not the model's.
    """
    tensors = load_tensors(path)
    try:
        return to_params(tensors, heads)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from None
    except (ValueError, IndexError) as error:
        raise UsageError(f"{path}: a tensor has not the shape of the model's: {error}") from None


def load_tensors(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Loads the tensors by name.

    Raises:
      UsageError: the file cannot be read, or the index of the shards is wrong.
    """
    if path.suffix == ".safetensors" or not (path / INDEX).is_file():
        return _load_file(path if path.suffix == ".safetensors" else path / FILE)
    tensors: dict[str, np.ndarray] = {}
    for shard, names in read_index(path).items():
        shard_tensors = _load_file(path / shard)
        if missing := [name for name in names if name not in shard_tensors]:
            raise UsageError(f"{path / INDEX}: {shard} has no tensor {missing[0]!r}: fetch the folder again")
        tensors |= {name: shard_tensors[name] for name in names}
    return tensors


def read_index(folder: pathlib.Path) -> dict[str, list[str]]:
    """The names of the tensors of each shard, from the index of a folder: {"weight_map": {tensor: file}}.

    Raises:
      UsageError: it has another form, or names a file outside the folder.
    """
    path = folder / INDEX
    try:
        index = files.parse_json(path.read_bytes())
        shards: dict[str, list[str]] = {}
        for name, shard in index["weight_map"].items():
            shards.setdefault(files.check_name(shard), []).append(name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else error
        raise UsageError(f"{path} is no index of safetensors: {reason}") from None
    return shards


def take_tensor(tensors: Mapping[str, np.ndarray], name: str, model_name: str) -> np.ndarray:
    """The tensor of a name, float32.

    Raises:
      UsageError: there is none, or its numbers are no floats.
    """
    if name not in tensors:
        raise UsageError(f"not {model_name}'s weights: there is no tensor {name!r}")
    if not jnp.issubdtype(tensors[name].dtype, jnp.floating):
        raise UsageError(f"not {model_name}'s weights: the tensor {name!r} is {tensors[name].dtype}, not float")
    return np.asarray(tensors[name], np.float32)


def _load_file(path: pathlib.Path) -> dict[str, np.ndarray]:
    from safetensors.numpy import load_file

    if not path.is_file():
        raise UsageError(f"{path} is not there, or is no file")
    try:
        return load_file(path)
    except Exception as error:  # safetensors' error type is private
        raise UsageError(f"{path} cannot be read as safetensors: {type(error).__name__}: {error}") from None


def check_heads(path: pathlib.Path, heads: int, *names: str) -> None:
    """Checks the number of heads against config.json beside the tensors, if there is one. No tensor says it.

    Args:
      names: the keys of config.json to check; missing keys are ignored.

    Raises:
      UsageError: config.json has another number of heads.
    """
    folder = path.parent if path.suffix == ".safetensors" else path
    try:
        config = files.parse_json((folder / "config.json").read_bytes())
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
