"""Answers that stand in a text: a question, and the characters of the context that answer it (SQuAD 1.1)."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError
from numjax.pipeline import fields
from numjax.runtime import files
from numjax.tasks import SPAN
from numjax.text import document as documents
from numjax.types import Document, Example, Mark

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Task(protocols.Task):
    """[CLS] question [SEP] context [SEP] → the span of the answer; predictions are cut from the original context.

    Contexts that are too long are read in windows with `data.overflow="windows"`.
    """

    kind = "span"
    unanswered = {"answer": "", "answer_start": -1}
    metric = "f1"
    needs = {"heads": ("span",), "objectives": ("nll",)}
    brings = SPAN

    def __init__(
        self, *, path: str = "", numbers: int = 0, size: int = 0, data_seed: int = 0, fold: int = 0, folds: int = 0
    ):
        """
        Args:
          path: SQuAD's file, or a folder with train and dev; empty for the generated stand-in.
          numbers: 0 for all questions, 1 or 2 for DICE's sub-splits of answers with numbers.
          size: questions of each split to take; 0 for all.
          data_seed: of the splits and of the stand-in.
          fold: which of `folds` is test, in whole articles; folds=0 for the files' own splits.
        """
        self.dataset: dict[str, Any] = {"name": "squad", "numbers": numbers, "seed": data_seed}
        options = {"path": path, "size": size, "fold": fold, "folds": folds}
        self.dataset |= {k: v for k, v in options.items() if v}

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on; each context once."""
        previous = None
        for row in rows:
            context = fields.text(row, "context")
            if context != previous:
                yield context
            previous = context
            yield fields.text(row, "question")

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The question and its context; a record without an answer has no span.

        Raises:
          DataError: the answer is not at the record's `answer_start`.
        """
        question = parse(fields.text(record, "question").strip())
        prefix: Document = (Mark("[CLS]"), *question, Mark("[SEP]"))
        context = fields.text(record, "context")
        segments = parse(context)
        answer, start = fields.text(record, "answer", empty=True), fields.integer(record, "answer_start")
        span = None
        if answer.strip():
            if start < 0 or context[start : start + len(answer)] != answer:
                raise DataError(f"answer_start={start} does not hold the answer {answer[:40]!r}")
            offset = len(documents.surface(prefix)) + start
            offset += len(answer) - len(answer.lstrip())
            span = (offset, offset + len(answer.strip()))
        return Example(
            str(record["id"]),
            (*prefix, *segments, Mark("[SEP]")),
            reference={"answers": _parse_answers(record)},
            spans={"span": span},
            slide=(len(prefix), len(prefix) + len(segments)),
        )

    def score(self, predictions: Sequence[str], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """ "exact" and "f1" as in SQuAD 1.1: each question counts with its best-fitting answer."""
        pairs = [(prediction, r["answers"] or [""]) for prediction, r in zip(predictions, references, strict=True)]
        return {
            "exact": sum(max(float(answers_match(prediction, gold)) for gold in golds) for prediction, golds in pairs)
            / len(pairs),
            "f1": sum(max(overlap(prediction, gold) for gold in golds) for prediction, golds in pairs) / len(pairs),
        }


def normalise(text: str) -> str:
    """The text in lower case, without ASCII punctuation, articles and superfluous blanks (Rajpurkar et al. 2016,
    section 6.1)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def answers_match(prediction: str, gold: str) -> bool:
    """Whether two answers are equal after `normalise`."""
    return normalise(prediction) == normalise(gold)


def overlap(prediction: str, gold: str) -> float:
    """F1 of the bags of words of two answers after `normalise`; 0 if they share no word."""
    left, right = normalise(prediction).split(), normalise(gold).split()
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right)) if shared else 0.0


def _parse_answers(record: Mapping[str, Any]) -> list[str]:
    """The field "answers", a list of texts or its JSON."""
    answers = record.get("answers", [])
    try:
        answers = files.parse_json(answers) if isinstance(answers, str) else list(answers)
    except (ValueError, TypeError):
        answers = None
    if not isinstance(answers, list) or not all(isinstance(text, str) for text in answers):
        raise DataError("field 'answers' must be a list of texts, or its JSON")
    return answers
