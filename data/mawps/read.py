"""Word problems with one number as their answer, in the forms of MAWPS, SVAMP, ASDiv and AddSub: one record each."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from defusedxml import ElementTree
from defusedxml.common import DefusedXmlException

from numjax.errors import UsageError
from numjax.numeral.surface import trimmed, value_of

from ..fermat.formula import shape
from ..pieces import Piece, list_files, objects, read_file

KINDS = (".json", ".jsonl", ".xml")
_SPLITS = re.compile(r"(?:^|[/_.-])(train|valid|val|dev|test)(?:set)?(?=[/_.-]|$)")
_NAMES = {"train": "train", "test": "test", "valid": "validation", "val": "validation", "dev": "validation"}
_ANSWER = re.compile(r"\s*(-?[0-9][0-9,]*(?:\.[0-9]+)?|-?\.[0-9]+)\s*(?:\(.*\))?\s*", re.DOTALL)


def find_files(path: str) -> list[pathlib.Path]:
    """The JSON and XML files that `path` names, also packed and in archives.

    Raises:
      DataError: there are none.
    """
    return list_files(path, KINDS, "the word problems' files")


def read(path: str) -> Iterator[tuple[str, str, Any]]:
    """(id, the split that the file's name says or "", the object; or a ValueError why there is none)."""
    root = pathlib.Path(path).expanduser().absolute()
    for file in find_files(path):
        for piece in read_file(file, root, KINDS):
            said = _SPLITS.search(piece.id.lower())
            for name, value in _problems(piece) if piece.suffix == ".xml" else objects(piece):
                yield name, _NAMES[said[1]] if said else "", value


def _problems(piece: Piece) -> Iterator[tuple[str, Any]]:
    if piece.data is None:
        yield piece.id, ValueError(piece.reason)
        return
    try:
        root = ElementTree.fromstring(piece.data)
    except (ElementTree.ParseError, DefusedXmlException, ValueError, RecursionError):
        yield piece.id, ValueError("not XML, or XML with entities of its own")
        return
    for number, problem in enumerate(root.iter("Problem")):
        fields = {child.tag: child.text or "" for child in problem}
        yield f"{piece.id}:{number}", {**problem.attrib, **fields}


def mawps(raw: Any) -> dict[str, str]:
    """{original_text, equation, ans}, as packaged by MWPToolkit."""
    return _record(_text(raw, "original_text"), raw.get("ans"), raw.get("equation"))


def addsub(raw: Any) -> dict[str, str]:
    """{sQuestion, lEquations, lSolutions}, the form of AI2's sets and of MAWPS's own repository."""
    question, solutions, equations = _text(raw, "sQuestion"), raw.get("lSolutions"), raw.get("lEquations")
    if not isinstance(solutions, list) or len(solutions) != 1:
        raise ValueError("it has not one solution")
    return _record(question, solutions[0], equations[0] if isinstance(equations, list) and equations else "")


def svamp(raw: Any) -> dict[str, str]:
    """{Body, Question, Equation, Answer}."""
    body, question = _text(raw, "Body").strip(), _text(raw, "Question")
    body += "" if body[-1] in ".?!,;:" else "."
    return _record(f"{body} {question}", raw.get("Answer"), raw.get("Equation"))


def asdiv(raw: Any) -> dict[str, str]:
    """A <Problem> with <Body>, <Question>, <Answer> "9 (apples)" and <Formula> "7+2=9"."""
    return _record(f"{_text(raw, 'Body')} {_text(raw, 'Question')}", raw.get("Answer"), raw.get("Formula"))


FORMS: dict[str, Callable[[Any], dict[str, str]]] = {"mawps": mawps, "svamp": svamp, "asdiv": asdiv, "addsub": addsub}


def number(said: Any) -> str:
    """An answer as a plain decimal: 2.0 is "2", "9 (apples)" is "9".

    Raises:
      ValueError: it is not one number.
    """
    if isinstance(said, bool) or not isinstance(said, int | float | str):
        raise ValueError(f"its answer {str(said)[:40]!r} is not one number")
    found = _ANSWER.fullmatch(said) if isinstance(said, str) else None
    if isinstance(said, str) and found is None:
        raise ValueError(f"its answer {said[:40]!r} is not one number")
    try:
        # The shortest decimal that names a float.
        value = value_of(found[1]) if found else Decimal(repr(said))
    except UsageError:
        value = Decimal("NaN")
    if not value.is_finite():
        raise ValueError(f"its answer {str(said)[:40]!r} is not one number")
    return trimmed(value)


def _record(question: str, said: Any, equation: Any) -> dict[str, str]:
    equation = equation if isinstance(equation, str) else ""
    return {
        "question": " ".join(question.split()),
        "answer": number(said),
        "equation": equation.strip(),
        "operation": _operation(equation),
    }


def _operation(equation: str) -> str:
    """The shape of the side that is solved, "a+b"; empty where no side is a formula of numbers."""
    for side in reversed(equation.split("=")):
        with_letters = re.search(r"[A-Za-z]", side)
        if side.strip() and not with_letters:
            try:
                found = shape(side)
            except ValueError:
                continue
            if len(found) > 1:
                return found
    return ""


def _text(raw: Mapping[str, Any], key: str) -> str:
    if not isinstance(raw, dict):
        raise ValueError("it is no object")
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"there is no text {key!r}")
    return value
