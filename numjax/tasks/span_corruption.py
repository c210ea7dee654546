"""Pre-training of an encoder and a decoder: text with gaps (span corruption), sums and word problems."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.pipeline import fields
from numjax.tasks import word_problem
from numjax.types import Document, Example, Mark

SEPARATOR = " | "  # between the spans of a target
Span = tuple[int, int]


class Task(word_problem.Task):
    """Text: the source has [MASK] for each span of words that is taken out, and the target is these spans in order,
    with a bar between them. Sums and word problems: the source is the question and the target its answer, as in
    `word_problem`.

    T5's denoising objective (Raffel et al. 2020, section 3.1.4) with words instead of pieces, so that a number is
    taken out whole, and with one mark for all gaps: their order tells them apart.
    """

    unanswered = {"answer": "0", "kind": "problem"}

    def __init__(
        self,
        *,
        path: str = "",
        size: int = 20_000,
        texts: int = 25,
        sums: int = 40,
        data_seed: int = 0,
        rate: float = 0.15,
        span: float = 3.0,
    ):
        """
        Args:
          path: a folder of text; without it there are sums and word problems alone.
          size, texts, sums: of the dataset `pretraining`: records, and percentages of two kinds of them.
          data_seed: of the dataset.
          rate: share of a text's words to take out. span: mean number of words in a gap.

        Raises:
          UsageError: `rate` is no share, or `span` is below 1.
        """
        if not 0 < rate < 1 or span < 1:
            raise UsageError(f"task.rate={rate} is a share between 0 and 1, and task.span={span} at least 1 word")
        super().__init__(encoder=True)
        self.dataset = {"name": "pretraining", "path": path, "size": size, "texts": texts, "sums": sums}
        self.dataset["seed"] = data_seed
        self.rate, self.span = rate, span

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            yield fields.text(row, "question") if row["kind"] == "text" else "".join(super().texts([row]))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """A text's source and its spans; or a question and its answer."""
        kind = fields.text(record, "kind")
        if kind != "text":
            return super().example({**record, "view": kind}, parse)
        words = fields.text(record, "question").split()
        spans = draw_spans(len(words), self.rate, self.span, str(record["id"]))
        source: list[Any] = []
        taken: list[str] = []
        end = 0
        for start, stop in (*spans, (len(words), len(words))):
            source += parse(" ".join(words[end:start]))
            if stop > start:
                source.append(Mark("[MASK]"))
                taken.append(" ".join(words[start:stop]))
            end = stop
        target = SEPARATOR.join(taken)
        document = (Mark("[CLS]"), *parse(target), Mark("[EOS]"))
        reference = {"answer": target, "view": "text", "operation": ""}
        return Example(
            document=document,
            source=(*source, Mark("[EOS]")),
            loss_from=1,
            id=str(record["id"]),
            reference=reference,
        )

    def score(self, predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """As in `word_problem`, of sums and word problems, also by kind ("accuracy/sum"); nothing of texts."""
        asked = [
            (prediction, reference)
            for prediction, reference in zip(predictions, references, strict=True)
            if reference["view"] != "text"
        ]
        return super().score(*zip(*asked, strict=True)) if asked else {}


def draw_spans(count: int, rate: float, mean: float, name: str) -> list[Span]:
    """Spans of words to take out of a text: in order, with at least one word between them.

    Args:
      count: words of the text. rate: share of them. mean: words in a span; lengths are drawn as in T5, all divisions
        of the words that are taken out being equally likely. name: decides what is drawn.

    Raises:
      DataError: the text is too short.
    """
    if count < 2:
        raise DataError(f"a text of {count} words has none to take out and one to leave")
    rng = np.random.default_rng(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "little"))
    taken = min(max(round(count * rate), 1), count - 1)
    spans = min(max(round(taken / mean), 1), taken, count - taken)
    lengths, gaps = _divide(rng, taken, spans), _divide(rng, count - taken, spans)
    starts = np.cumsum(gaps) + np.cumsum(lengths) - lengths
    if rng.random() < 0.5:  # T5 begins with a word that stays; here half of the texts end with one
        starts -= gaps[0]
    return [(int(start), int(start + length)) for start, length in zip(starts, lengths, strict=True)]


def _divide(rng: np.random.Generator, total: int, parts: int) -> np.ndarray:
    """A division of `total` into so many parts of at least 1, all divisions equally likely."""
    cuts = np.sort(rng.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))
