"""TensorStore's JSON without its memory leak.

TensorStore (0.1.86 and all versions before) never frees the keys and values of the dicts that it makes from JSON: its
json_type_caster.cc gives its references to PyDict_SetItem, which takes references of its own. Orbax asks for JSON for
each array that it saves or loads, so a process with many runs or many checkpoints would grow without end.
"""

from __future__ import annotations

import ast
import contextlib
import functools
from typing import Any

import tensorstore


@functools.cache
def stop_leak() -> None:
    """Replaces, for the whole process, the functions by which Orbax gets JSON from TensorStore.

    A spec's JSON is read from its printed form, which is freed. The bytes that TensorStore has written so far have no
    such form; Orbax only logs them, so they now count as 0.
    """
    for spec in (tensorstore.Spec, tensorstore.KvStore.Spec):
        spec.to_json = _without_leak(spec.to_json)
    # The module is Orbax's own: without it there is nothing to replace.
    with contextlib.suppress(ImportError):
        from orbax.checkpoint._src.serialization import tensorstore_utils

        tensorstore_utils.get_tensorstore_raw_bytes = lambda *args, **options: 0


def _without_leak(to_json):
    @functools.wraps(to_json)
    def call(self, *args: Any, **options: Any) -> Any:
        if args or options:
            return to_json(self, *args, **options)
        try:
            # A spec is printed as Spec({…}): its JSON as a Python literal, with each byte of a text as a character.
            return _decode(ast.literal_eval(repr(self).partition("(")[2].removesuffix(")")))
        except (SyntaxError, ValueError):
            return to_json(self)

    return call


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        return {_decode(key): _decode(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode(item) for item in value]
    return value.encode("latin-1").decode() if isinstance(value, str) else value
