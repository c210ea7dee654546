"""Solving problems step by step (GSM8K, MATH): "Question: … [SEP] Solution: … [SEP] Final Answer: …"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import UsageError
from numjax.expr import latex
from numjax.expr.prose import dollars, wrap
from numjax.expr.tree import Tree
from numjax.metrics import formulas
from numjax.pipeline import fields
from numjax.tasks import NEXT
from numjax.text import document as documents
from numjax.text.document import marked
from numjax.types import Document, Example, Mark, Text

TOLERANCE = 1e-6  # of an answer, relative, and absolute below 1: answers are whole numbers and fractions

_FORMS = {"gsm8k": wrap.wrap_formulas, "math": dollars.mark_formulas}
_ANSWER = "[SEP] Final Answer:"
# Parts of an answer that do not affect its value: dollars, spaces (but \\ ends a row, and 10,\!080 is one number), a
# full stop, degrees, percent; and units behind a number. A tree has a product of a number and its dollar or unit.
_DOLLARS = re.compile(r"\A(\s*-?\s*)\\?\$\s*\\times(?![A-Za-z])")
_IGNORED = re.compile(r"</?m>|\\?\$|(?<!\\)\\[,;: ]|\\degree(?![A-Za-z])|\^\s*\{?\s*\\circ\s*\}?|\\?%|\.\s*\Z")
_MIXED = re.compile(r"(?<![0-9./]) ([0-9]+)[ ]+ ([1-9][0-9]?)/([1-9][0-9]{0,2}) (?![0-9])", re.VERBOSE)  # 2 1/2
_UNITS = re.compile(
    r"(?<=[0-9})])\s*(?:(?:\\times\s*)?\\(?:text|mbox|textrm|mathrm)\s*\{[^{}]*\}\s*(?:\^\s*\{?[0-9]\}?)?)\s*\Z"
)
_UNORDERED = frozenset(("plus", "times", "eq", "neq", "and", "or", "union", "intersect", "plus-or-minus"))


class Task(protocols.Task):
    """The solution, the final answer and [EOS] are scored, not the question.

    `numjax.expr.prose.wrap` finds formulas in GSM8K's plain text, `numjax.expr.prose.dollars` in MATH's LaTeX; one
    that cannot be parsed is text. A prediction is the final answer as written, or None without one.
    """

    kind = "language_model"
    generates = True
    unanswered = {"solution": "x", "answer": "0"}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

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
          form: gsm8k or math. path: its files; by default the stand-in.
          size: most problems to use. data_seed: of the splits.
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
        self.mark_text = _FORMS[form]
        self.tolerance = tolerance
        self.as_published = as_published

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            question = _parse_document(
                f"Question: {self._mark_formulas(row, 'problem')} [SEP] Solution: ", documents.parse
            )
            yield documents.surface((*question, *_parse_document(self._solution_text(row), documents.parse)))

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The question, then the solution, the final answer and [EOS]."""
        prompt = self.prompt(record, parse)
        document = (*prompt, *_parse_document(self._solution_text(record), parse), Mark("[EOS]"))
        reference = {"answer": fields.text(record, "answer")}
        return Example(str(record["id"]), document, loss_from=len(prompt), reference=reference)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """The question, up to the beginning of the solution."""
        question = f"Question: {self._mark_formulas(record, 'problem')}"
        if self.as_published:
            return _parse_document(f"{question} [SEP] Solution: ", parse)
        return (Mark("[CLS]"), *_parse_document(question, parse), Mark("[SEP]"), Text(" Solution: "))

    def prompt_from_text(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The prompt for a problem that a user typed, also as "Question: … [SEP] Solution: "; None for a text that
        goes on behind this."""
        problem, rest = fields.split_prompt(text, "Solution:") or (text, "")
        return None if rest else self.prompt({"problem": problem}, parse)

    def predicted(self, document: Document) -> str | None:
        """The final answer of a written document."""
        _, separator, answer = documents.written_text(document).rpartition(_ANSWER)
        answer = " ".join(answer.replace("<m>", " ").replace("</m>", " ").split())
        return answer if separator and answer else None

    def score(self, predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Shares: "accuracy": the final answer is right, see `answers_agree`. "answered": there is one. "read": it is
        a formula."""
        if len(predictions) != len(references) or not references:
            raise UsageError(f"{len(predictions)} predictions for {len(references)} references")
        pairs = list(zip(predictions, (reference["answer"] for reference in references), strict=True))
        trees = [None if prediction is None else parse_answer(prediction) for prediction, _ in pairs]
        return {
            "accuracy": sum(p is not None and answers_agree(p, gold, self.tolerance) for p, gold in pairs)
            / len(pairs),
            "answered": sum(prediction is not None for prediction, _ in pairs) / len(pairs),
            "read": sum(tree is not None for tree in trees) / len(pairs),
        }

    def _mark_formulas(self, record: Mapping[str, Any], name: str) -> str:
        return self.mark_text(fields.text(record, name))

    def _solution_text(self, record: Mapping[str, Any]) -> str:
        answer = marked.mark_formula(fields.text(record, "answer"))
        return f"{self._mark_formulas(record, 'solution')} {_ANSWER} {answer}"


def answers_agree(prediction: str, reference: str, tolerance: float = TOLERANCE) -> bool:
    """Whether two answers agree: as trees, where the order in sums and sets does not matter, or in their values.

    Answers that are no formulas are compared as texts without blanks.
    """
    left, right = parse_answer(prediction), parse_answer(reference)
    if left is None or right is None:
        return left is right and "".join(prediction.split()) == "".join(reference.split())
    return left == right or formulas.values_agree(formulas.value_of(left), formulas.value_of(right), tolerance)


def parse_answer(answer: str) -> Tree | None:
    """The tree of the value of an answer such as 72, $1,080, 45^\\circ, x = \\frac12 or 3\\text{ cm}; None if it is
    no formula."""
    text = _MIXED.sub(r"\1 \\frac{\2}{\3}", _IGNORED.sub(" ", _DOLLARS.sub(r"\1", answer)))
    tree = latex.parse(_UNITS.sub("", text))
    if not isinstance(tree, Tree):
        return None
    sides = tree.children or ()
    if (tree.type, tree.symbol) == ("U", "eq") and len(sides) == 2 and sides[0].type == "V":
        tree = sides[1]
    return _sort_unordered(tree)


def _sort_unordered(tree: Tree) -> Tree:
    if tree.children is None:
        return tree
    children = [_sort_unordered(child) for child in tree.children]
    if tree.symbol in _UNORDERED or (tree.type == "M" and tree.symbol.startswith("S-")):
        children.sort(key=repr)
    return Tree(tree.type, tree.symbol, children)


def _parse_document(text: str, parse: Callable[[str], Document]) -> Document:
    # The surface is the one for a plain GPT: " <m> LaTeX </m> ".
    return marked.parse_document(text, parse, as_published=True)
