"""Where configs/, data/ and experiments/ are: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

import difflib
import importlib
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from numjax.errors import UsageError

PACKAGE = pathlib.Path(__file__).resolve().parent


def root() -> pathlib.Path:
    """The folder that holds configs/, data/ and experiments/."""
    checkout = PACKAGE.parent
    return checkout if (checkout / "configs" / "common.py").exists() else PACKAGE / "bundled"


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


def resolve_configs(words: Sequence[str]) -> list[str]:
    """A command line with `--config=numgpt:laptop`, or `--config numgpt:laptop`, as
    `--config=ROOT/configs/numgpt.py:laptop`; other words as they are.

    Raises:
      UsageError: neither a file nor the name of a config.
    """
    out: list[str] = []
    rest = iter(words)
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in ("--config", "-config") and (equals or (value := next(rest, ""))):
            word = f"{flag}={_config_file(value)}"
        out.append(word)
    return out


def _config_file(word: str) -> str:
    name, colon, argument = word.partition(":")
    for candidate in (pathlib.Path(name), root() / name, root() / "configs" / f"{name}.py"):
        if candidate.suffix == ".py" and candidate.is_file():
            return f"{candidate}{colon}{argument}"
    known = sorted(p.stem for p in (root() / "configs").glob("*.py") if p.stem not in ("__init__", "common"))
    near = difflib.get_close_matches(pathlib.Path(name).stem, known, n=3, cutoff=0.4) or known
    raise UsageError(f"no config {name!r}: give the path of a file, or a name such as {', '.join(near)}")
