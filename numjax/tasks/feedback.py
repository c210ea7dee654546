"""What a teacher says to a wrong answer (MathGPT's code): "Question: P [SEP] Answer: A [SEP] Feedback: " → text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.tasks import answered, overlap, records
from numjax.text import document as documents
from numjax.text import marked
from numjax.types import Document, Example, Mark, Text

_WORD = re.compile(r"\\[A-Za-z]+|[A-Za-z]+(?:['’][a-z]+)?|[0-9]+(?:\.[0-9]+)?|\S")


class Task(protocols.Task):
    """Only the feedback and [EOS] are scored; question and answer are read.

    A prediction is a text; formulas in it are LaTeX as the printer writes it, as in the references. What is too long
    loses the end of its question.
    """

    kind = "language_model"
    generates = True
    unanswered = {"feedback": "-"}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = answered.NEXT

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
          path: of the table or the folder; without one, the stand-in.
          fold: which of the five is the test split. size: at most so many wrong answers. data_seed: of the validation
            split.
          as_published: no [CLS], "[SEP]" as ordinary text, formulas of plain GPTs between `<m>` and `</m>` as typed,
            and ROUGE-L as nlg-eval has it.
        """
        self.dataset: dict[str, Any] = {"name": "answer_feedback", "path": path, "fold": fold, "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            fields = [records.text(row, name) for name in ("problem", "answer", "feedback")]
            whole = "Question: {}[SEP] Answer: {}[SEP] Feedback: {}".format(*fields)
            yield documents.surface(marked.document(whole, documents.parse, self.as_published))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] question [SEP] answer [SEP], then the feedback and [EOS]."""
        prompt = self.prompt(record, parse)
        feedback = records.text(record, "feedback")
        # The question's segments stand behind "Question: ".
        first = 1 if self.as_published else 2
        count = len(self._read(records.text(record, "problem"), parse))
        return Example(
            str(record["id"]),
            (*prompt, *self._read(feedback, parse), Mark("[EOS]")),
            loss_from=len(prompt),
            reference={"feedback": words(documents.surface(marked.document(feedback, documents.parse)))},
            spare=tuple((i, i + 1) for i in reversed(range(first, first + count))),
        )

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """What the model reads before it writes."""
        question, answer = (self._read(records.text(record, name), parse) for name in ("problem", "answer"))
        if self.as_published:
            parts = (Text("Question: "), *question, Text(" [SEP] Answer: "), *answer, Text(" [SEP] Feedback: "))
            return parts
        first = (Mark("[CLS]"), Text("Question: "), *question, Mark("[SEP]"), Text(" Answer: "), *answer)
        return (*first, Mark("[SEP]"), Text(" Feedback: "))

    def predicted(self, document: Document) -> Any:
        """What of a written document is scored."""
        written = []
        for segment in document:
            if isinstance(segment, Mark):
                break
            written.append(segment)
        # A plain GPT may have learned to write formulas as they are typed.
        return words(documents.surface(marked.document(documents.surface(written), documents.parse)))

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Exact matches, and the overlaps of `numjax.tasks.overlap` over words, numbers and signs."""
        wanted = [reference["feedback"] for reference in references]
        found = [prediction or "" for prediction in predictions]
        exact = sum(f == w for f, w in zip(found, wanted, strict=True)) / len(wanted)
        return {"exact": exact} | overlap.scores(found, wanted, as_published=self.as_published)

    def _read(self, text: str, parse: Callable[[str], Document]) -> Document:
        return marked.document(text, parse, self.as_published)


def words(text: str) -> str:
    """A text with one blank between its words, numbers and signs, so that its own blanks do not count."""
    return " ".join(_WORD.findall(text))
