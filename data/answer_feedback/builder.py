"""Common wrong answers and teachers' feedback on them (ASSISTments)."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import answers
from ..folds import FoldedBuilder
from .generate import generate_rows
from .read import SAMPLES, parse_rows, read_samples


class AnswerFeedback(FoldedBuilder):
    """Options: `path` of the table or the folder, or empty for the stand-in; `fold` from 0 to `folds` − 1, which is
    the test split: all parts of a problem are in one split; `size`, at most this many samples (0: all, 4,500 of
    the stand-in); `seed` of the validation split and of the stand-in."""

    FIELDS = {"id": str, "problem_id": str, "problem_code": str, "problem": str, "answer": str, "feedback": str}
    KEYS = {"problem_code": ("problem_code",), "(problem_id, answer)": ("problem_id", "answer")}
    STAND_IN_SIZE = 4500
    UNIT = "problems with usable feedback"

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return answers.find_sources(options["path"], SAMPLES) if options["path"] else []

    def read_records(self, paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return read_samples(paths)

    def make_records(self, size: int, seed: int) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return parse_rows((f"line-{index}", row) for index, row in enumerate(generate_rows(size, seed)))

    def fold_criteria(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
        return {"groups": [record["problem_code"] for record in records]}


Builder = AnswerFeedback
