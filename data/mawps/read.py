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
from numjax.numeral.surface import format_trimmed, value_of

from ..fermat.formula import shape
from ..pieces import Piece, find_split, list_files, parse_objects, read_file

KINDS = (".json", ".jsonl", ".xml")
_ANSWER = re.compile(r"\s*(-?[0-9][0-9,]*(?:\.[0-9]+)?|-?\.[0-9]+)\s*(?:\([^()]*\))?\s*")


def find_files(path: str) -> list[pathlib.Path]:
    """Finds the JSON and XML files that `path` names, also packed and in archives.

    Raises:
      DataError: there are none.
    """
    return list_files(path, KINDS, "the word problems' files")


def read_problems(path: str) -> Iterator[tuple[str, str, Any]]:
    """Yields (id, the split that the file's name states or "", the object or a ValueError that says why not)."""
    root = pathlib.Path(path).expanduser().absolute()
    for file in find_files(path):
        for piece in read_file(file, root, KINDS):
            split = find_split(piece.id)
            for name, value in _read_xml(piece) if piece.suffix == ".xml" else parse_objects(piece):
                yield name, split, value


def _read_xml(piece: Piece) -> Iterator[tuple[str, Any]]:
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


def parse_mawps(raw: Any) -> dict[str, str]:
    """Parses {original_text, equation, ans}, as packaged by MWPToolkit."""
    return _make_record(_require_text(raw, "original_text"), raw.get("ans"), raw.get("equation"))


def parse_addsub(raw: Any) -> dict[str, str]:
    """Parses {sQuestion, lEquations, lSolutions}, the form of AI2's sets and of MAWPS's own repository."""
    question, solutions, equations = _require_text(raw, "sQuestion"), raw.get("lSolutions"), raw.get("lEquations")
    if not isinstance(solutions, list) or len(solutions) != 1:
        raise ValueError("it does not have exactly one solution")
    return _make_record(question, solutions[0], equations[0] if isinstance(equations, list) and equations else "")


def parse_svamp(raw: Any) -> dict[str, str]:
    """Parses {Body, Question, Equation, Answer}."""
    body, question = _require_text(raw, "Body").strip(), _require_text(raw, "Question")
    body += "" if body[-1] in ".?!,;:" else "."
    return _make_record(f"{body} {question}", raw.get("Answer"), raw.get("Equation"))


def parse_asdiv(raw: Any) -> dict[str, str]:
    """Parses a <Problem> with <Body>, <Question>, <Answer> "9 (apples)" and <Formula> "7+2=9"."""
    return _make_record(
        f"{_require_text(raw, 'Body')} {_require_text(raw, 'Question')}", raw.get("Answer"), raw.get("Formula")
    )


FORMS: dict[str, Callable[[Any], dict[str, str]]] = {
    "mawps": parse_mawps,
    "svamp": parse_svamp,
    "asdiv": parse_asdiv,
    "addsub": parse_addsub,
}


def parse_number(answer: Any) -> str:
    """An answer as a plain decimal: 2.0 is "2", "9 (apples)" is "9".

    Raises:
      ValueError: it is not one number.
    """
    if isinstance(answer, bool) or not isinstance(answer, int | float | str):
        raise ValueError(f"its answer {str(answer)[:40]!r} is not one number")
    match = _ANSWER.fullmatch(answer) if isinstance(answer, str) else None
    if isinstance(answer, str) and match is None:
        raise ValueError(f"its answer {answer[:40]!r} is not one number")
    try:
        # `repr` gives the shortest decimal of a float.
        value = value_of(match[1]) if match else Decimal(repr(answer))
    except UsageError:
        value = Decimal("NaN")
    if not value.is_finite():
        raise ValueError(f"its answer {str(answer)[:40]!r} is not one number")
    return format_trimmed(value)


def _make_record(question: str, answer: Any, equation: Any) -> dict[str, str]:
    equation = equation if isinstance(equation, str) else ""
    return {
        "question": " ".join(question.split()),
        "answer": parse_number(answer),
        "equation": equation.strip(),
        "operation": _find_operation(equation),
    }


def _find_operation(equation: str) -> str:
    """The shape of the side of the equation without an unknown, "a+b"; empty if no side is a formula of numbers."""
    for side in reversed(equation.split("=")):
        letter = re.search(r"[A-Za-z]", side)
        if side.strip() and not letter:
            try:
                operation = shape(side)
            except ValueError:
                continue
            if len(operation) > 1:
                return operation
    return ""


def _require_text(raw: Mapping[str, Any], key: str) -> str:
    if not isinstance(raw, dict):
        raise ValueError("it is no object")
    value = raw.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"there is no text {key!r}")
    return value
