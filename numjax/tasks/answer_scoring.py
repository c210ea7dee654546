"""The grade of a student's answer, from graded answers to the same question (MathGPT, supplementary B.2).

Question: P [SEP] Possible scores: … [SEP] Example: A Score: G … [SEP] Score this answer: A
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.pipeline import fields
from numjax.runtime import files
from numjax.tasks import LABEL
from numjax.text import document as documents
from numjax.text.document import marked
from numjax.types import Document, Example, Mark, Text

SCORES = ("Wrong", "Poor", "Fair", "Good", "Excellent")
POSSIBLE = f" Possible scores: {' '.join(SCORES)}"


class Task(protocols.Task):
    """One of five grades, predicted at the last position.

    A text that is too long loses examples, the last ones first, then the end of the question and that of the answer.
    """

    kind = "classify"
    reads_probabilities = True
    unanswered = {"grade": 0, "examples": "[]"}
    metric = "-loss"
    needs = {"heads": ("classify",), "objectives": ("nll",)}
    brings = LABEL
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
          path: the table or its folder; by default the stand-in.
          fold: which of the five folds is the test split. size: most answers to use. data_seed: of the folds and of
            the choice of examples, which is the same in every epoch.
          examples: most examples of each grade.
          as_published: write "[SEP]" and "[CLS]" as ordinary text, and "[CLS]" last instead of [EOS], not first.
        """
        if examples < 0:
            raise UsageError(f"examples={examples} must not be negative")
        options = {"name": "answer_scoring", "path": path, "fold": fold, "seed": data_seed, "examples": examples}
        self.dataset: dict[str, Any] = options
        if size is not None:
            self.dataset["size"] = size
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on; examples are the answers of other rows."""
        for row in rows:
            answer = fields.text(row, "answer", empty=True)
            parts = [f"Question: {fields.text(row, 'problem')}", POSSIBLE, f" Score this answer: {answer}"]
            parts += [f" Example: {answer}", *(f" Score: {score}" for score in SCORES)]
            yield documents.surface(marked.parse_document("".join(parts), documents.parse))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] question, scores, examples, answer [EOS], and the grade."""
        grade = fields.label(record, "grade", len(SCORES))
        answer = fields.text(record, "answer", empty=True)
        graded = _parse_examples(record)
        pieces: list[Document] = [
            (*(() if self.as_published else (Mark("[CLS]"),)), Text("Question: ")),
            self._parse(fields.text(record, "problem"), parse),
            self._parse_part(POSSIBLE, parse),
            *(self._parse_part(f" Example: {text} Score: {SCORES[score]}", parse) for text, score in graded),
            self._parse_part(" Score this answer: ", parse),
            self._parse(answer, parse),
            (Text(" [CLS]") if self.as_published else Mark("[EOS]"),),
        ]
        starts = [0]
        for piece in pieces:
            starts.append(starts[-1] + len(piece))
        spare = [(starts[i], starts[i + 1]) for i in reversed(range(3, 3 + len(graded)))]
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
        """Accuracy, F1 (mean over classes), RMSE of the grades, Cohen's kappa (not weighted), and with `log_probs`
        AUC (each class against the others, mean over the classes that are in the references but are not all of them).

        Args:
          log_probs: of the classes, [5] for each prediction.
        """
        metrics: Any = importlib.import_module("sklearn.metrics")
        gold = [reference["label"] for reference in references]
        grades = [int(prediction) for prediction in predictions]
        out = {
            "accuracy": sum(f == g for f, g in zip(grades, gold, strict=True)) / len(gold),
            "F1": float(metrics.f1_score(gold, grades, average="macro", zero_division=0)),
            "RMSE": math.sqrt(sum((f - g) ** 2 for f, g in zip(grades, gold, strict=True)) / len(gold)),
        }
        if len({*gold, *grades}) > 1:  # else chance agreement is 1, and kappa is 0 / 0
            out["kappa"] = float(metrics.cohen_kappa_score(gold, grades))
        if log_probs is not None:
            areas = []
            for label in range(len(SCORES)):
                is_label = [g == label for g in gold]
                if any(is_label) and not all(is_label):
                    areas.append(float(metrics.roc_auc_score(is_label, [float(row[label]) for row in log_probs])))
            if areas:
                out["AUC"] = sum(areas) / len(areas)
        return out

    def _parse_part(self, text: str, parse: Callable[[str], Document]) -> Document:
        """A separator and the text behind it."""
        if self.as_published:
            return self._parse(f" [SEP]{text}", parse)
        return (Mark("[SEP]"), *self._parse(text, parse))

    def _parse(self, text: str, parse: Callable[[str], Document]) -> Document:
        return marked.parse_document(text, parse, self.as_published)


def _parse_examples(record: Mapping[str, Any]) -> list[tuple[str, int]]:
    content = fields.text(record, "examples")
    try:
        graded = [
            (fields.text(row, "answer", empty=True), fields.label(row, "grade", 5))
            for row in files.parse_json(content)
        ]
    except (ValueError, TypeError):
        raise DataError("field 'examples' must be a JSON list of {answer, grade from 0 to 4}") from None
    return graded
