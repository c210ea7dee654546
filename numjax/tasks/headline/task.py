"""Writing a question's headline (MathGPT on OFEQ-10k and EXEQ-300k): "Question: … [SEP] Summary: " → text, formulas.

The target is the whole headline, or its next formula or next text after a given beginning.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.expr.tree import from_json
from numjax.metrics import formulas, overlap
from numjax.pipeline import fields
from numjax.tasks import NEXT
from numjax.tasks.headline import mixed
from numjax.tasks.headline.mixed import Stretch
from numjax.text import document as documents
from numjax.types import Document, Example, Formula, Mark, Segment, Text

REGIONS = ("all", "formula", "text")


class Task(protocols.Task):
    """Only the target and [EOS] are scored. A question that is too long loses its end (`Example.spare`).

    A prediction is {"text": tokens with blanks between them}. For region "all" it is the whole written text; for
    "formula" the first formula, with its "tree" (in the form of `Tree.to_json`, or None); for "text" the text before
    any formula. Formulas of the prompt that cannot be parsed stay in it as text; a headline must not have any.
    """

    kind = "language_model"
    generates = True
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

    def __init__(
        self,
        *,
        path: str = "",
        region: str = "all",
        splits: str = "files",
        size: int | None = None,
        data_seed: int = 221,
        as_published: bool = False,
    ):
        """
        Args:
          path: the folder of MathSum's files; by default the stand-in.
          region: "all" of the headline, or each "formula" or "text" of it, with the part before it in the prompt.
          splits, size, data_seed: see data/mathsum/README.md.
          as_published: no [CLS], "[SEP]" as ordinary text, brackets by name; trees, their printed text and their
            distances as in the original.
        """
        if region not in REGIONS:
            raise UsageError(f"region={region!r}: choose one of {', '.join(REGIONS)}")
        self.dataset: dict[str, Any] = {"name": "mathsum", "path": path, "region": region, "splits": splits}
        self.dataset |= {"seed": data_seed, "marks": "names" if as_published else "signs"}
        if size is not None:
            self.dataset["size"] = size
        self.unanswered = {"prefix": "", "headline": "x" if region == "text" else "<m> x </m>"}
        self.region = region
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            parts = self._question_text(row), " Summary:", self._prefix_text(row), self._headline_text(row)
            yield "".join(documents.surface(self._parse(part, mixed.make_text_document)[0]) for part in parts)

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The prompt, then the target and [EOS]."""
        prefix, question, suffix, unread = self._make_prompt(record, parse)
        target, unreadable = self._parse(self._headline_text(record), parse)
        if unreadable:
            raise DataError(f"the formula {unreadable[0][0][:60]!r} cannot be read: {unreadable[0][1]}")
        if self.region == "formula" and [type(segment) for segment in target] != [Formula]:
            raise DataError(f"{record['headline'][:60]!r} is not one formula between <m> and </m>")
        if self.region == "text" and any(isinstance(segment, Formula) for segment in target):
            raise DataError(f"{record['headline'][:60]!r} is not text alone")
        prompt = (*prefix, *question, *suffix)
        return Example(
            str(record["id"]),
            (*prompt, *target, Mark("[EOS]")),
            loss_from=len(prompt),
            reference=self.predicted(target) | {"unread": unread},
            spare=tuple((i, i + 1) for i in reversed(range(len(prefix), len(prefix) + len(question)))),
        )

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """[CLS] Question: … [SEP] Summary: and the given beginning of the headline."""
        prefix, question, suffix, _ = self._make_prompt(record, parse)
        return (*prefix, *question, *suffix)

    def prompt_from_text(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The prompt for a question that a user typed, also as "Question: … [SEP] Summary: " and the beginning of the
        headline."""
        question, prefix = fields.split_prompt(text, "Summary:") or (text, "")
        return self.prompt({"post": question, "prefix": prefix}, parse)

    def predicted(self, document: Document) -> dict[str, Any]:
        """The part of a written document that is scored."""
        parts = mixed.split_written(document, self.as_published)
        if self.region == "formula":
            first = next((part for part in parts if part.formula), Stretch(""))
            return {"text": first.text, "tree": None if first.tree is None else first.tree.to_json()}
        if self.region == "text":
            parts = itertools.takewhile(lambda part: not part.formula, parts)
        return {"text": mixed.join_tokens(parts)}

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """BLEU-4, ROUGE-L and METEOR; for formulas also the distances, see `formulas.distances`.

        "unread" counts the formulas that are text in the prompts.
        """
        metrics = overlap.scores(
            [prediction["text"] for prediction in predictions],
            [reference["text"] for reference in references],
            as_published=self.as_published,
        )
        if self.region == "formula":
            metrics |= formulas.distances(
                [formulas.parse_tree(prediction["tree"]) for prediction in predictions],
                [from_json(reference["tree"]) for reference in references],
                as_published=self.as_published,
            )
        return metrics | {"unread": float(sum(reference["unread"] for reference in references))}

    def _make_prompt(
        self, record: Mapping[str, Any], parse: Callable[[str], Document]
    ) -> tuple[list[Segment], Document, list[Segment], int]:
        """(the part before the question, the question, the part behind it, number of formulas that stay text)."""
        question, unread = self._parse(self._question_text(record), parse)
        prefix, unread_prefix = self._parse(self._prefix_text(record), parse)
        count = len(unread) + len(unread_prefix)
        if self.as_published:
            return [], question, [Text("[SEP] Summary: "), *prefix], count
        # Blanks belong to the text behind them, as in the pieces of a subword vocabulary.
        return [Mark("[CLS]")], question, [Mark("[SEP]"), Text(" Summary:"), *prefix], count

    def _parse(self, text: str, parse: Callable[[str], Document]) -> tuple[Document, list[tuple[str, str]]]:
        # The released code tokenises every stretch of text as a whole.
        return mixed.parse_document(text, mixed.make_text_document if self.as_published else parse, self.as_published)

    def _question_text(self, record: Mapping[str, Any]) -> str:
        return f"Question: {fields.text(record, 'post')}"

    def _prefix_text(self, record: Mapping[str, Any]) -> str:
        prefix = fields.text(record, "prefix", empty=True)
        return prefix if self.as_published else _add_blank(prefix)

    def _headline_text(self, record: Mapping[str, Any]) -> str:
        headline = fields.text(record, "headline")
        return headline if self.as_published else _add_blank(headline)


def _add_blank(text: str) -> str:
    return f" {text.strip()}" if text.strip() else ""
