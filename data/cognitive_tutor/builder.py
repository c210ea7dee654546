"""What students of an algebra tutor entered next, after the tutor's feedback (Cognitive Tutor, DataShop 660)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import files
from ..folds import FoldedBuilder
from .generate import generate_rows
from .read import PATTERNS, parse_rows, read_sessions


class CognitiveTutor(FoldedBuilder):
    """Options: `path` of the log or its folder, or empty for the stand-in; `fold` from 0 to `folds` − 1, which is the
    test split; `size`, at most this many problems of students (0: all of the log, 3,000 of the stand-in); `seed` of
    the folds and of the stand-in."""

    FIELDS = {
        "id": str, "student_id": str, "problem_id": str, "problem": str, "history": str,
        "outcome": str, "action": str, "input": str,
    }  # fmt: skip
    KEYS = {"(student_id, problem_id)": ("student_id", "problem_id"), "student_id": ("student_id",)}
    STAND_IN_SIZE = 3000
    UNIT = "usable problems"

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [files.find_one(options["path"], PATTERNS)] if options["path"] else []

    def read_records(self, paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return read_sessions(paths[0])

    def make_records(self, size: int, seed: int) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return parse_rows((f"line-{index}", row) for index, row in enumerate(generate_rows(size, seed)))

    def records(
        self, splits: Mapping[str, Sequence[int]], records: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for split, indices in splits.items():
            for i in indices:
                for record in make_step_records(records[i], f"{self.name}-{i:06d}"):
                    yield split, record


def make_step_records(session: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yields a record for each entry that follows feedback, with all earlier steps."""
    steps = session["steps"]
    for i in range(1, len(steps)):
        if not steps[i - 1]["feedback"] or not steps[i]["action"]:
            continue
        target = {key: steps[i][key] for key in ("outcome", "action", "input")}
        ids = {key: session[key] for key in ("student_id", "problem_id", "problem")}
        history = json.dumps(steps[:i], ensure_ascii=False)
        yield {"id": f"{name}-{i}", "history": history} | ids | target


Builder = CognitiveTutor
