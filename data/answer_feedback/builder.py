"""What teachers say to common wrong answers (ASSISTments)."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import answers
from ..folds import FoldedBuilder
from .generate import rows
from .read import SAMPLES, of_rows, read


class AnswerFeedback(FoldedBuilder):
    """Options: `path` of the table or the folder, or empty for the stand-in; `fold` from 0 to `folds` − 1, which is
    the test split: parts of a problem are never parted; `size`, at most so many samples (0: all, 4,500 of the
    stand-in); `seed` of the validation split and of the stand-in."""

    FIELDS = {"id": str, "problem_id": str, "problem_code": str, "problem": str, "answer": str, "feedback": str}
    KEYS = {"problem_code": ("problem_code",), "(problem_id, answer)": ("problem_id", "answer")}
    STAND_IN_SIZE = 4500
    UNIT = "problems with usable feedback"

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return answers.sources(options["path"], SAMPLES) if options["path"] else []

    def read(self, paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return read(paths)

    def make(self, size: int, seed: int) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return of_rows((f"line-{place}", row) for place, row in enumerate(rows(size, seed)))

    def kinds(self, kept: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
        return {"groups": [record["problem_code"] for record in kept]}


Builder = AnswerFeedback
