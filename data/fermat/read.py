"""FERMAT's files: test_sets/questions/VIEW.q and test_sets/answers/VIEW.a, JSON lines, and templates.csv."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from numjax.errors import DataError, UsageError

from ..files import read_lines, read_table
from .formula import shape

# The views in the order of their records; the first tells which operation a problem needs.
VIEWS = (
    *("Original", "Commuted", "Integers_0_to_1000", "2_digit_integer", "3_digit_integer", "4_digit_integer"),
    *("1000+", "1000+_sam", "1dp_random", "2dp_random", "1000+_comma", "1000+_spac", "Worded"),
    *("Original_as_1dp", "Original_as_2dp", "Original_made_1dp", "Original_made_1dp_without_0"),
    *("Original_made_2dp", "Original_made_2dp_without_0"),
)
PAPER = VIEWS[:10]  # the columns of digit aggregation's tables
NOT_COMMUTABLE = "Not commutable"

_NAME = re.compile(r"num[1-9]\d*")


class FormulaTemplate(NamedTuple):
    """A problem with num1, num2, … in place of its numbers, and the formula of its answer over them."""

    text: str
    formula: str
    names: tuple[str, ...]


def select_views(views: str) -> tuple[str, ...]:
    """The views that "all", "paper" or a list with commas selects.

    Raises:
      UsageError: there is no such view.
    """
    names = {"all": VIEWS, "paper": PAPER}.get(views) or tuple(name.strip() for name in views.split(","))
    for name in names:
        if name not in VIEWS:
            raise UsageError(f"fermat: views={name}; choose all, paper, or of {', '.join(VIEWS)}")
    return tuple(dict.fromkeys(names))


def find_files(path: str) -> tuple[pathlib.Path, dict[str, tuple[pathlib.Path, pathlib.Path]]]:
    """(templates.csv, view → (its questions, its answers)) below a folder of the published repository.

    Raises:
      DataError: the templates or all views are missing.
    """
    root = pathlib.Path(path).expanduser()
    templates = next((p for p in (root / "templates.csv", root / "templates" / "templates.csv") if p.is_file()), None)
    if templates is None:
        raise DataError(f"{root}: no templates.csv there; set path to the folder of FERMAT's repository")
    pairs = {}
    for view in VIEWS:
        paths = root / "test_sets/questions" / f"{view}.q", root / "test_sets/answers" / f"{view}.a"
        if all(p.is_file() for p in paths):
            pairs[view] = paths
    if not pairs:
        raise DataError(f"{root}: no test_sets/questions/*.q with its test_sets/answers/*.a there")
    return templates, pairs


def read_templates(path: pathlib.Path) -> Iterator[tuple[int, dict[str, str] | ValueError]]:
    """Yields (line, row, or what is wrong with it) of templates.csv. Errors as in `files.read_table`."""
    return read_table(path, ("templates", "answers"))


def parse_template(row: Mapping[str, str]) -> FormulaTemplate:
    """Parses a row of templates.csv.

    Raises:
      ValueError: it has no text or no formula, or the formula asks for a number that the text lacks.
    """
    text, formula = row["templates"].strip(), row["answers"].strip()
    names = tuple(dict.fromkeys(_NAME.findall(text)))
    if not text or not names:
        raise ValueError("there is no num1 in the template")
    shape(formula)
    for name in _NAME.findall(formula):
        if name not in names:
            raise ValueError(f"its answer needs {name}, which the text lacks")
    return FormulaTemplate(text, formula, names)


def read_objects(path: pathlib.Path) -> Iterator[tuple[int, Any]]:
    """Yields (line, the object, or a ValueError that says why there is none) of a file of JSON lines."""
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line.decode("utf-8-sig"))
        except (ValueError, RecursionError):
            yield number, ValueError("not JSON in UTF-8")


def join_objects(
    questions: Sequence[tuple[int, Any]], answers: Sequence[tuple[int, Any]]
) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    """Yields (index or line, {index, question, answer, equation}, or a ValueError), in the order of the indices.

    Each file is shuffled by itself: a question and an answer with the same index are a pair.
    """
    objects: dict[str, dict[int, Mapping[str, Any]]] = {"question": {}, "answer": {}}
    for kind, rows in (("question", questions), ("answer", answers)):
        for line, raw in rows:
            if isinstance(raw, ValueError):
                yield f"{kind} of line {line}", raw
            elif not isinstance(raw, dict) or type(raw.get("index")) is not int or not isinstance(raw.get(kind), str):
                yield f"{kind} of line {line}", ValueError(f"is no object with a whole index and a text {kind!r}")
            elif raw["index"] in objects[kind]:
                yield f"{kind} of line {line}", ValueError(f"index {raw['index']} is there twice")
            else:
                objects[kind][raw["index"]] = raw
    for index in sorted(objects["question"].keys() | objects["answer"].keys()):
        question, answer = objects["question"].get(index), objects["answer"].get(index)
        if question is None or answer is None:
            lacking = "question" if question is None else "answer"
            yield str(index), ValueError(f"index {index} has no {lacking}")
            continue
        text, answer_text = question["question"].strip(), answer["answer"].strip()
        if not text or not answer_text:
            yield str(index), ValueError("its question or its answer is empty")
            continue
        yield (
            str(index),
            {"index": index, "question": text, "answer": answer_text, "equation": str(answer.get("equation", ""))},
        )


def operation(equation: str) -> str:
    """The shape of an equation, "a+b"; empty if it has none, as "Not commutable"."""
    try:
        return shape(equation)
    except ValueError:
        return ""
