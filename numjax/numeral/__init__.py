"""Numerals in text, exactly: rules that find them, their digits as arrays, and the way back to text.

A file `NAME.py` with a function `find` is a set of rules; `find(text, "NAME")` calls it.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
import re
from collections.abc import Callable

from numjax.errors import UsageError
from numjax.types import Span


def find(text: str, rules: str = "default") -> list[Span]:
    """The numerals of a text in order, without overlap; `span.text == text[span.start:span.end]`.

    Raises:
      UsageError: there are no such rules.
    """
    return load_finder(rules)(text)


@functools.cache
def load_finder(rules: str) -> Callable[[str], list[Span]]:
    """The `find` of a set of rules.

    Raises:
      UsageError: there are no such rules.
    """
    if rules not in names():
        raise UsageError(f"no numeral rules are called {rules!r}: choose one of {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{rules}").find


@functools.cache
def names() -> tuple[str, ...]:
    """The names of the rules: the files in this folder that define `find`."""
    folder = pathlib.Path(__file__).parent
    return tuple(
        sorted(p.stem for p in folder.glob("[a-z]*.py") if re.search(r"^def find\(text", p.read_text(), re.MULTILINE))
    )
