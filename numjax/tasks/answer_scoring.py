"""The grade of a student's answer, from graded answers to the same question (MathGPT, supplementary B.2).

Question: P [SEP] Possible scores: … [SEP] Example: A Score: G … [SEP] Score this answer: A
"""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.tasks import answered, records
from numjax.text import document as documents
from numjax.text import marked
from numjax.types import Document, Example, Mark, Text

SCORES = ("Wrong", "Poor", "Fair", "Good", "Excellent")
POSSIBLE = f" Possible scores: {' '.join(SCORES)}"


class Task(protocols.Task):
    """One of five grades, read off the last position.

    What is too long loses examples, the last ones first, then the end of the question and that of the answer.
    """

    kind = "classify"
    reads_probabilities = True
    unanswered = {"grade": 0, "examples": "[]"}
    metric = "-loss"
    needs = {"heads": ("classify",), "objectives": ("nll",)}
    brings = answered.LABEL
    num_classes = 5

    def __init__(
        self,
        *,
        path: str = "",
        fold: int = 0,
        size: int | None = None,
        examples: int = 5,
        data_seed: int = 221,
        as_published: bool = False,
    ):
        """
        Args:
          path: of the table or the folder; without one, the stand-in.
          fold: which of the five is the test split. size: at most so many answers. data_seed: of the folds and of the
            choice of examples, which stay the same in every epoch.
          examples: at most so many of each grade.
          as_published: "[SEP]" and "[CLS]" as ordinary text, the latter last instead of [EOS] and not first.
        """
        if examples < 0:
            raise UsageError(f"examples={examples} must not be negative")
        named = {"name": "answer_scoring", "path": path, "fold": fold, "seed": data_seed, "examples": examples}
        self.dataset: dict[str, Any] = named
        if size is not None:
            self.dataset["size"] = size
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on; examples are answers of other rows."""
        for row in rows:
            answer = records.text(row, "answer", empty=True)
            parts = [f"Question: {records.text(row, 'problem')}", POSSIBLE, f" Score this answer: {answer}"]
            parts += [f" Example: {answer}", *(f" Score: {score}" for score in SCORES)]
            yield documents.surface(marked.document("".join(parts), documents.parse))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] question, scores, examples, answer [EOS], and the grade."""
        grade = records.label(record, "grade", len(SCORES))
        answer = records.text(record, "answer", empty=True)
        shown = _examples(record)
        pieces: list[Document] = [
            (*(() if self.as_published else (Mark("[CLS]"),)), Text("Question: ")),
            self._read(records.text(record, "problem"), parse),
            self._part(POSSIBLE, parse),
            *(self._part(f" Example: {text} Score: {SCORES[score]}", parse) for text, score in shown),
            self._part(" Score this answer: ", parse),
            self._read(answer, parse),
            (Text(" [CLS]") if self.as_published else Mark("[EOS]"),),
        ]
        starts = [0]
        for piece in pieces:
            starts.append(starts[-1] + len(piece))
        spare = [(starts[i], starts[i + 1]) for i in reversed(range(3, 3 + len(shown)))]
        for piece in (1, len(pieces) - 2):
            spare += [(i, i + 1) for i in reversed(range(starts[piece], starts[piece + 1]))]
        document = tuple(segment for piece in pieces for segment in piece)
        reference = {"label": grade}
        return Example(str(record["id"]), document, labels={"label": grade}, reference=reference, spare=tuple(spare))

    def score(
        self,
        predictions: Sequence[int],
        references: Sequence[Mapping[str, Any]],
        log_probs: Sequence[Any] | None = None,
    ) -> dict[str, float]:
        """Accuracy, F1 (mean of the classes'), RMSE of the grades, Cohen's kappa (not weighted), and with
        probabilities AUC (each class against the others, the mean of those that can be told apart).

        Args:
          log_probs: of the classes, [5] for each prediction.
        """
        metrics: Any = importlib.import_module("sklearn.metrics")
        gold = [reference["label"] for reference in references]
        found = [int(prediction) for prediction in predictions]
        out = {
            "accuracy": sum(f == g for f, g in zip(found, gold, strict=True)) / len(gold),
            "F1": float(metrics.f1_score(gold, found, average="macro", zero_division=0)),
            "RMSE": math.sqrt(sum((f - g) ** 2 for f, g in zip(found, gold, strict=True)) / len(gold)),
        }
        if len({*gold, *found}) > 1:  # else chance agrees too, and kappa is 0 / 0
            out["kappa"] = float(metrics.cohen_kappa_score(gold, found))
        if log_probs is not None:
            areas = []
            for label in range(len(SCORES)):
                mine = [g == label for g in gold]
                if any(mine) and not all(mine):
                    areas.append(float(metrics.roc_auc_score(mine, [float(row[label]) for row in log_probs])))
            if areas:
                out["AUC"] = sum(areas) / len(areas)
        return out

    def _part(self, text: str, parse: Callable[[str], Document]) -> Document:
        """What follows a separator."""
        if self.as_published:
            return self._read(f" [SEP]{text}", parse)
        return (Mark("[SEP]"), *self._read(text, parse))

    def _read(self, text: str, parse: Callable[[str], Document]) -> Document:
        return marked.document(text, parse, self.as_published)


def _examples(record: Mapping[str, Any]) -> list[tuple[str, int]]:
    written = records.text(record, "examples")
    try:
        shown = [
            (records.text(row, "answer", empty=True), records.label(row, "grade", 5)) for row in json.loads(written)
        ]
    except (ValueError, TypeError):
        raise DataError("field 'examples' must be a JSON list of {answer, grade from 0 to 4}") from None
    return shown
