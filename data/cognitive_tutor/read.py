"""The Cognitive Tutor's log (DataShop 660): the export as a table, or MathGPT's preprocessed JSON."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from numjax.errors import DataError
from numjax.expr import latex
from numjax.expr.prose.wrap import from_html, wrap_formulas
from numjax.expr.tree import Tree
from numjax.text.document import marked

from .. import files
from .generate import COLUMNS

PATTERNS = tuple(f"*{suffix}{packed}" for suffix in (".csv", ".tsv", ".txt", ".json") for packed in ("", ".gz"))


def read_sessions(path: pathlib.Path) -> Iterator[tuple[str, Any]]:
    """Yields (name, session) of every student and problem: {student_id, problem_id, problem, steps: [{step, action,
    input, outcome, feedback}]}, with texts as marked text; or (name, ValueError) where a line cannot be used.

    Raises:
      DataError: the file is damaged or of another form.
    """
    if path.name.removesuffix(".gz").endswith(".json"):
        value = files.read_json(path)
        if not isinstance(value, list):
            raise DataError(f"{path}: holds no list of students' problems")
        for index, raw in enumerate(value):
            try:
                yield str(index), parse_session(raw)
            except ValueError as error:
                yield str(index), error
        return
    yield from files.parse_table(path, COLUMNS, parse_rows)


def parse_rows(rows: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[tuple[str, Any]]:
    """Sessions of (name, line of the table) pairs, in order of their first line; see `read`."""
    sessions: dict[tuple[str, str], dict[str, Any]] = {}
    for name, row in rows:
        student, problem, step, action, typed, outcome, feedback = (row[column].strip() for column in COLUMNS)
        lacking = [c for c, v in zip(COLUMNS, (student, problem, "", "", "", outcome), strict=False) if not v]
        lacking = [column for column in lacking if column in (COLUMNS[0], COLUMNS[1], "Outcome")]
        if lacking:
            yield name, ValueError(f"has no {' and no '.join(map(repr, lacking))}")
            continue
        session = sessions.setdefault(
            (student, problem), {"student_id": student, "problem_id": problem, "problem": "", "steps": []}
        )
        entry = {"step": mark_math(step), "action": action, "input": mark_math(typed), "outcome": outcome}
        session["steps"].append(entry | {"feedback": mark_text(feedback)})
    for (student, problem), session in sessions.items():
        # The name of a problem is its equation; where it is not, the first step has it.
        marked_name = mark_math(problem)
        first = next((entry["step"] for entry in session["steps"] if entry["step"]), "")
        session["problem"] = marked_name if "=" in problem and marked_name.startswith("<m>") else first or marked_name
        yield f"{student}/{problem}", session


def parse_session(raw: Any) -> dict[str, Any]:
    """A session of the preprocessed form, its articles as marked text.

    Raises:
      ValueError: why it cannot be used.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("steps"), list):
        raise ValueError("is no object with student_id, problem_id, problem and steps")
    steps = []
    for i, entry in enumerate(raw["steps"]):
        if not isinstance(entry, Mapping):
            raise ValueError(f"step {i} is no object")
        for name in ("action", "outcome"):
            if not isinstance(entry.get(name), str):
                raise ValueError(f"step {i} has no text {name!r}")
        texts = {
            name: _mark_article(entry.get(name), f"{name} of step {i}") for name in ("step", "input", "feedback")
        }
        if not entry["outcome"].strip():
            raise ValueError(f"step {i} has no outcome")
        steps.append(texts | {"action": entry["action"].strip(), "outcome": entry["outcome"].strip()})
    ids = {name: raw.get(name) for name in ("student_id", "problem_id")}
    if not all(isinstance(value, str | int) for value in ids.values()):
        raise ValueError("has no student_id and problem_id")
    problem = _mark_article(raw.get("problem"), "problem")
    return {name: str(value) for name, value in ids.items()} | {"problem": problem, "steps": steps}


@functools.lru_cache(1 << 14)  # cells of a log repeat often
def mark_text(cell: str) -> str:
    """A cell of text or HTML, with its formulas marked."""
    return wrap_formulas(from_html(cell)).replace("\n", " ")


@functools.lru_cache(1 << 14)
def mark_math(cell: str) -> str:
    """A cell that is a formula, marked as a whole; other text with the formulas in it marked."""
    text = from_html(cell).replace("\n", " ")
    return marked.mark_formula(text) if isinstance(latex.parse(text), Tree) else wrap_formulas(text)


def _mark_article(value: Any, what: str) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return mark_math(value)
    try:
        return marked.from_article(value)
    except ValueError as error:
        raise ValueError(f"the {what} {error}") from None
