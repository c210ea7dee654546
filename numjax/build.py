"""Builds parts by name. This is the only factory; the file name is the registration."""

from __future__ import annotations

import difflib
import functools
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
# Kind, which is the name of its folder → the word for one part of it, in messages and lists.
WORD_OF_KIND = {
    "text": "scheme",
    "embed": "embedding",
    "positions": "positions",
    "backbone": "backbone",
    "heads": "head",
    "objectives": "objective",
    "tasks": "task",
}


def find(kind: str, name: str) -> Any:
    """The class of a part: that of numjax/<kind>/<name>.py, else that of your own module `name`.

    Raises:
      UsageError: there is no such module (the message suggests names), it does not define the class, or the class is
        no part.
    """
    path = locate_module(kind, name)
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path and not path.startswith(f"{error.name}."):
            raise
        raise UsageError(
            f"no {WORD_OF_KIND[kind]} is called {name!r}: did you mean {suggest(name, names(kind))}?"
        ) from None
    base = BASE_OF_KIND[kind]
    if base.__name__ not in vars(module):
        raise UsageError(f"{WORD_OF_KIND[kind]} {name!r}: {path} defines no class called {base.__name__}")
    part = vars(module)[base.__name__]
    if not (isinstance(part, type) and issubclass(part, base)):
        raise UsageError(
            f"{WORD_OF_KIND[kind]} {name!r}: {path}.{base.__name__} must be derived from "
            f"numjax.protocols.{base.__name__}"
        )
    return part


def locate_module(kind: str, name: str) -> str:
    """The dotted name of a part's module: numjax.<kind>.<name>, or `name` if it is a module of your own. It is not
    imported.

    Raises:
      UsageError: the name starts with a dot.
    """
    if name.startswith("."):
        raise UsageError(f"{WORD_OF_KIND[kind]} {name!r}: give the whole dotted name of your own module")
    path = f"numjax.{kind}.{name}"
    return name if "." in name or (importlib.util.find_spec(path) is None and _is_module(name)) else path


def is_own_module(kind: str, name: str) -> bool:
    """Whether a part's module is one of numjax's, so that building it runs no other code."""
    return locate_module(kind, name).startswith("numjax.")


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ValueError:  # a name that is no identifier, or a module without a spec
        return False


def names(kind: str) -> list[str]:
    """Names of the modules of numjax/<kind>/ that define the kind's class, sorted."""
    package = importlib.import_module(f"numjax.{kind}")
    module_names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return [
        n for n in module_names if BASE_OF_KIND[kind].__name__ in vars(importlib.import_module(f"numjax.{kind}.{n}"))
    ]


def build(kind: str, block: Mapping[str, Any], **fields: Any) -> Any:
    """An instance from a config block dict(name=…, **options).

    Args:
      fields: fields of `protocols.Context`; the class gets those that it marks with `FromContext` or
        `OptionOrContext`. An option of the same name takes precedence.

    Raises:
      UsageError: the name or an option is unknown (the message suggests names), an option has another type than it
        declares, the part marks a parameter that is no field of the context, or an option is missing.
    """
    # A config that was loaded from a workdir has lists instead of tuples, and modules must be hashable.
    options = {key: tuple(v) if isinstance(v, list) else v for key, v in dict(block).items() if key != "name"}
    cls, name, word = find(kind, block["name"]), block["name"], WORD_OF_KIND[kind]
    declared = {p.name: p for p in inspect.signature(cls).parameters.values() if p.name != "parent"}
    for key in options:
        if key not in declared:
            raise UsageError(f"{word} {name!r} has no option {key!r}: did you mean {suggest(key, declared)}?")
        if not _is_of_type(options[key], type_name := _type_text(declared[key].annotation)):
            raise UsageError(f"{word} {name!r}: {key} must be {type_name}, not {options[key]!r:.40}")
    context = vars(protocols.Context(**fields))
    context_keys = [key for key, parameter in declared.items() if _context_mark(parameter.annotation)]
    for key in context_keys:
        if key not in context:
            raise UsageError(
                f"{word} {name!r}: parameter {key!r} comes from the context, which has no such field: did you mean "
                f"{suggest(key, context)}?"
            )
    arguments = {key: context[key] for key in context_keys if context[key] is not None} | options
    required = (key for key, p in declared.items() if p.default is p.empty and p.kind not in _VARIADIC)
    missing = [key for key in required if key not in arguments]
    if missing:
        raise UsageError(f"{word} {name!r} needs {', '.join(missing)}: give it as an option of the block")
    return cls(**arguments)


def options(kind: str, name: str) -> dict[str, inspect.Parameter]:
    """The options of a block of this part, by name: its parameters without those that only the context sets."""
    return dict(_list_options(find(kind, name)))


def context_options(kind: str, name: str) -> set[str]:
    """The options of a part that come from the context if its block does not set them."""
    return set(_list_context_options(find(kind, name)))


@functools.cache
def _list_options(part: type[protocols.Part]) -> dict[str, inspect.Parameter]:
    parameters = {p.name: p for p in inspect.signature(part).parameters.values() if p.kind not in _VARIADIC}
    # Linen adds two of its own.
    parameters = {
        key: p
        for key, p in parameters.items()
        if key not in ("parent", "name") and _context_mark(p.annotation) != "FromContext"
    }
    return {key: p.replace(annotation=_type_text(p.annotation)) for key, p in parameters.items()}


@functools.cache
def _list_context_options(part: type[protocols.Part]) -> frozenset[str]:
    declared = inspect.signature(part).parameters.values()
    return frozenset(p.name for p in declared if _context_mark(p.annotation) == "OptionOrContext")


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


_MARKS = {
    get_args(mark)[1]: name
    for name, mark in (("FromContext", protocols.FromContext), ("OptionOrContext", protocols.OptionOrContext))
}


def _context_mark(annotation: Any) -> str:
    """The mark of a parameter, "FromContext", "OptionOrContext" or "". The annotation is source text or evaluated."""
    if isinstance(annotation, str):
        word = annotation.removeprefix("protocols.").partition("[")[0]
        return word if word in _MARKS.values() else ""
    return _MARKS.get(annotation.__metadata__[0], "") if get_origin(annotation) is Annotated else ""


def _type_text(annotation: Any) -> str:
    """The type as source text, without the mark."""
    if not isinstance(annotation, str):
        return inspect.formatannotation(get_args(annotation)[0] if _context_mark(annotation) else annotation)
    return annotation.partition("[")[2].removesuffix("]") if _context_mark(annotation) else annotation


_PLAIN_TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": (int, float), "str": str, "None": type(None)}


def _is_of_type(value: Any, type_text: str) -> bool:
    """Whether a value is of a type; types other than plain ones are not checked."""
    names = [name.strip() for name in type_text.split("|")]
    if not _PLAIN_TYPES.keys() >= {*names}:
        return True
    return any(isinstance(value, _PLAIN_TYPES[n]) and isinstance(value, bool) <= (n == "bool") for n in names)


def suggest(key: str, candidates: Iterable[str]) -> str:
    """The candidates most similar to `key`, or all of them if none is similar, as text for an error message."""
    return ", ".join(difflib.get_close_matches(key, list(candidates), n=3, cutoff=0.4) or candidates)
