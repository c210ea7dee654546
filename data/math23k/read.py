"""The files of Math23K in English: lists of {text_en, equation, ans} as JSON or JSON lines."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError

from .. import files

SUFFIXES = (".json", ".jsonl")
REFUSED = (".pkl", ".pickle")  # loading one runs code that it names
# An equation is x = an arithmetic expression: numbers, signs and brackets.
_TOKEN = re.compile(r"\s*(?:[0-9]+\.?[0-9]*|\.[0-9]+|[-+*/()\[\]%^])")
_SIDES = re.compile(r"\s*[A-Za-z]\s*=(?=\s*\S)")
_PAIRS = {")": "(", "]": "["}


def find_file(path: str) -> pathlib.Path:
    """`path` itself, or the one file named math23k* under it; errors as in `files.find_one`."""
    return files.find_one(path, [f"math23k*{suffix}{packed}" for suffix in SUFFIXES for packed in ("", ".gz")])


def read_problems(path: pathlib.Path) -> Iterator[Any]:
    """Yields the records of a file, also .gz.

    Raises:
      DataError: it cannot be read, is damaged, is not a list, or is a pickle.
    """
    name = path.name.removesuffix(".gz")
    if name.endswith(REFUSED):
        raise DataError(f"{path}: a pickle can run code when it is loaded: save its list as JSON")
    if name.endswith(".jsonl"):
        return (_parse_line(line) for line in files.read_text(path).split("\n") if line.strip())
    return iter(_require_list(path, files.read_json(path)))


def check_record(raw: Any) -> dict[str, Any]:
    """Checks one problem; returns its text_en, equation and ans (as written, or empty).

    Raises:
      ValueError: why the record cannot be used.
    """
    if not isinstance(raw, Mapping):
        raise ValueError("is not an object with text_en, equation and ans")
    record: dict[str, Any] = {}
    for name in ("text_en", "equation"):
        value = raw.get(name)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"has no text {name!r}")
        record[name] = value.strip()
    fault = find_fault(record["equation"])
    if fault:
        raise ValueError(f"the equation {record['equation'][:60]!r} {fault}")
    answer = raw.get("ans")
    if answer is not None and (isinstance(answer, bool) or not isinstance(answer, str | int | float)):
        raise ValueError(f"the answer {str(answer)[:40]!r} is neither a number nor a text")
    if isinstance(answer, float):
        answer = int(answer) if answer.is_integer() and abs(answer) < 1e15 else repr(answer)
    record["ans"] = "" if answer is None or str(answer) in ("nan", "inf", "-inf") else str(answer).strip()
    if isinstance(raw.get("template"), int):
        record["template"] = raw["template"]
    return record


def find_fault(equation: str) -> str:
    """What is wrong with an equation's form; empty if it is valid."""
    side = _SIDES.match(equation)
    if not side:
        return "is not of the form x = …"
    position = side.end()
    brackets: list[str] = []
    while position < len(equation):
        token = _TOKEN.match(equation, position)
        if not token:
            return "" if not equation[position:].strip() else f"holds {equation[position:].split()[0][:20]!r}"
        position = token.end()
        sign = token[0].strip()
        if sign in "([":
            brackets.append(sign)
        elif sign in _PAIRS and (not brackets or brackets.pop() != _PAIRS[sign]):
            return f"has a {sign} without its {_PAIRS[sign]}"
    return f"has a {brackets[-1]} that is not closed" if brackets else ""


def _require_list(path: pathlib.Path, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise DataError(f"{path}: holds no list of problems")
    return list(value)


def _parse_line(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
