"""Graded answers to open questions: the raw table of HTML, or MathGPT's problems.json and answers.json."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import answers
from .generate import COLUMNS

SAMPLES = ("answers*.json", "answers*.json.gz")
GRADES = 5


def read_answers(paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, Any]]:
    """(name, {problem_id, problem, problem_log_id, answer, grade}, or a ValueError); see `answers.read`."""
    return answers.read_records(paths, COLUMNS, parse_rows, _parse_sample)


def parse_rows(rows: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[tuple[str, Any]]:
    """Answers of (name, line of the raw table) pairs; see `read`. Grades are from 1 to 5 there."""
    convert_problem = functools.lru_cache(answers.convert_html)  # a problem has many answers
    for name, row in rows:
        problem, answer = convert_problem(row["raw_full_problem"]), answers.convert_html(row["raw_answer_text"])
        try:
            grade = float(row["grade"]) - 1
        except ValueError:
            grade = -1.0
        if grade not in range(GRADES):
            yield name, ValueError(f"has the grade {row['grade'][:20]!r}, which is none of 1 to {GRADES}")
        elif not problem or not row["problem_id"].strip():
            yield name, ValueError("has no problem")
        else:
            ids = {key: row[key].strip() for key in ("problem_id", "problem_log_id")}
            yield name, ids | {"problem": problem, "answer": answer, "grade": int(grade)}


def _parse_sample(raw: Any, problems: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise ValueError("is no object with answer, problem_id, problem_log_id and grade")
    problem, grade = str(raw.get("problem_id")), raw.get("grade")
    if problem not in problems:
        raise ValueError(f"belongs to problem {problem[:40]!r}, which is missing or cannot be read")
    if isinstance(grade, bool) or not isinstance(grade, int) or grade not in range(GRADES):
        raise ValueError(f"has the grade {str(grade)[:20]!r}, which is none of 0 to {GRADES - 1}")
    return {
        "problem_id": problem,
        "problem": problems[problem],
        "problem_log_id": str(raw.get("problem_log_id", "")),
        "answer": answers.mark_formulas(raw.get("answer")),
        "grade": grade,
    }
