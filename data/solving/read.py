"""Reads GSM8K, {question, answer}, and MATH, {problem, solution, level, type}: files of one object, or one a line."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..pieces import find_split, list_files, parse_objects, read_file

KINDS = (".json", ".jsonl")

_CALCULATION = re.compile(r"<<[^<>]*>>")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)  # or a command of one character: in \\} the brace is not escaped


def find_files(path: str) -> list[pathlib.Path]:
    """Returns the JSON files under `path`, also packed and in archives.

    Raises:
      DataError: there are no such files.
    """
    return list_files(path, KINDS, "the problems' files")


def read_problems(path: str) -> Iterator[tuple[str, bool, Any]]:
    """Yields (id, whether the file's name states the test split (`find_split`), the object or a ValueError)."""
    root = pathlib.Path(path).expanduser().absolute()
    for file in find_files(path):
        for piece in read_file(file, root, KINDS):
            is_test = find_split(piece.id) == "test"
            for name, value in parse_objects(piece):
                yield name, is_test, value


def parse_gsm8k(raw: Any) -> dict[str, str]:
    """Returns a problem of GSM8K. The calculator's marks in its solution, <<48/2=24>>, are removed.

    Raises:
      ValueError: the record cannot be used.
    """
    problem, worked_answer = _extract_texts(raw, "question", "answer")
    solution, mark, answer = worked_answer.rpartition("####")
    if not mark or not answer.strip():
        raise ValueError('its answer does not end in "#### " and the final answer')
    solution = _CALCULATION.sub("", solution).strip()
    return {"problem": problem, "solution": solution, "answer": answer.strip(), "level": "", "subject": ""}


def parse_math(raw: Any) -> dict[str, str]:
    """Returns a problem of MATH; its final answer is the content of the solution's last box.

    Raises:
      ValueError: the record cannot be used.
    """
    problem, solution = _extract_texts(raw, "problem", "solution")
    boxes = list(find_boxes(solution))
    if not boxes or not boxes[-1][2].strip():
        raise ValueError(r"its solution has no final answer in \boxed{…}")
    level, subject = (str(raw.get(name) or "") for name in ("level", "type"))
    return {
        "problem": problem,
        "solution": solution,
        "answer": boxes[-1][2].strip(),
        "level": level,
        "subject": subject,
    }


FORMS: Mapping[str, Callable[[Any], dict[str, str]]] = {"gsm8k": parse_gsm8k, "math": parse_math}


def find_boxes(text: str) -> Iterator[tuple[int, int, str]]:
    r"""Yields (start, end, contents) of each outermost \boxed{…} in a text; \boxed 5 holds one character."""
    end = 0
    while match := _BOXED.search(text, end):
        end = match.end()
        if text[end : end + 1] != "{":
            if text[end : end + 1].strip():
                yield match.start(), end + 1, text[end]
            continue
        depth = 0
        for brace in _BRACE.finditer(text, end):
            depth += (brace[0] == "{") - (brace[0] == "}")
            if depth == 0:
                yield match.start(), brace.end(), text[end + 1 : brace.start()]
                end = brace.end()
                break
        else:
            return  # never closed


def _extract_texts(raw: Any, *names: str) -> list[str]:
    if isinstance(raw, ValueError):
        raise raw
    if not isinstance(raw, Mapping):
        raise ValueError(f"is no object with {' and '.join(names)}")
    for name in names:
        if not isinstance(raw.get(name), str) or not raw[name].strip():
            raise ValueError(f"has no text {name!r}")
    return [raw[name].strip() for name in names]
