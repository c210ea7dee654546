"""True or false: a question with an answer (MME, MWPAS) or a sentence (GNC) (NumGPT, Synthetic Tasks)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.pipeline import fields
from numjax.tasks import LABEL
from numjax.types import Document, Example, Mark


class Task(protocols.Task):
    """[CLS] question [SEP] answer [EOS], or [CLS] sentence [EOS] if a record has no answer.

    Attributes:
      dataset: mme, gnc or mwpas, with the builder's options.
    """

    kind = "classify"
    unanswered = {"label": 0}
    metric = "accuracy"
    needs = {"heads": ("classify",), "objectives": ("nll",)}
    brings = LABEL
    num_classes = 2

    def __init__(
        self,
        dataset: str = "mme",
        *,
        negatives: str | None = None,
        wordings: str | None = None,
        size: int | None = None,
        data_seed: int = 0,
    ):
        """
        Args:
          dataset: name of the builder.
          negatives: "plain" or "hard", for mwpas.
          wordings: "paper" or "many", for mme and mwpas.
          size: examples to generate, the paper's number by default.
          data_seed: of the generator.
        """
        self.dataset: dict[str, Any] = {"name": dataset, "seed": data_seed}
        if negatives is not None:
            self.dataset["negatives"] = negatives
        if wordings is not None:
            self.dataset["wordings"] = wordings
        if size is not None:
            self.dataset["size"] = size

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            yield fields.text(row, "question")
            if "answer" in row:
                yield fields.text(row, "answer")

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The statement and its label; the reference keeps the label and the groups of accuracy: mwpas's kind of
        negative, and the stream of many wordings."""
        document = (Mark("[CLS]"), *parse(fields.text(record, "question")))
        if "answer" in record:
            document += (Mark("[SEP]"), *parse(fields.text(record, "answer")))
        label = fields.label(record, "label", 2)
        reference = {"label": label} | {name: record[name] for name in ("kind", "stream") if record.get(name)}
        return Example(str(record["id"]), (*document, Mark("[EOS]")), labels={"label": label}, reference=reference)

    def score(self, predictions: Sequence[int], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Accuracy, also by kind and by stream, and the accuracy of the more frequent label ("majority")."""
        is_right = [int(p == r["label"]) for p, r in zip(predictions, references, strict=True)]
        common = Counter(r["label"] for r in references).most_common(1)[0][1]
        out = {"accuracy": sum(is_right) / len(is_right), "majority": common / len(is_right)}
        by_group: dict[str, list[int]] = {}
        for ok, reference in zip(is_right, references, strict=True):
            for name in ("kind", "stream"):
                if reference.get(name):
                    by_group.setdefault(f"accuracy_{reference[name]}", []).append(ok)
        out |= {name: sum(group_values) / len(group_values) for name, group_values in sorted(by_group.items())}
        return out
