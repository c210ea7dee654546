"""What students of an algebra tutor entered next, after the tutor's feedback (Cognitive Tutor, DataShop 660)."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError

from .. import files, folds
from ..builder import ArrayRecordBuilder
from .generate import rows
from .read import PATTERNS, of_rows, read

STAND_IN_SIZE = 3000


class CognitiveTutor(ArrayRecordBuilder):
    """Options: `path` of the log or its folder, or empty for the stand-in; `fold` from 0 to `folds` − 1, which is the
    test split; `size`, at most so many problems of students (0: all of the log, 3,000 of the stand-in); `seed` of the
    folds and of the stand-in."""

    FIELDS = {
        "id": str, "student_id": str, "problem_id": str, "problem": str, "history": str,
        "outcome": str, "action": str, "input": str,
    }  # fmt: skip
    OPTIONS = {"path": "", **folds.OPTIONS}
    KEYS = {"(student_id, problem_id)": ("student_id", "problem_id"), "student_id": ("student_id",)}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        folds.check(cls.name, options)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return [files.one_of(options["path"], PATTERNS)] if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        size, seed = self.options["size"], self.options["seed"]
        found = self.files(self.options)
        made = enumerate(rows(size or STAND_IN_SIZE, seed)) if not found else ()
        source = read(found[0]) if found else of_rows((f"line-{place}", row) for place, row in made)
        kept: list[dict[str, Any]] = []
        for name, session in source:
            if size and len(kept) == size:
                break
            if isinstance(session, ValueError):
                self.skip(f"cognitive_tutor-{name}", str(session))
            else:
                kept.append(session)
        if len(kept) < self.options["folds"]:
            counted = f"{len(kept)} usable problems are too few for {self.options['folds']} folds"
            raise DataError(f"{self.name}: {counted}{self._first_skip()}")
        for split, places in folds.folded(len(kept), self.options["fold"], self.options["folds"], seed).items():
            for i in places:
                for record in predicted(kept[i], f"cognitive_tutor-{i:06d}"):
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
