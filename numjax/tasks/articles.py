"""Pre-training on articles with formulas (MathGPT, section 3.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError
from numjax.pipeline import fields
from numjax.tasks import NEXT
from numjax.text.document import article
from numjax.types import Document, Example, Mark


class Task(protocols.Task):
    """[CLS] article [EOS]; every position is scored.

    Perplexity comes from the loss itself, so `score` adds nothing. Schemes without formulas read " <m> LaTeX </m> ".
    """

    kind = "language_model"
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

    def __init__(
        self,
        *,
        path: str = "",
        size: int | None = None,
        validation: float = 0.05,
        test: float = 0.05,
        data_seed: int = 0,
        as_published: bool = False,
    ):
        """
        Args:
          path: the articles; by default the stand-in. size: of the stand-in.
          validation, test: shares of the articles in these splits; the paper's validation share is 5%.
          data_seed: of the split.
          as_published: no [CLS]; the original's trees and its stretches of text.
        """
        self.dataset: dict[str, Any] = {"name": "articles", "path": path, "validation": validation, "test": test}
        self.dataset |= {"as_published": int(as_published), "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            yield article.surface(fields.text(row, "text"), _parse_formulas(row))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The article between [CLS] and [EOS]."""
        text = fields.text(record, "text")
        try:
            segments = article.make_document(text, _parse_formulas(record), parse, as_published=self.as_published)
        except RecursionError:
            raise DataError("a formula is nested too deep") from None
        if self.as_published:
            return Example(str(record["id"]), (*segments, Mark("[EOS]")))
        return Example(str(record["id"]), (Mark("[CLS]"), *segments, Mark("[EOS]")), loss_from=1)

    def score(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Nothing beyond the loss."""
        del predictions, references
        return {}


def _parse_formulas(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The field "formulas", JSON in the original's form.

    Raises:
      DataError: it has another form.
    """
    try:
        formulas = json.loads(fields.text(record, "formulas"))
        if all(isinstance(formula["tex"], str) and "opt" in formula for formula in formulas.values()):
            return formulas
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        if isinstance(error, DataError):
            raise
    raise DataError('field "formulas" must be a JSON object {place: {"opt": tree or null, "tex": text}}')
