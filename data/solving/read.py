"""The files of GSM8K, {question, answer}, and MATH, {problem, solution, level, type}: an object a line or a file."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..pieces import list_files, objects, read_file

KINDS = (".json", ".jsonl")

_CALCULATION = re.compile(r"<<[^<>]*>>")
_BOXED = re.compile(r"\\(?:boxed|fbox)\s*")
_TEST = re.compile(r"(?:^|[/_.-])test(?:[/_.-]|$)")


def find_files(path: str) -> list[pathlib.Path]:
    """The JSON files that `path` names, also packed and in archives.

    Raises:
      DataError: there are none.
    """
    return list_files(path, KINDS, "the problems' files")


def read(path: str) -> Iterator[tuple[str, bool, Any]]:
    """(id, whether the file's name is that of a test split, the object; or a ValueError why there is none)."""
    root = pathlib.Path(path).expanduser().absolute()
    for file in find_files(path):
        for piece in read_file(file, root, KINDS):
            is_test = bool(_TEST.search(piece.id.lower()))
            for name, value in objects(piece):
                yield name, is_test, value


def gsm8k(raw: Any) -> dict[str, str]:
    """A problem of GSM8K. What its solution tells a calculator, <<48/2=24>>, is left out.

    Raises:
      ValueError: why the record cannot be used.
    """
    problem, written = _texts(raw, "question", "answer")
    solution, mark, answer = written.rpartition("####")
    if not mark or not answer.strip():
        raise ValueError('its answer does not end in "#### " and the final answer')
    solution = _CALCULATION.sub("", solution).strip()
    return {"problem": problem, "solution": solution, "answer": answer.strip(), "level": "", "subject": ""}


def math(raw: Any) -> dict[str, str]:
    """A problem of MATH; its final answer is what stands in the last box of the solution.

    Raises:
      ValueError: why the record cannot be used.
    """
    problem, solution = _texts(raw, "problem", "solution")
    boxes = list(boxed(solution))
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


FORMS: Mapping[str, Callable[[Any], dict[str, str]]] = {"gsm8k": gsm8k, "math": math}


def boxed(text: str) -> Iterator[tuple[int, int, str]]:
    r"""(start, end, contents) of each \boxed{…} of a text, outermost ones; \boxed 5 holds one character."""
    end = 0
    while match := _BOXED.search(text, end):
        end = match.end()
        if text[end : end + 1] != "{":
            if text[end : end + 1].strip():
                yield match.start(), end + 1, text[end]
            continue
        depth = 0
        for place in range(end, len(text)):
            escaped = text[place - 1] == "\\"
            depth += (text[place] == "{" and not escaped) - (text[place] == "}" and not escaped)
            if depth == 0:
                yield match.start(), place + 1, text[end + 1 : place]
                end = place + 1
                break
        else:
            return  # never closed


def _texts(raw: Any, *names: str) -> list[str]:
    if isinstance(raw, ValueError):
        raise raw
    if not isinstance(raw, Mapping):
        raise ValueError(f"is no object with {' and '.join(names)}")
    for name in names:
        if not isinstance(raw.get(name), str) or not raw[name].strip():
            raise ValueError(f"has no text {name!r}")
    return [raw[name].strip() for name in names]
