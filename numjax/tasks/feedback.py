"""A teacher's feedback on a wrong answer (MathGPT's code): "Question: P [SEP] Answer: A [SEP] Feedback: " → text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.metrics import overlap
from numjax.pipeline import fields as records
from numjax.tasks import NEXT
from numjax.text import document as documents
from numjax.text.document import marked
from numjax.types import Document, Example, Mark, Text

_WORD = re.compile(r"\\[A-Za-z]+|[A-Za-z]+(?:['’][a-z]+)?|[0-9]+(?:\.[0-9]+)?|\S")


class Task(protocols.Task):
    """Only the feedback and [EOS] are scored, not question and answer.

    A prediction is a text; its formulas are LaTeX as the printer writes it, as in the references. A text that is too
    long loses the end of its question.
    """

    kind = "language_model"
    generates = True
    unanswered = {"feedback": "-"}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

    def __init__(
        self,
        *,
        path: str = "",
        fold: int = 0,
        size: int | None = None,
        data_seed: int = 221,
        as_published: bool = False,
    ):
        """
        Args:
          path: the table or its folder; by default the stand-in.
          fold: which of the five folds is the test split. size: most wrong answers to use. data_seed: of the
            validation split.
          as_published: no [CLS], "[SEP]" as ordinary text, formulas of plain GPTs between `<m>` and `</m>` as typed,
            and ROUGE-L as in nlg-eval.
        """
        self.dataset: dict[str, Any] = {"name": "answer_feedback", "path": path, "fold": fold, "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            fields = [records.text(row, name) for name in ("problem", "answer", "feedback")]
            whole = "Question: {}[SEP] Answer: {}[SEP] Feedback: {}".format(*fields)
            yield documents.surface(marked.parse_document(whole, documents.parse, self.as_published))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] question [SEP] answer [SEP], then the feedback and [EOS]."""
        prompt = self.prompt(record, parse)
        feedback = records.text(record, "feedback")
        # The question's segments stand behind "Question: ".
        first = 1 if self.as_published else 2
        count = len(self._parse(records.text(record, "problem"), parse))
        return Example(
            str(record["id"]),
            (*prompt, *self._parse(feedback, parse), Mark("[EOS]")),
            loss_from=len(prompt),
            reference={"feedback": space_words(documents.surface(marked.parse_document(feedback, documents.parse)))},
            spare=tuple((i, i + 1) for i in reversed(range(first, first + count))),
        )

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """The prompt: question and answer."""
        question, answer = (self._parse(records.text(record, name), parse) for name in ("problem", "answer"))
        if self.as_published:
            parts = (Text("Question: "), *question, Text(" [SEP] Answer: "), *answer, Text(" [SEP] Feedback: "))
            return parts
        first = (Mark("[CLS]"), Text("Question: "), *question, Mark("[SEP]"), Text(" Answer: "), *answer)
        return (*first, Mark("[SEP]"), Text(" Feedback: "))

    def predicted(self, document: Document) -> Any:
        """The part of a written document that is scored."""
        segments = []
        for segment in document:
            if isinstance(segment, Mark):
                break
            segments.append(segment)
        # A plain GPT may have learned to write formulas as they are typed.
        return space_words(documents.surface(marked.parse_document(documents.surface(segments), documents.parse)))

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """The share of exact matches, and the metrics of `numjax.metrics.overlap` over words, numbers and signs."""
        gold = [reference["feedback"] for reference in references]
        predicted = [prediction or "" for prediction in predictions]
        exact = sum(f == w for f, w in zip(predicted, gold, strict=True)) / len(gold)
        return {"exact": exact} | overlap.scores(predicted, gold, as_published=self.as_published)

    def _parse(self, text: str, parse: Callable[[str], Document]) -> Document:
        return marked.parse_document(text, parse, self.as_published)


def space_words(text: str) -> str:
    """The text with one blank between words, numbers and signs, so that its original blanks do not count."""
    return " ".join(_WORD.findall(text))
