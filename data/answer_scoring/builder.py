"""Students' answers to open questions with their grades (ASSISTments), and graded examples for comparison."""

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
from .generate import generate_rows
from .read import GRADES, SAMPLES, parse_rows, read_answers


class AnswerScoring(FoldedBuilder):
    """Options: `path` of the table or the folder, or empty for the stand-in; `fold` from 0 to `folds` − 1, which is
    the test split; `size`, at most this many answers (0: all, 4,000 of the stand-in); `examples`, at most this
    many graded answers of each grade beside an answer; `seed` of the folds, the examples and the stand-in."""

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
        return answers.find_sources(options["path"], SAMPLES) if options["path"] else []

    def read_records(self, paths: Sequence[pathlib.Path]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return read_answers(paths)

    def make_records(self, size: int, seed: int) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
        return parse_rows((f"line-{index}", row) for index, row in enumerate(generate_rows(size, seed)))

    def fold_criteria(self, records: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[Any]]:
        return {"labels": [record["problem_id"] for record in records]}

    def records(
        self, splits: Mapping[str, Sequence[int]], records: Sequence[dict[str, Any]]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        seed, fold = self.options["seed"], self.options["fold"]
        bank: dict[str, list[list[int]]] = collections.defaultdict(lambda: [[] for _ in range(GRADES)])
        for i in splits["train"]:
            bank[records[i]["problem_id"]][records[i]["grade"]].append(i)
        for split, indices in splits.items():
            for i in indices:
                rng = np.random.default_rng([seed, fold, i])
                picks = choose_examples(rng, records, i, bank[records[i]["problem_id"]], self.options["examples"])
                graded = [{key: records[j][key] for key in ("answer", "grade")} for j in picks]
                examples = json.dumps(graded, ensure_ascii=False)
                yield split, {"id": f"answer_scoring-{i:06d}", "examples": examples} | records[i]


def choose_examples(
    rng: np.random.Generator,
    records: Sequence[Mapping[str, Any]],
    index: int,
    by_grade: Sequence[Sequence[int]],
    limit: int,
) -> list[int]:
    """Indices of graded answers to the same problem: first one of each grade that there is, then the rest, each part
    shuffled; none of the same log entry.

    Args:
      index: of the answer to score. by_grade: grade → indices in train. limit: at most this many of each grade.
    """
    first, rest = [], []
    for indices in by_grade:
        log = records[index]["problem_log_id"]
        candidates = [j for j in indices if j != index and (not log or records[j]["problem_log_id"] != log)]
        picks = rng.permutation(candidates)[:limit].tolist() if candidates else []
        first += picks[:1]
        rest += picks[1:]
    return [int(j) for part in (first, rest) for j in (rng.permutation(part) if part else ())]


Builder = AnswerScoring
