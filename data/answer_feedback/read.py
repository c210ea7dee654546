"""Common wrong answers with feedback: the raw table of HTML, or MathGPT's problems.json and samples.json."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .. import answers
from .generate import ANSWERS, COLUMNS

SAMPLES = ("samples*.json", "samples*.json.gz", "feedback*.json", "feedback*.json.gz")
IDS = ("problem_id", "problem_code", "problem_part")
_NONE = ("", "null", "nan", "#ERROR!")  # a cell without an answer


def read_samples(paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, Any]]:
    """(name, {problem_id, problem_code, problem, answer, feedback}, or a ValueError); see `answers.read`."""
    return answers.read_records(paths, COLUMNS, parse_rows, _parse_sample)


def parse_rows(rows: Iterable[tuple[str, Mapping[str, str]]]) -> Iterator[tuple[str, Any]]:
    """Samples of (name, line of the raw table) pairs; see `read`.

    A line is a part of a problem with up to three wrong answers. The text of a problem's first part precedes the
    texts of its other parts. A part that occurs again is read once.
    """
    lines = [(name, dict(row) | {column: row[column].strip() for column in IDS}) for name, row in rows]
    lines.sort(key=lambda line: (line[1]["problem_code"], _sort_key(line[1]["problem_part"])))
    seen: set[str] = set()
    code, head = None, ""
    for name, row in lines:
        body = answers.convert_html(row["body"])
        if not body or not row["problem_code"] or not row["problem_id"]:
            yield name, ValueError("has no text of the problem, no problem_code or no problem_id")
            continue
        if row["problem_id"] in seen:
            continue
        seen.add(row["problem_id"])
        if row["problem_code"] != code:
            code, head, problem = row["problem_code"], body, body
        else:
            problem = f"{head} {body}"
        for column in ANSWERS:
            answer, feedback = row[column].strip(), row[f"{column}_feedback"].strip()
            if answer in _NONE or feedback in _NONE:
                continue
            ids = {"problem_id": row["problem_id"], "problem_code": row["problem_code"]}
            texts = {
                "problem": problem,
                "answer": answers.convert_html(answer),
                "feedback": answers.convert_html(feedback),
            }
            if texts["answer"] and texts["feedback"]:
                yield f"{name}-{column}", ids | texts
            else:
                yield f"{name}-{column}", ValueError("has an answer or feedback without text")


def _sort_key(part: str) -> tuple[float, str]:
    """A sort key that orders parts: numbers by their value."""
    try:
        return float(part), ""
    except ValueError:
        return 0.0, part


def _parse_sample(raw: Any, problems: Mapping[str, str]) -> dict[str, Any]:
    if not isinstance(raw, Mapping):
        raise ValueError("is no object with problem_id, problem_code, answer and feedback")
    problem = str(raw.get("problem_id"))
    if problem not in problems:
        raise ValueError(f"belongs to problem {problem[:40]!r}, which is missing or cannot be read")
    if not isinstance(raw.get("problem_code"), str | int):
        raise ValueError("has no problem_code")
    texts = {name: answers.mark_formulas(raw.get(name)) for name in ("answer", "feedback")}
    if not all(text.strip() for text in texts.values()):
        raise ValueError("has an answer or feedback without text")
    return {"problem_id": problem, "problem_code": str(raw["problem_code"]), "problem": problems[problem]} | texts
