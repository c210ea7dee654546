"""What teachers say to common wrong answers (ASSISTments)."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError

from .. import answers, folds
from ..builder import ArrayRecordBuilder
from .generate import rows
from .read import SAMPLES, of_rows, read

STAND_IN_SIZE = 4500


class AnswerFeedback(ArrayRecordBuilder):
    """Options: `path` of the table or the folder, or empty for the stand-in; `fold` from 0 to `folds` − 1, which is
    the test split: parts of a problem are never parted; `size`, at most so many samples (0: all, 4,500 of the
    stand-in); `seed` of the validation split and of the stand-in."""

    FIELDS = {"id": str, "problem_id": str, "problem_code": str, "problem": str, "answer": str, "feedback": str}
    OPTIONS = {"path": "", **folds.OPTIONS}
    KEYS = {"problem_code": ("problem_code",), "(problem_id, answer)": ("problem_id", "answer")}

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        folds.check(cls.name, options)

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return answers.sources(options["path"], SAMPLES) if options["path"] else []

    def _generate_examples(self) -> Iterator[tuple[str, dict[str, Any]]]:
        paths, seed = self.files(self.options), self.options["seed"]
        size = self.options["size"] or (0 if paths else STAND_IN_SIZE)
        made = enumerate(rows(size, seed)) if not paths else ()
        source = read(paths) if paths else of_rows((f"line-{place}", row) for place, row in made)
        kept: list[dict[str, Any]] = []
        for name, found in source:
            if size and len(kept) == size:
                break
            if isinstance(found, ValueError):
                self.skip(f"answer_feedback-{name}", str(found))
            else:
                kept.append(found)
        codes = [record["problem_code"] for record in kept]
        if len(set(codes)) < self.options["folds"]:
            counted = f"{len(set(codes))} problems with usable feedback are too few for {self.options['folds']} folds"
            raise DataError(f"{self.name}: {counted}{self._first_skip()}")
        splits = folds.folded(len(kept), self.options["fold"], self.options["folds"], seed, groups=codes)
        for split, places in splits.items():
            for i in places:
                yield split, {"id": f"answer_feedback-{i:06d}"} | kept[i]


Builder = AnswerFeedback
