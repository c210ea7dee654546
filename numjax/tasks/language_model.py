"""Pre-training on running text: any folder of .txt, .jsonl, and either of them as .gz."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import UsageError
from numjax.pipeline import fields
from numjax.tasks import NEXT
from numjax.types import Document, Example, Mark


class Task(protocols.Task):
    """[CLS] document [EOS]; every position is scored.

    Perplexity (and its density part) comes from the loss itself, so `score` adds nothing.
    """

    kind = "language_model"
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

    def __init__(self, *, path: str = "", data_seed: int = 0):
        """
        Args:
          path: the folder.
          data_seed: of the split.

        Raises:
          UsageError: no path.
        """
        if not path:
            raise UsageError("task text needs a folder: --config.task.path=FOLDER of .txt, .jsonl or .gz files")
        self.dataset: dict[str, Any] = {"name": "text", "path": path, "seed": data_seed}

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            yield fields.text(row, "text", empty=True)

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The document, which may be empty, between [CLS] and [EOS]."""
        text = parse(fields.text(record, "text", empty=True))
        return Example(str(record["id"]), (Mark("[CLS]"), *text, Mark("[EOS]")), loss_from=1)

    def score(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Nothing beyond the loss."""
        del predictions, references
        return {}
