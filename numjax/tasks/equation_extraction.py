"""Writing the equation that solves a word problem (MathGPT, Math23K): "Question: … [SEP] Equation: " → a formula."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.arithmetic import Unevaluable, Value
from numjax.expr.evaluate import evaluate, solve
from numjax.expr.rules import DEFAULT, Rules
from numjax.expr.tree import Tree, from_json
from numjax.tasks import formulas, records
from numjax.text import document as documents
from numjax.types import Document, Example, Formula, Mark, Text

_TOKEN = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+|\S")


class Task:
    """Only the formula and [EOS] are scored; the prompt is read.

    A prediction is the first formula's tree in the form of `Tree.to_json`, or None where none was written. Schemes
    without formulas write LaTeX, which is read as a tree.
    """

    kind = "language_model"
    generates = True
    unanswered = {"equation": "x = 0", "ans": ""}
    metric = "-loss"
    needs = {"objectives": ("nll",)}

    def __init__(
        self,
        *,
        path: str = "",
        fold: int = 0,
        size: int | None = None,
        data_seed: int = 221,
        tolerance: float = formulas.TOLERANCE,
        as_published: bool = False,
    ):
        """
        Args:
          path: of Math23K's file or its folder; without one, the stand-in.
          fold: which of the five is the test split. size: at most so many problems. data_seed: of the folds.
          tolerance: of the answer, see `formulas.scores`.
          as_published: no [CLS], "[SEP]" as ordinary text, trees by LaTeXML's conventions with square brackets as
            nodes of their own, values equal as floats to the reference's.
        """
        if not tolerance >= 0:
            raise UsageError(f"tolerance={tolerance} must not be negative")
        self.dataset: dict[str, Any] = {"name": "math23k", "path": path, "fold": fold, "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size
        self.tolerance = tolerance
        self.as_published = as_published
        self.rules = Rules.as_published() if as_published else DEFAULT

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            written = latex_of(records.text(row, "equation"), self.as_published)
            yield f"Question: {records.text(row, 'text_en')}[SEP] Equation: {written}"

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] question [SEP], then the equation and [EOS]."""
        prompt = self.prompt(record, parse)
        surface = latex_of(records.text(record, "equation"), self.as_published)
        tree = latex.parse(surface, self.rules)
        if not isinstance(tree, Tree):
            raise DataError(f"the equation {record['equation'][:60]!r} cannot be read: {tree.error}")
        reference = {"tree": tree.to_json(), "answer": records.text(record, "ans", empty=True)}
        document = (*prompt, Formula(surface, tree), Mark("[EOS]"))
        return Example(str(record["id"]), document, loss_from=len(prompt), reference=reference)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """What the model reads before it writes."""
        question = parse(f"Question: {records.text(record, 'text_en')}")
        if self.as_published:
            return (*question, Text("[SEP] Equation: "))
        return (Mark("[CLS]"), *question, Mark("[SEP]"), Text(" Equation: "))

    def asked(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The prompt for a problem that someone typed; one that is laid out already stays as it is."""
        laid_out = text.startswith("Question:") and "Equation:" in text
        return None if laid_out else self.prompt({"text_en": text}, parse)

    def predicted(self, document: Document) -> Any:
        """What of a written document is scored."""
        written = []
        for segment in document:
            if isinstance(segment, Mark):
                break
            if isinstance(segment, Formula):
                return None if segment.tree is None else segment.tree.to_json()
            written.append(documents.surface_of(segment))
        tree = latex.parse("".join(written).replace("<m>", "").replace("</m>", "").strip(), self.rules)
        return tree.to_json() if isinstance(tree, Tree) else None

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """See `formulas.scores`: tree match, solve rate by the stated answer, tree edit distance."""
        return formulas.scores(
            [formulas.tree_of(prediction) for prediction in predictions],
            [from_json(reference["tree"]) for reference in references],
            [answer_of(reference["answer"]) for reference in references],
            tolerance=self.tolerance,
            as_published=self.as_published,
        )


def latex_of(equation: str, brackets: bool = False) -> str:
    """Math23K's arithmetic as LaTeX: × for *, \\% for %, exponents in braces.

    Args:
      brackets: keep square brackets, which are only outer parentheses.
    """
    out: list[str] = []
    raised: list[int] = []  # depths at which an exponent in brackets began
    depth = 0
    after_power = False
    for token in _TOKEN.findall(equation):
        if token in ")]":
            depth -= 1
        written = {"*": r"\times", "%": r"\%", "[": "[" if brackets else "(", "]": "]" if brackets else ")"}.get(
            token
        )
        written = written or token
        if after_power and token in "([":
            raised.append(depth)
            written = "{ " + written
        elif after_power:
            written = f"{{ {written} }}"
        if token in "([":
            depth += 1
        elif token in ")]" and raised and raised[-1] == depth:
            raised.pop()
            written += " }"
        after_power = token == "^"
        out.append(written)
    return " ".join(out)


def answer_of(written: str) -> Value | None:
    """The value of a stated answer such as 20, 2.5, 20%, (7/12) or 3(1/2), which is a mixed number; None if none."""
    if not written.strip():
        return None
    try:
        return evaluate(Tree("N", written.strip()))
    except Unevaluable:
        pass
    tree = latex.parse(latex_of(written))
    try:
        return solve(tree, mixed=True) if isinstance(tree, Tree) else None
    except Unevaluable:
        return None
