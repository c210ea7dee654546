"""The files of Math23K in English: lists of {text_en, equation, ans} as JSON, JSON lines or a pickle."""

from __future__ import annotations

import io
import json
import pathlib
import pickle
import re
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError, UsageError

from ..files import contents

SUFFIXES = (".json", ".jsonl", ".pkl", ".pickle")
# An equation is x = arithmetic: numbers, signs and brackets.
_TOKEN = re.compile(r"\s*(?:[0-9]+\.?[0-9]*|\.[0-9]+|[-+*/()\[\]%^])")
_SIDES = re.compile(r"\s*[A-Za-z]\s*=(?=\s*\S)")
_PAIRS = {")": "(", "]": "["}


def find_file(path: str) -> pathlib.Path:
    """`path` itself, or the one file named math23k* under it.

    Raises:
      DataError: there is none.
      UsageError: there are several.
    """
    root = pathlib.Path(path).expanduser()
    if root.is_file():
        return root
    found = [file for file in sorted(root.glob("math23k*")) if file.name.removesuffix(".gz").endswith(SUFFIXES)]
    if not found:
        raise DataError(f"{root}: no math23k*.json, .jsonl or .pkl there; set path to the file")
    if len(found) > 1:
        raise UsageError(f"{root}: several files ({', '.join(f.name for f in found)}); set path to one of them")
    return found[0]


def read(path: pathlib.Path) -> Iterator[Any]:
    """The records of a file, also .gz.

    Raises:
      DataError: it cannot be read, is damaged, or holds anything but a list.
    """
    name = path.name.removesuffix(".gz")
    data = contents(path)
    if name.endswith((".pkl", ".pickle")):
        return iter(_listed(path, _unpickled(path, data)))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; convert or fetch it again") from None
    if not text.strip():
        raise DataError(f"{path}: the file is empty; fetch it again")
    if name.endswith(".jsonl"):
        return (_json(line) for line in text.splitlines() if line.strip())
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: the JSON breaks off or is wrong; fetch it again") from None
    return iter(_listed(path, value))


def check_record(raw: Any) -> dict[str, Any]:
    """text_en, equation and ans (as written, or empty) of one problem.

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
    fault = fault_of(record["equation"])
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


def fault_of(equation: str) -> str:
    """What is wrong with an equation's form; empty if nothing is."""
    side = _SIDES.match(equation)
    if not side:
        return "is not of the form x = …"
    place = side.end()
    brackets: list[str] = []
    while place < len(equation):
        token = _TOKEN.match(equation, place)
        if not token:
            return "" if not equation[place:].strip() else f"holds {equation[place:].split()[0][:20]!r}"
        place = token.end()
        sign = token[0].strip()
        if sign in "([":
            brackets.append(sign)
        elif sign in _PAIRS and (not brackets or brackets.pop() != _PAIRS[sign]):
            return f"has a {sign} without its {_PAIRS[sign]}"
    return f"has a {brackets[-1]} that is not closed" if brackets else ""


def _listed(path: pathlib.Path, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise DataError(f"{path}: holds no list of problems")
    return list(value)


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


class _Plain(pickle.Unpickler):
    """Unpickles lists, dicts, texts and numbers, and nothing that would run code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it holds a {module}.{name}")


def _unpickled(path: pathlib.Path, data: bytes) -> Any:
    try:
        return _Plain(io.BytesIO(data)).load()
    # A damaged pickle raises whatever its bytes happen to ask for.
    except Exception as error:
        raise DataError(f"{path}: not a pickle of plain lists and texts ({error}); save it as JSON") from None
