"""Answers that stand in a text: a question, and the characters of the context that answer it (SQuAD 1.1)."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError
from numjax.tasks import answered, records
from numjax.text import document as documents
from numjax.types import Document, Example, Mark

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Task(protocols.Task):
    """[CLS] question [SEP] context [SEP] → the span of the answer; predictions are cut from the context as it was.

    Contexts that are too long are read in windows under `data.overflow="windows"`.
    """

    kind = "span"
    unanswered = {"answer": "", "answer_start": -1}
    metric = "f1"
    needs = {"heads": ("span",), "objectives": ("nll",)}
    brings = answered.SPAN

    def __init__(self, *, path: str = "", numbers: int = 0, size: int = 0, data_seed: int = 0):
        """
        Args:
          path: SQuAD's file, or a folder with train and dev; empty for the generated stand-in.
          numbers: 0 for all questions, 1 or 2 for DICE's sub-splits of answers with numbers.
          size: questions of each split to take; 0 for all.
          data_seed: of the splits and of the stand-in.
        """
        self.dataset: dict[str, Any] = {"name": "squad", "numbers": numbers, "seed": data_seed}
        self.dataset |= {k: v for k, v in {"path": path, "size": size}.items() if v}

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on: each context once."""
        before = None
        for row in rows:
            context = records.text(row, "context")
            if context != before:
                yield context
            before = context
            yield records.text(row, "question")

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The question and its context; a record without an answer has no span.

        Raises:
          DataError: the answer does not stand where the record says.
        """
        asked = parse(records.text(record, "question").strip())
        before: Document = (Mark("[CLS]"), *asked, Mark("[SEP]"))
        context = records.text(record, "context")
        inside = parse(context)
        answer, start = records.text(record, "answer", empty=True), records.integer(record, "answer_start")
        span = None
        if answer.strip():
            if start < 0 or context[start : start + len(answer)] != answer:
                raise DataError(f"answer_start={start} does not hold the answer {answer[:40]!r}")
            place = len(documents.surface(before)) + start
            place += len(answer) - len(answer.lstrip())
            span = (place, place + len(answer.strip()))
        return Example(
            str(record["id"]),
            (*before, *inside, Mark("[SEP]")),
            reference={"answers": _answers(record)},
            spans={"span": span},
            slide=(len(before), len(before) + len(inside)),
        )

    def score(self, predictions: Sequence[str], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """ "exact" and "f1" as SQuAD 1.1 has them: each question counts with the answer that fits it best."""
        pairs = [(said, r["answers"] or [""]) for said, r in zip(predictions, references, strict=True)]
        return {
            "exact": sum(max(float(same(said, gold)) for gold in golds) for said, golds in pairs) / len(pairs),
            "f1": sum(max(overlap(said, gold) for gold in golds) for said, golds in pairs) / len(pairs),
        }


def normalised(text: str) -> str:
    """Lower case, without ASCII punctuation, articles and superfluous blanks (Rajpurkar et al. 2016, section 6.1)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def same(said: str, gold: str) -> bool:
    """Whether two answers are equal as `normalised`."""
    return normalised(said) == normalised(gold)


def overlap(said: str, gold: str) -> float:
    """F1 of the bags of words of two answers as `normalised`; 0 where they share none."""
    left, right = normalised(said).split(), normalised(gold).split()
    shared = sum((Counter(left) & Counter(right)).values())
    return 2 * shared / (len(left) + len(right)) if shared else 0.0


def _answers(record: Mapping[str, Any]) -> list[str]:
    """The field, a list of texts or its JSON."""
    found = record.get("answers", [])
    try:
        found = json.loads(found) if isinstance(found, str) else list(found)
    except (ValueError, TypeError):
        found = None
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise DataError("field 'answers' must be a list of texts, or its JSON")
    return found
