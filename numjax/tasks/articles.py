"""Pre-training on articles with formulas (MathGPT, section 3.2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError
from numjax.tasks import answered, records
from numjax.text import article
from numjax.types import Document, Example, Mark


class Task(protocols.Task):
    """[CLS] article [EOS]; every position is scored.

    Perplexity comes from the loss itself, so `score` adds nothing. Schemes without formulas read " <m> LaTeX </m> ".
    """

    kind = "language_model"
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = answered.NEXT

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
          path: of the articles; without one, the stand-in. size: of the stand-in.
          validation, test: shares of the articles that are held out; the paper's validation is 5%.
          data_seed: of the split.
          as_published: no [CLS]; the original's trees, and its stretches of text.
        """
        self.dataset: dict[str, Any] = {"name": "articles", "path": path, "validation": validation, "test": test}
        self.dataset |= {"as_published": int(as_published), "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            yield article.surface(records.text(row, "text"), _formulas(row))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The article between [CLS] and [EOS]."""
        text = records.text(record, "text")
        try:
            found = article.document(text, _formulas(record), parse, as_published=self.as_published)
        except RecursionError:
            raise DataError("a formula is nested too deep") from None
        if self.as_published:
            return Example(str(record["id"]), (*found, Mark("[EOS]")))
        return Example(str(record["id"]), (Mark("[CLS]"), *found, Mark("[EOS]")), loss_from=1)

    def score(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Nothing beyond the loss."""
        del predictions, references
        return {}


def _formulas(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """The field "formulas", JSON of the original's form.

    Raises:
      DataError: it is anything else.
    """
    try:
        found = json.loads(records.text(record, "formulas"))
        if all(isinstance(of["tex"], str) and "opt" in of for of in found.values()):
            return found
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError) as error:
        if isinstance(error, DataError):
            raise
    raise DataError('field "formulas" must be a JSON object {place: {"opt": tree or null, "tex": text}}')
