"""What students of an algebra tutor entered next, after the tutor's feedback (Cognitive Tutor, DataShop 660)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import files
from ..folds import FoldedBuilder
from .generate import rows
from .read import PATTERNS, of_rows, read


class CognitiveTutor(FoldedBuilder):
    """Options: `path` of the log or its folder, or empty for the stand-in; `fold` from 0 to `folds` − 1, which is the
    test split; `size`, at most so many problems of students (0: all of the log, 3,000 of the stand-in); `seed` of the
    folds and of the stand-in."""

    FIELDS = {
        "id": str, "student_id": str, "problem_id": str, "problem": str, "history": str,
        "outcome": str, "action": str, "input": str,
    }  # fmt: skip
    KEYS = {"(student_id, problem_id)": ("student_id", "problem_id"), "student_id": ("student_id",)}
    STAND_IN_SIZE = 3000
    UNIT = "usable problems"

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [files.one_of(options["path"], PATTERNS)] if options["path"] else []

    def read(self, paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return read(paths[0])

    def make(self, size: int, seed: int) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return of_rows((f"line-{place}", row) for place, row in enumerate(rows(size, seed)))

    def records(
        self, splits: Mapping[str, Sequence[int]], kept: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        for split, places in splits.items():
            for i in places:
                for record in predicted(kept[i], f"{self.name}-{i:06d}"):
                    yield split, record


def predicted(session: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """One record for each entry that follows feedback, with all that came before it."""
    steps = session["steps"]
    for at in range(1, len(steps)):
        if not steps[at - 1]["feedback"] or not steps[at]["action"]:
            continue
        target = {key: steps[at][key] for key in ("outcome", "action", "input")}
        named = {key: session[key] for key in ("student_id", "problem_id", "problem")}
        history = json.dumps(steps[:at], ensure_ascii=False)
        yield {"id": f"{name}-{at}", "history": history} | named | target


Builder = CognitiveTutor
