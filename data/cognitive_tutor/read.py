"""The Cognitive Tutor's log (DataShop 660): the export as a table, or MathGPT's preprocessed JSON."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numjax.errors import DataError
from numjax.expr import latex
from numjax.expr.tree import Tree
from numjax.expr.wrap import from_html, wrapped
from numjax.text import marked

from .. import files
from .generate import COLUMNS

PATTERNS = tuple(f"*{suffix}{packed}" for suffix in (".csv", ".tsv", ".txt", ".json") for packed in ("", ".gz"))


def read(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """(name, session) of every student and problem: {student_id, problem_id, problem, steps: [{step, action, input,
    outcome, feedback}]}, with texts as marked text; or (name, ValueError) where a line cannot be used.

    Raises:
      DataError: the file is damaged or of another form.
    """
    if path.name.removesuffix(".gz").endswith(".json"):
        value = files.parsed(path)
        if not isinstance(value, list):
            raise DataError(f"{path}: holds no list of students' problems")
        for place, raw in enumerate(value):
            try:
                yield str(place), of_json(raw)
            except ValueError as error:
                yield str(place), error
        return
    yield from of_rows((f"line-{number}", row) for number, row in files.table(path, COLUMNS))


def of_rows(rows: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[tuple[str, Any]]:
    """Sessions of (name, line of the table) pairs, in order of their first line; see `read`."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for name, row in rows:
        student, problem, step, action, given, outcome, feedback = (row[column].strip() for column in COLUMNS)
        lacking = [c for c, v in zip(COLUMNS, (student, problem, "", "", "", outcome), strict=False) if not v]
        lacking = [column for column in lacking if column in (COLUMNS[0], COLUMNS[1], "Outcome")]
        if lacking:
            yield name, ValueError(f"has no {' and no '.join(map(repr, lacking))}")
            continue
        session = found.setdefault(
            (student, problem), {"student_id": student, "problem_id": problem, "problem": "", "steps": []}
        )
        entry = {"step": of_math(step), "action": action, "input": of_math(given), "outcome": outcome}
        session["steps"].append(entry | {"feedback": of_text(feedback)})
    for (student, problem), session in found.items():
        # The name of a problem is its equation, or the first step says it.
        written = of_math(problem)
        first = next((entry["step"] for entry in session["steps"] if entry["step"]), "")
        session["problem"] = written if "=" in problem and written.startswith("<m>") else first or written
        yield f"{student}/{problem}", session


def of_json(raw: Any) -> dict[str, Any]:
    """A session of the preprocessed form, its articles as marked text.

    Raises:
      ValueError: why it cannot be used.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("steps"), list):
        raise ValueError("is no object with student_id, problem_id, problem and steps")
    steps = []
    for place, entry in enumerate(raw["steps"]):
        if not isinstance(entry, Mapping):
            raise ValueError(f"step {place} is no object")
        for name in ("action", "outcome"):
            if not isinstance(entry.get(name), str):
                raise ValueError(f"step {place} has no text {name!r}")
        texts = {name: _article(entry.get(name), f"{name} of step {place}") for name in ("step", "input", "feedback")}
        if not entry["outcome"].strip():
            raise ValueError(f"step {place} has no outcome")
        steps.append(texts | {"action": entry["action"].strip(), "outcome": entry["outcome"].strip()})
    names = {name: raw.get(name) for name in ("student_id", "problem_id")}
    if not all(isinstance(value, str | int) for value in names.values()):
        raise ValueError("has no student_id and problem_id")
    problem = _article(raw.get("problem"), "problem")
    return {name: str(value) for name, value in names.items()} | {"problem": problem, "steps": steps}


@functools.lru_cache(1 << 14)  # a log says the same again and again
def of_text(cell: str) -> str:
    """A cell that holds text, also HTML, its formulas marked."""
    return wrapped(from_html(cell)).replace("\n", " ")


@functools.lru_cache(1 << 14)
def of_math(cell: str) -> str:
    """A cell that holds a formula as it is typed, marked; other text with what formulas are found in it."""
    text = from_html(cell).replace("\n", " ")
    return marked.formula(text) if isinstance(latex.parse(text), Tree) else wrapped(text)


def _article(value: Any, what: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return of_math(value)
    try:
        return marked.of_article(value)
    except ValueError as error:
        raise ValueError(f"the {what} {error}") from None
