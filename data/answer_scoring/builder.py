"""Students' answers to open questions with their grades (ASSISTments), and graded examples to compare them with."""

from __future__ import annotations

import collections
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError

from .. import answers
from ..folds import FoldedBuilder
from .generate import rows
from .read import GRADES, SAMPLES, of_rows, read


class AnswerScoring(FoldedBuilder):
    """Options: `path` of the table or the folder, or empty for the stand-in; `fold` from 0 to `folds` − 1, which is
    the test split; `size`, at most so many answers (0: all, 4,000 of the stand-in); `examples`, at most so many
    graded ones for each grade with an answer; `seed` of the folds, the examples and the stand-in."""

    FIELDS = {
        "id": str, "problem_id": str, "problem_log_id": str, "problem": str, "answer": str, "grade": int,
        "examples": str,
    }  # fmt: skip
    OPTIONS = {**FoldedBuilder.OPTIONS, "examples": 5}
    KEYS = {"problem_id": ("problem_id",), "(problem_id, answer)": ("problem_id", "answer")}
    STAND_IN_SIZE = 4000
    UNIT = "usable answers"

    @classmethod
    def check(cls, options: Mapping[str, Any]) -> None:
        super().check(options)
        if options["examples"] < 0:
            raise UsageError(f"{cls.name}: examples={options['examples']} is negative; 0 gives none")

    @classmethod
    def files(cls, options: Mapping[str, Any]) -> list[pathlib.Path]:
        return answers.sources(options["path"], SAMPLES) if options["path"] else []

    def read(self, paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return read(paths)

    def make(self, size: int, seed: int) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return of_rows((f"line-{place}", row) for place, row in enumerate(rows(size, seed)))

    def kinds(self, kept: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
        return {"labels": [record["problem_id"] for record in kept]}

    def records(
        self, splits: Mapping[str, Sequence[int]], kept: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        seed, fold = self.options["seed"], self.options["fold"]
        bank: dict[str, list[list[int]]] = collections.defaultdict(lambda: [[] for _ in range(GRADES)])
        for i in splits["train"]:
            bank[kept[i]["problem_id"]][kept[i]["grade"]].append(i)
        for split, places in splits.items():
            for i in places:
                rng = np.random.default_rng([seed, fold, i])
                chosen = examples_of(rng, kept, i, bank[kept[i]["problem_id"]], self.options["examples"])
                shown = [{key: kept[j][key] for key in ("answer", "grade")} for j in chosen]
                written = json.dumps(shown, ensure_ascii=False)
                yield split, {"id": f"answer_scoring-{i:06d}", "examples": written} | kept[i]


def examples_of(
    rng: np.random.Generator,
    kept: Sequence[Mapping[str, Any]],
    place: int,
    by_grade: Sequence[Sequence[int]],
    most: int,
) -> list[int]:
    """Places of graded answers to the same problem: first one of each grade that there is, then the others, each part
    shuffled; none of the same log entry.

    Args:
      place: of the answer to be scored. by_grade: grade → places in train. most: of each grade.
    """
    first, more = [], []
    for places in by_grade:
        log = kept[place]["problem_log_id"]
        others = [j for j in places if j != place and (not log or kept[j]["problem_log_id"] != log)]
        drawn = rng.permutation(others)[:most].tolist() if others else []
        first += drawn[:1]
        more += drawn[1:]
    return [int(j) for part in (first, more) for j in (rng.permutation(part) if part else ())]


Builder = AnswerScoring
