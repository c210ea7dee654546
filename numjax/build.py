"""Name → module: the only factory. The file name is the registration."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Mapping
from typing import Any

from numjax.errors import UsageError

CLASS_OF_KIND = {
    "text": "Scheme",
    "embed": "Embed",
    "backbone": "Backbone",
    "heads": "Head",
    "objectives": "Objective",
    "tasks": "Task",
}


def find(kind: str, name: str) -> type:
    """The class that numjax/<kind>/<name>.py defines; else the one of your own module `name`.

    Raises:
      UsageError: there is no such module, and the nearest names are given; or it defines no such class.
    """
    path = f"numjax.{kind}.{name}"
    if name.startswith("."):
        raise UsageError(f"{kind} {name!r}: give the whole dotted name of your own module")
    if "." in name or (importlib.util.find_spec(path) is None and _is_module(name)):
        path = name
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path and not path.startswith(f"{error.name}."):
            raise
        known = names(kind)
        near = difflib.get_close_matches(name, known, n=3, cutoff=0.4) or known
        raise UsageError(f"no {kind} is called {name!r}: did you mean {', '.join(near)}?") from None
    if not hasattr(module, CLASS_OF_KIND[kind]):
        raise UsageError(f"{kind} {name!r}: {path} defines no class called {CLASS_OF_KIND[kind]}")
    return getattr(module, CLASS_OF_KIND[kind])


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a name that is no identifier, or a module without a spec
        return False


def names(kind: str) -> list[str]:
    """Every module of numjax/<kind>/ that defines the kind's class."""
    package = importlib.import_module(f"numjax.{kind}")
    found = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return [n for n in found if hasattr(importlib.import_module(f"numjax.{kind}.{n}"), CLASS_OF_KIND[kind])]


def build(kind: str, block: Mapping[str, Any], **extra: Any) -> Any:
    """An instance from a config block dict(name=…, **kwargs). `extra` holds what the caller knows; the
    class takes of it what it has a parameter for.

    Raises:
      UsageError: an unknown name or option; the nearest ones are given.
    """
    # A config that was read from a workdir has lists where it had tuples, and modules must be hashable.
    options = {key: tuple(v) if isinstance(v, list) else v for key, v in dict(block).items() if key != "name"}
    cls = find(kind, block["name"])
    known = [p for p in inspect.signature(cls).parameters if p not in ("parent",)]
    for key in options:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=3, cutoff=0.4) or known
            raise UsageError(f"{kind} {block['name']!r} has no option {key!r}: did you mean {', '.join(near)}?")
    return cls(**{k: v for k, v in extra.items() if k in known} | options)
