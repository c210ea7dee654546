"""Writing a question's headline (MathGPT on OFEQ-10k and EXEQ-300k): "Question: … [SEP] Summary: " → text, formulas.

The whole headline, or its next formula or next text from what goes before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.expr.tree import from_json
from numjax.tasks import answered, formulas, mixed, overlap, records
from numjax.tasks.mixed import Written
from numjax.text import document as documents
from numjax.types import Document, Example, Formula, Mark, Segment, Text

REGIONS = ("all", "formula", "text")


class Task(protocols.Task):
    """Only what is to be written and [EOS] are scored. A question that is too long loses its end (`Example.spare`).

    A prediction is {"text": tokens that blanks part}: all that was written; where the next formula is asked for, the
    first formula, with its "tree" (in the form of `Tree.to_json`, or None); where the next text is, what stands
    before any formula. Formulas of the prompt that cannot be read stay in it as text; in a headline there must be
    none.
    """

    kind = "language_model"
    generates = True
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = answered.NEXT

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
          path: the folder of MathSum's files; without one, the stand-in.
          region: "all" of the headline, or every "formula" or "text" in it, with what goes before as given.
          splits, size, data_seed: see data/mathsum/README.md.
          as_published: no [CLS], "[SEP]" as ordinary text, brackets by their names; the trees, the text that they
            print and the distance between them are the original's.
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
        """What a vocabulary is trained on."""
        for row in rows:
            parts = self._question(row), " Summary:", self._given(row), self._asked_for(row)
            yield "".join(documents.surface(self._read(part, mixed.as_text)[0]) for part in parts)

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The prompt, then what is to be written and [EOS]."""
        before, question, after, unread = self._prompt(record, parse)
        target, bad = self._read(self._asked_for(record), parse)
        if bad:
            raise DataError(f"the formula {bad[0][0][:60]!r} cannot be read: {bad[0][1]}")
        if self.region == "formula" and [type(segment) for segment in target] != [Formula]:
            raise DataError(f"{record['headline'][:60]!r} is not one formula between <m> and </m>")
        if self.region == "text" and any(isinstance(segment, Formula) for segment in target):
            raise DataError(f"{record['headline'][:60]!r} is not text alone")
        prompt = (*before, *question, *after)
        return Example(
            str(record["id"]),
            (*prompt, *target, Mark("[EOS]")),
            loss_from=len(prompt),
            reference=self.predicted(target) | {"unread": unread},
            spare=tuple((i, i + 1) for i in reversed(range(len(before), len(before) + len(question)))),
        )

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """[CLS] Question: … [SEP] Summary: and what is given of the headline."""
        before, question, after, _ = self._prompt(record, parse)
        return (*before, *question, *after)

    def asked(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The prompt for a question that someone typed; one that is laid out already stays as it is."""
        laid_out = text.startswith("Question:") and "Summary:" in text
        return None if laid_out else self.prompt({"post": text, "prefix": ""}, parse)

    def predicted(self, document: Document) -> dict[str, Any]:
        """What of a written document is scored."""
        parts = mixed.written(document, self.as_published)
        if self.region == "formula":
            first = next((part for part in parts if part.formula), Written(""))
            return {"text": first.text, "tree": None if first.tree is None else first.tree.to_json()}
        if self.region == "text":
            parts = itertools.takewhile(lambda part: not part.formula, parts)
        return {"text": mixed.tokens(parts)}

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """BLEU-4, ROUGE-L and METEOR; of formulas the distances too, see `formulas.distances`.

        "unread" counts the formulas that stand as text in the prompts.
        """
        found = overlap.scores(
            [prediction["text"] for prediction in predictions],
            [reference["text"] for reference in references],
            as_published=self.as_published,
        )
        if self.region == "formula":
            found |= formulas.distances(
                [formulas.tree_of(prediction["tree"]) for prediction in predictions],
                [from_json(reference["tree"]) for reference in references],
                as_published=self.as_published,
            )
        return found | {"unread": float(sum(reference["unread"] for reference in references))}

    def _prompt(
        self, record: Mapping[str, Any], parse: Callable[[str], Document]
    ) -> tuple[list[Segment], Document, list[Segment], int]:
        """(what goes before the question, the question, what follows it, formulas in it that cannot be read)."""
        question, unread = self._read(self._question(record), parse)
        given, more = self._read(self._given(record), parse)
        count = len(unread) + len(more)
        if self.as_published:
            return [], question, [Text("[SEP] Summary: "), *given], count
        # Blanks belong to what follows them, as in the pieces of a subword vocabulary.
        return [Mark("[CLS]")], question, [Mark("[SEP]"), Text(" Summary:"), *given], count

    def _read(self, text: str, parse: Callable[[str], Document]) -> tuple[Document, list[tuple[str, str]]]:
        # The released code tokenises every stretch of text as a whole.
        return mixed.read(text, mixed.as_text if self.as_published else parse, self.as_published)

    def _question(self, record: Mapping[str, Any]) -> str:
        return f"Question: {records.text(record, 'post')}"

    def _given(self, record: Mapping[str, Any]) -> str:
        given = records.text(record, "prefix", empty=True)
        return given if self.as_published else _with_blank(given)

    def _asked_for(self, record: Mapping[str, Any]) -> str:
        headline = records.text(record, "headline")
        return headline if self.as_published else _with_blank(headline)


def _with_blank(text: str) -> str:
    return f" {text.strip()}" if text.strip() else ""
