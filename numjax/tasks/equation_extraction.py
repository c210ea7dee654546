"""Writing the equation that solves a word problem (MathGPT, Math23K): "Question: … [SEP] Equation: " → a formula.

Or an encoder reads the question and a decoder writes the equation.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.expr import latex
from numjax.expr.arithmetic import Unevaluable, Value
from numjax.expr.evaluate import evaluate, solve
from numjax.expr.rules import DEFAULT, Rules
from numjax.expr.tree import Tree, from_json
from numjax.metrics import formulas
from numjax.pipeline import fields
from numjax.tasks import NEXT
from numjax.text import document as documents
from numjax.types import Document, Example, Formula, Mark, Number, Text

DATASETS = ("math23k", "problems")
# Numbers that an equation may hold although the problem lacks them: of units, of π, and small ones.
CONSTANTS = frozenset("1 2 3 4 5 6 7 8 9 10 12 16 24 30 52 60 100 365 1000 3600 3.14".split())
# Log odds that the answer is not an integer if the equation's numbers are: 111 of 3,533 problems drawn with seed 5.
BROKEN = -3.4
_TOKEN = re.compile(r"[0-9]+\.?[0-9]*|\.[0-9]+|\S")
_MIXED = re.compile(r"(?<!\S)([0-9]+) \( ([0-9]{1,9}) / ([0-9]{1,9}) \)")  # 3 ( 1 / 2 ) is 3 1/2


class Task(protocols.Task):
    """Only the formula and [EOS] are scored, not the prompt.

    A prediction is the first formula's tree in the form of `Tree.to_json`, or None without a formula. Schemes without
    formulas write LaTeX, which is parsed into a tree.
    """

    kind = "language_model"
    generates = True
    unanswered = {"equation": "x = 0", "ans": ""}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

    def __init__(
        self,
        *,
        dataset: str = "math23k",
        path: str = "",
        fold: int = 0,
        size: int | None = None,
        data_seed: int = 221,
        invented: int = 30,
        wordings: int = 0,
        test: int = 300,
        encoder: bool = False,
        answer: str = "text",
        tolerance: float = formulas.TOLERANCE,
        as_published: bool = False,
    ):
        """
        Args:
          dataset: "math23k", or "problems": composed from plans, with other wordings in test than in training.
          path: Math23K's file or its folder; by default the stand-in.
          fold: which of Math23K's five folds is the test split. size: most problems to use; of "problems" the number
            of training problems. data_seed: of the folds, or of the composed problems.
          invented, wordings, test: see the dataset "problems".
          encoder: the question is the source of an encoder; else the prompt of a decoder.
          answer: "formula": the model writes exactly one formula; "text": it writes anything, and the first formula
            counts.
          tolerance: of the answer, see `formulas.scores`.
          as_published: no [CLS], "[SEP]" as ordinary text, trees by LaTeXML's conventions with square brackets as
            separate nodes, values compared with the reference's as floats.
        """
        if not tolerance >= 0:
            raise UsageError(f"tolerance={tolerance} must not be negative")
        if dataset not in DATASETS:
            raise UsageError(f"dataset={dataset!r}: choose one of {', '.join(DATASETS)}")
        if encoder and as_published:
            raise UsageError("as_published is a decoder's: set task.encoder=False")
        self.dataset: dict[str, Any] = {"name": "math23k", "path": path, "fold": fold, "seed": data_seed}
        if dataset == "problems":
            if path:
                raise UsageError("the dataset problems is composed and reads no path: set task.dataset=math23k")
            self.dataset = {"name": "problems", "seed": data_seed, "invented": invented, "wordings": wordings}
            self.dataset["test"] = test
        if size is not None:
            self.dataset["size"] = size
        self.tolerance = tolerance
        self.encoder, self.sources, self.answer = encoder, encoder, answer
        self.as_published = as_published
        self.rules = Rules.as_published() if as_published else DEFAULT

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on."""
        for row in rows:
            written = to_latex(fields.text(row, "equation"), self.as_published)
            yield f"Question: {fields.text(row, 'text_en')}[SEP] Equation: {written}"

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] question [SEP] equation [EOS]; or the question as a source, and [CLS] equation [EOS]."""
        prompt = self.prompt(record, parse)
        surface = to_latex(fields.text(record, "equation"), self.as_published)
        tree = latex.parse(surface, self.rules)
        if not isinstance(tree, Tree):
            raise DataError(f"the equation {record['equation'][:60]!r} cannot be read: {tree.error}")
        reference = {
            "tree": tree.to_json(),
            "answer": fields.text(record, "ans", empty=True),
            "numbers": [documents.spell_in_formula(number) for number in prompt if isinstance(number, Number)],
            "stream": record.get("stream", ""),
            "steps": record.get("steps", 0),
        }
        common: dict[str, Any] = dict(id=str(record["id"]), reference=reference)
        target = (Formula(surface, tree), Mark("[EOS]"))
        if self.encoder:
            return Example(document=(Mark("[CLS]"), *target), source=prompt, loss_from=1, **common)
        return Example(document=(*prompt, *target), loss_from=len(prompt), **common)

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """The question as the decoder's prompt, or as the encoder's input."""
        if self.encoder:
            return (Mark("[CLS]"), *parse(" ".join(fields.text(record, "text_en").split())), Mark("[SEP]"))
        question = parse(f"Question: {fields.text(record, 'text_en')}")
        if self.as_published:
            return (*question, Text("[SEP] Equation: "))
        return (Mark("[CLS]"), *question, Mark("[SEP]"), Text(" Equation: "))

    def prompt_from_text(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The prompt for a problem that a user typed, also as "Question: … [SEP] Equation: "; None for a text that
        goes on behind this."""
        problem, rest = fields.split_prompt(text, "Equation:") or (text, "")
        return None if rest else self.prompt({"text_en": problem}, parse)

    def predicted(self, document: Document) -> Any:
        """The part of a written document that is scored."""
        for segment in document:
            if isinstance(segment, Mark):
                break
            if isinstance(segment, Formula):
                return None if segment.tree is None else segment.tree.to_json()
        text = documents.written_text(document)
        tree = latex.parse(text.replace("<m>", "").replace("</m>", "").strip(), self.rules)
        return tree.to_json() if isinstance(tree, Tree) else None

    def log_prior(self, document: Document) -> float:
        """A log prior on the value of a written document, added to its log mass when beams are compared.

        Composed problems have positive answers, and usually integer ones if the equation's numbers are integers
        (execution-guided decoding, Wang et al. 2018, with odds instead of a rule for integers).
        """
        if self.dataset["name"] != "problems":
            return 0.0
        tree = formulas.parse_tree(self.predicted(document))
        value = None if tree is None else formulas.value_of(tree)
        if tree is None or not isinstance(value, Fraction) or value <= 0:
            return -math.inf
        broken = value.denominator > 1 and not any(
            node.symbol == "percent" or "." in node.symbol for node in tree.walk()
        )
        return BROKEN if broken else 0.0

    def score(self, predictions: Sequence[Any], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """See `formulas.scores`: tree match, solve rate by the stated answer, tree edit distance.

        "carried": share of the equations that hold only numbers of the problem, or of `CONSTANTS`. If problems name
        their stream, "solve_rate/STREAM" and "solve_rate/STREAM/STEPS" are solve rates of these groups.
        """
        trees = [formulas.parse_tree(prediction) for prediction in predictions]
        options: dict[str, Any] = dict(tolerance=self.tolerance, as_published=self.as_published)
        gold = [from_json(reference["tree"]) for reference in references]
        answers = [parse_answer(reference["answer"]) for reference in references]
        out = formulas.scores(trees, gold, answers, **options)
        carried = [carries(t, r["numbers"]) for t, r in zip(trees, references, strict=True) if t is not None]
        out["carried"] = sum(carried) / len(references)
        groups: dict[str, list[int]] = {}
        for i, reference in enumerate(references):
            if stream := reference["stream"]:
                for group in (stream, f"{stream}/{reference['steps']}"):
                    groups.setdefault(group, []).append(i)
        for group, members in sorted(groups.items()):
            group_scores = formulas.scores(
                [trees[i] for i in members], [gold[i] for i in members], [answers[i] for i in members], **options
            )
            out[f"solve_rate/{group}"] = group_scores["solve_rate"]
        return out


def carries(tree: Tree, numbers: Sequence[str]) -> bool:
    """Whether every number of an equation is one of the problem's, or of `CONSTANTS`."""
    allowed = {_trim_zeros(number) for number in CONSTANTS.union(numbers)}
    return all(_trim_zeros(node.symbol) in allowed for node in tree.walk() if node.type == "N")


def _trim_zeros(number: str) -> str:
    """0.50 and .5 are 0.5."""
    whole, point, fraction = number.partition(".")
    return f"{whole or 0}{point}{fraction}".rstrip("0").rstrip(".") if point else number


def to_latex(equation: str, brackets: bool = False) -> str:
    """Math23K's arithmetic as LaTeX: × for *, \\% for %, exponents in braces, 3(1/2) as a mixed number.

    Args:
      brackets: keep square brackets, which mean outer parentheses; else write them as parentheses.
    """
    signs = {"*": r"\times", "%": r"\%"}
    if not brackets:
        signs |= {"[": "(", "]": ")"}
    tokens: list[str] = _TOKEN.findall(equation)
    out: list[str] = []
    ends: list[int] = []  # of the exponents that are open
    for i, token in enumerate(tokens):
        out.append(signs.get(token, token))
        if token == "^" and i + 1 < len(tokens):
            out.append("{")
            ends.append(_find_exponent_end(tokens, i + 1))
        while ends and ends[-1] == i + 1:
            out.append("}")
            ends.pop()
    return _MIXED.sub(_add_fraction, " ".join(out))


def _add_fraction(match: re.Match[str]) -> str:
    is_proper = int(match[2]) < int(match[3])
    return rf"{match[1]} \frac {{ {match[2]} }} {{ {match[3]} }}" if is_proper else match[0]


def _find_exponent_end(tokens: Sequence[str], i: int) -> int:
    """The index behind the exponent that begins at i: a sign, a number or brackets, and the exponent of these."""
    depth = 0
    may_end = False  # behind an operand
    while i < len(tokens) and not (may_end and depth <= 0 and tokens[i] != "^"):
        depth += (tokens[i] in "([") - (tokens[i] in ")]")
        may_end = tokens[i] not in "+-^"
        i += 1
    return i


def parse_answer(answer: str) -> Value | None:
    """The value of a stated answer such as 20, 2.5, 20%, (7/12) or 3(1/2), a mixed number; None if it has none."""
    if not answer.strip():
        return None
    try:
        return evaluate(Tree("N", answer.strip()))
    except Unevaluable:
        pass
    tree = latex.parse(to_latex(answer))
    try:
        return solve(tree) if isinstance(tree, Tree) else None
    except Unevaluable:
        return None
