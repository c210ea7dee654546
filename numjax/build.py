"""Name → module: the only factory. The file name is the registration."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, get_args, get_origin

from numjax import protocols
from numjax.errors import UsageError

BASE_OF_KIND: dict[str, type[protocols.Part]] = {
    "text": protocols.Scheme,
    "embed": protocols.Embed,
    "positions": protocols.Positions,
    "backbone": protocols.Backbone,
    "heads": protocols.Head,
    "objectives": protocols.Objective,
    "tasks": protocols.Task,
}


def find(kind: str, name: str) -> Any:
    """The class that numjax/<kind>/<name>.py defines; else the one of your own module `name`.

    Raises:
      UsageError: there is no such module, and the nearest names are given; or it defines no such class, or one that
        is no part.
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
        raise UsageError(f"no {kind} is called {name!r}: did you mean {near(name, names(kind))}?") from None
    base = BASE_OF_KIND[kind]
    if base.__name__ not in vars(module):
        raise UsageError(f"{kind} {name!r}: {path} defines no class called {base.__name__}")
    found = vars(module)[base.__name__]
    if not (isinstance(found, type) and issubclass(found, base)):
        raise UsageError(
            f"{kind} {name!r}: {path}.{base.__name__} must be derived from numjax.protocols.{base.__name__}"
        )
    return found


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a name that is no identifier, or a module without a spec
        return False


def names(kind: str) -> list[str]:
    """Every module of numjax/<kind>/ that defines the kind's class."""
    package = importlib.import_module(f"numjax.{kind}")
    found = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return [n for n in found if BASE_OF_KIND[kind].__name__ in vars(importlib.import_module(f"numjax.{kind}.{n}"))]


def build(kind: str, block: Mapping[str, Any], **known: Any) -> Any:
    """An instance from a config block dict(name=…, **options).

    Args:
      known: fields of `protocols.Context`; the class takes those that it marks with `Told` or `OrTold`. An option of
        the same name counts instead.

    Raises:
      UsageError: an unknown name or option, and the nearest ones are given; a part that wants of the context what it
        has not; or an option that is missing.
    """
    # A config that was read from a workdir has lists where it had tuples, and modules must be hashable.
    options = {key: tuple(v) if isinstance(v, list) else v for key, v in dict(block).items() if key != "name"}
    cls, name = find(kind, block["name"]), block["name"]
    declared = {p.name: p for p in inspect.signature(cls).parameters.values() if p.name != "parent"}
    for key in options:
        if key not in declared:
            raise UsageError(f"{kind} {name!r} has no option {key!r}: did you mean {near(key, declared)}?")
    context = vars(protocols.Context(**known))
    told = [key for key, parameter in declared.items() if _marked(parameter.annotation)]
    for key in told:
        if key not in context:
            raise UsageError(
                f"{kind} {name!r} wants {key!r} to be told, which is nothing of a Context: did you mean "
                f"{near(key, context)}?"
            )
    given = {key: context[key] for key in told if context[key] is not None} | options
    needed = (key for key, p in declared.items() if p.default is p.empty and p.kind not in _VARIADIC)
    lacking = [key for key in needed if key not in given]
    if lacking:
        raise UsageError(f"{kind} {name!r} needs {', '.join(lacking)}: give it as an option of the block")
    return cls(**given)


def options(kind: str, name: str) -> dict[str, inspect.Parameter]:
    """What a block of this part may say, by name: its parameters but for those that it is told."""
    found = {p.name: p for p in inspect.signature(find(kind, name)).parameters.values() if p.kind not in _VARIADIC}
    # Linen adds two of its own.
    found = {key: p for key, p in found.items() if key not in ("parent", "name") and _marked(p.annotation) != "Told"}
    return {key: p.replace(annotation=_written(p.annotation)) for key, p in found.items()}


def leaves_to_context(kind: str, name: str) -> set[str]:
    """The options that a part is told where its block says nothing of them."""
    declared = inspect.signature(find(kind, name)).parameters.values()
    return {p.name for p in declared if _marked(p.annotation) == "OrTold"}


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


_MARKS = {get_args(mark)[1]: name for name, mark in (("Told", protocols.Told), ("OrTold", protocols.OrTold))}


def _marked(annotation: Any) -> str:
    """How a parameter is marked, "Told", "OrTold" or "", as its annotation stands in the file or evaluated."""
    if isinstance(annotation, str):
        word = annotation.removeprefix("protocols.").partition("[")[0]
        return word if word in _MARKS.values() else ""
    return _MARKS.get(annotation.__metadata__[0], "") if get_origin(annotation) is Annotated else ""


def _written(annotation: Any) -> str:
    """The type as it stands in a file, without a mark."""
    if not isinstance(annotation, str):
        return inspect.formatannotation(get_args(annotation)[0] if _marked(annotation) else annotation)
    return annotation.partition("[")[2].removesuffix("]") if _marked(annotation) else annotation


def near(key: str, among: Iterable[str]) -> str:
    """The names that `key` may have been meant for, or all of them."""
    return ", ".join(difflib.get_close_matches(key, list(among), n=3, cutoff=0.4) or among)
