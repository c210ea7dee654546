"""Writing the equation of a generated word problem: "Question: … [SEP] Equation: " → x = a + b as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax.errors import DataError
from numjax.expr.tree import Tree
from numjax.tasks import records
from numjax.types import Document, Example, Formula, Mark

OPERATIONS = {"addition": ("U", "plus", "+"), "subtraction": ("O", "minus", "-")}


class Task:
    """Only the formula and [EOS] are scored (MathGPT's layout of equation extraction).

    A prediction is the first formula's tree in the form of `Tree.to_json`, or None where none was written.
    """

    kind = "language_model"
    generates = True
    unanswered = {"operation": "addition", "a": 1, "b": 1}
    metric = "-loss"
    needs = {"objectives": ("nll",)}

    def __init__(self, *, size: int | None = None, data_seed: int = 0):
        """
        Args:
          size: of the word-problem set that the positives are taken from; the paper's by default.
          data_seed: of the generator.
        """
        self.dataset: dict[str, Any] = {"name": "mwpas_generation", "seed": data_seed}
        if size is not None:
            self.dataset["size"] = size

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            yield _prompt(row) + _equation(row).surface

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] question, then the equation and [EOS]."""
        formula = _equation(record)
        prompt = self.prompt(record, parse)
        document = (*prompt, formula, Mark("[EOS]"))
        reference = {"tree": None if formula.tree is None else formula.tree.to_json()}
        return Example(str(record["id"]), document, loss_from=len(prompt), reference=reference)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """What the model reads before it writes."""
        return (Mark("[CLS]"), *parse(_prompt(record)))

    def predicted(self, document: Document) -> Any:
        """What of a written document is scored."""
        trees = (segment.tree for segment in document if isinstance(segment, Formula))
        return next((tree.to_json() for tree in trees if tree is not None), None)

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Share of trees that are right, and share of texts with a tree at all."""
        pairs = list(zip(predictions, references, strict=True))
        return {
            "tree_match": sum(p == r["tree"] for p, r in pairs) / len(pairs),
            "written": sum(p is not None for p, _ in pairs) / len(pairs),
        }


def _prompt(record: Mapping[str, Any]) -> str:
    # [SEP] is ordinary text here, as in MathGPT: whoever types a prompt can type it.
    return f"Question: {records.text(record, 'question')} [SEP] Equation: "


def _equation(record: Mapping[str, Any]) -> Formula:
    if missing := [repr(key) for key in ("operation", "a", "b") if key not in record]:
        raise DataError(f"there is no field {', '.join(missing)}")
    operation = records.text(record, "operation")
    if operation not in OPERATIONS:
        raise DataError(f"field 'operation' must be one of {', '.join(OPERATIONS)}, not {operation[:60]!r}")
    kind, symbol, sign = OPERATIONS[operation]
    a, b = (str(records.integer(record, key)) for key in ("a", "b"))
    tree = Tree("U", "eq", [Tree("V", "x"), Tree(kind, symbol, [Tree("N", a), Tree("N", b)])])
    return Formula(f"x = {a} {sign} {b}", tree)
