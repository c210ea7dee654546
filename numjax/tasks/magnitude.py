"""The magnitude of a masked numeral in a headline or a market comment (Numeracy-600K, Chen et al. 2019), or in other
news."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.pipeline import fields
from numjax.tasks import LABEL
from numjax.types import Document, Example, Mark

VARIANTS = ("titles", "comments", "news")


class Task(protocols.Task):
    """[CLS] text with [MASK] instead of the numeral [EOS] → the number of digits of its integer part (0 below 1).

    Attributes:
      num_classes: 8 (magnitudes 0 … 7, the authors' update of 2019) or 7 (7 counts as 6, as in DICE).
    """

    kind = "classify"
    unanswered = {"label": 0}
    metric = "macro_f1"
    num_classes: int
    needs = {"heads": ("classify",), "objectives": ("nll",)}
    brings = LABEL

    def __init__(
        self,
        *,
        variant: str = "titles",
        path: str = "",
        size: int = 0,
        num_classes: int = 8,
        data_seed: int = 0,
        select: str = "validation",
    ):
        """
        Args:
          variant: "titles" or "comments" of Numeracy-600K, or "news": AG News and Financial PhraseBank.
          path: folder of the dataset's files; empty for the generated stand-in of Numeracy-600K.
          size: records to take, of the files or of the stand-in; 0 for all.
          num_classes: 8 or 7.
          data_seed: of the split and of the stand-in.
          select: the split that selects the epoch; "test", as in DICE, makes the reported test results too good.
        """
        if num_classes not in (7, 8):
            raise UsageError(f"magnitude: num_classes must be 8 or 7, not {num_classes}")
        if select not in ("validation", "test"):
            raise UsageError(f"magnitude: select must be validation or test, not {select!r}")
        if variant not in VARIANTS:
            raise UsageError(f"magnitude: variant={variant!r} is none of {', '.join(VARIANTS)}")
        self.splits = {"validation": select}
        self.num_classes = num_classes
        dataset = {"name": "news"} if variant == "news" else {"name": "numeracy600k", "variant": variant}
        options = {k: v for k, v in {"path": path, "size": size}.items() if v}
        self.dataset: dict[str, Any] = dataset | {"num_classes": num_classes, "seed": data_seed} | options

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on, without their masked numerals."""
        for row in rows:
            text, offset = fields.text(row, "text"), fields.integer(row, "offset")
            yield text[:offset]
            yield text[offset + fields.integer(row, "length") :]

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The masked text.

        Raises:
          DataError: text[offset:offset+length] is not the number that the record names.
        """
        text, number = fields.text(record, "text"), fields.text(record, "number")
        offset, length = fields.integer(record, "offset"), fields.integer(record, "length")
        if offset < 0 or length < 1 or text[offset : offset + length] != number:
            excerpt = text[max(0, offset) : max(0, offset) + max(0, length)]
            raise DataError(f"offset {offset} holds {excerpt!r}, not the number {number!r}")
        document = (
            Mark("[CLS]"),
            *parse(text[:offset]),
            Mark("[MASK]"),
            *parse(text[offset + length :]),
            Mark("[EOS]"),
        )
        label = fields.label(record, "label", self.num_classes)
        return Example(str(record["id"]), document, labels={"label": label}, reference={"label": label})

    def score(self, predictions: Sequence[int], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Micro- and macro-F1 over the classes 0 … num_classes − 1.

        A class that is never predicted right has F1 = 0. One that is neither predicted nor present (0/0) also
        counts as 0 in "macro_f1"; it is left out of "macro_f1_present", the mean over the other classes.
        """
        from sklearn.metrics import f1_score

        gold, predicted = [r["label"] for r in references], list(predictions)
        every, present = list(range(self.num_classes)), sorted({*gold, *predicted})

        def f1(labels: list[int], average: str) -> float:
            return float(f1_score(gold, predicted, labels=labels, average=average, zero_division=0))  # type: ignore[arg-type]

        return {
            "micro_f1": f1(every, "micro"),
            "macro_f1": f1(every, "macro"),
            "macro_f1_present": f1(present, "macro"),
        }
