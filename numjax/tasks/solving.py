"""Solving problems step by step (GSM8K, MATH): "Question: … [SEP] Solution: … [SEP] Final Answer: …"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import UsageError
from numjax.expr import dollars, latex, wrap
from numjax.expr.tree import Tree
from numjax.tasks import answered, formulas, records
from numjax.text import document as documents
from numjax.text import marked
from numjax.types import Document, Example, Mark, Text

TOLERANCE = 1e-6  # of an answer, relative, and absolute below 1: answers are whole numbers and fractions

_FORMS = {"gsm8k": wrap.wrapped, "math": dollars.marked}
_ANSWER = "[SEP] Final Answer:"
# What says nothing of the value: dollars, thin spaces, a full stop, units behind a number, degrees, percent.
_DROPPED = re.compile(r"</?m>|\\?\$|\\[!,;: ]|\\degree(?![A-Za-z])|\^\s*\{?\s*\\circ\s*\}?|\\?%|\.\s*\Z")
_UNITS = re.compile(r"(?<=[0-9})])\s*(?:\\(?:text|mbox|textrm|mathrm)\s*\{[^{}]*\}\s*(?:\^\s*\{?[0-9]\}?)?)\s*\Z")
_UNORDERED = frozenset(("plus", "times", "eq", "neq", "and", "or", "union", "intersect", "plus-or-minus"))


class Task(protocols.Task):
    """The solution, the final answer and [EOS] are scored; the question is read.

    Formulas are found in GSM8K's plain text by `numjax.expr.wrap`, in MATH's LaTeX by `numjax.expr.dollars`; one that
    cannot be read is text. A prediction is the final answer as it was written, or None where there is none.
    """

    kind = "language_model"
    generates = True
    unanswered = {"solution": "x", "answer": "0"}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = answered.NEXT

    def __init__(
        self,
        *,
        form: str = "gsm8k",
        path: str = "",
        size: int | None = None,
        data_seed: int = 221,
        tolerance: float = TOLERANCE,
        as_published: bool = False,
    ):
        """
        Args:
          form: gsm8k or math. path: of its files; without one, the stand-in.
          size: at most so many problems. data_seed: of the splits.
          tolerance: of an answer's value, relative, and absolute below 1.
          as_published: no [CLS], and "[SEP]" before the solution as ordinary text.
        """
        if form not in _FORMS:
            raise UsageError(f"form={form!r}: choose one of {', '.join(_FORMS)}")
        if not tolerance >= 0:
            raise UsageError(f"tolerance={tolerance} must not be negative")
        self.dataset: dict[str, Any] = {"name": "solving", "form": form, "path": path, "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size
        self.marked = _FORMS[form]
        self.tolerance = tolerance
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            question = _document(f"Question: {self._marked(row, 'problem')} [SEP] Solution: ", documents.parse)
            yield documents.surface((*question, *_document(self._written(row), documents.parse)))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The question, then the solution, the final answer and [EOS]."""
        prompt = self.prompt(record, parse)
        document = (*prompt, *_document(self._written(record), parse), Mark("[EOS]"))
        reference = {"answer": records.text(record, "answer")}
        return Example(str(record["id"]), document, loss_from=len(prompt), reference=reference)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """What the model reads before it writes."""
        question = f"Question: {self._marked(record, 'problem')}"
        if self.as_published:
            return _document(f"{question} [SEP] Solution: ", parse)
        return (Mark("[CLS]"), *_document(question, parse), Mark("[SEP]"), Text(" Solution: "))

    def asked(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The prompt for a problem that someone typed; one that is laid out already stays as it is."""
        laid_out = text.startswith("Question:") and "Solution:" in text
        return None if laid_out else self.prompt({"problem": text}, parse)

    def predicted(self, document: Document) -> str | None:
        """The final answer of a written document."""
        written = []
        for segment in document:
            if isinstance(segment, Mark):
                break
            written.append(documents.surface_of(segment))
        _, found, answer = "".join(written).rpartition(_ANSWER)
        answer = " ".join(answer.replace("<m>", " ").replace("</m>", " ").split())
        return answer if found and answer else None

    def score(self, predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """ "accuracy": the final answer is right, see `same`. "answered": there is one. "read": it is a formula."""
        if len(predictions) != len(references) or not references:
            raise UsageError(f"{len(predictions)} predictions for {len(references)} references")
        pairs = list(zip(predictions, (reference["answer"] for reference in references), strict=True))
        found = [None if prediction is None else answer_of(prediction) for prediction, _ in pairs]
        return {
            "accuracy": sum(p is not None and same(p, wanted, self.tolerance) for p, wanted in pairs) / len(pairs),
            "answered": sum(prediction is not None for prediction, _ in pairs) / len(pairs),
            "read": sum(tree is not None for tree in found) / len(pairs),
        }

    def _marked(self, record: Mapping[str, Any], name: str) -> str:
        return self.marked(records.text(record, name))

    def _written(self, record: Mapping[str, Any]) -> str:
        answer = marked.formula(records.text(record, "answer"))
        return f"{self._marked(record, 'solution')} {_ANSWER} {answer}"


def same(found: str, wanted: str, tolerance: float = TOLERANCE) -> bool:
    """Whether two answers agree: as trees in which the order of sums and sets does not count, or in their values.

    Answers that are no formulas agree as texts without blanks.
    """
    left, right = answer_of(found), answer_of(wanted)
    if left is None or right is None:
        return left is right and "".join(found.split()) == "".join(wanted.split())
    return left == right or formulas.same(formulas.value(left), formulas.value(right), tolerance)


def answer_of(written: str) -> Tree | None:
    """The tree of an answer such as 72, $1,080, 45^\\circ, x = \\frac12 or 3\\text{ cm}: of what it is worth."""
    text = _DROPPED.sub(" ", written)
    tree = latex.parse(_UNITS.sub("", text))
    if not isinstance(tree, Tree):
        return None
    sides = tree.children or ()
    if (tree.type, tree.symbol) == ("U", "eq") and len(sides) == 2 and sides[0].type == "V":
        tree = sides[1]
    return _settled(tree)


def _settled(tree: Tree) -> Tree:
    if tree.children is None:
        return tree
    below = [_settled(child) for child in tree.children]
    if tree.symbol in _UNORDERED or (tree.type == "M" and tree.symbol.startswith("S-")):
        below.sort(key=repr)
    return Tree(tree.type, tree.symbol, below)


def _document(text: str, parse: Callable[[str], Document]) -> Document:
    # The surface is what a plain GPT reads: " <m> LaTeX </m> ".
    return marked.document(text, parse, as_published=True)
