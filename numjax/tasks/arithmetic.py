"""Exact arithmetic (data/arithmetic): "12 + 34 =" [SEP] 46."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from numjax import protocols
from numjax.errors import DataError, UsageError
from numjax.metrics import regression
from numjax.pipeline import fields
from numjax.tasks import NEXT
from numjax.text import document as documents
from numjax.types import Document, Example, Mark, Number, Text

SEPARATOR = " | "  # between the accepted answers of a record
STEPS = ("", "scratchpad")
# Operations that ask for one spelling of a number.
SPELLINGS = ("copy", "convert", "to_scient_integer", "to_scient_float", "sig_integer", "sig_float")
REGRESSIONS = ("tabular", "orbit")  # operations whose answers are scored by R² too
REFERENCE = ("question", "answer", "accepted", "operation", "stream")  # fields of a record that scores need
STEP_END = ";"  # behind each step of an answer; a line break, as published, would be lost in some vocabularies
_SUM = re.compile(r"([0-9]+) *\+ *([0-9]+) *=?")


class Task(protocols.Task):
    """Only the answer and [EOS] are scored, not the question.

    A prediction is the written answer as text, or None if nothing is written.
    """

    kind = "language_model"
    generates = True
    unanswered = {"answer": "0", "accepted": "0", "operation": "unknown", "stream": "unknown"}
    metric = "-loss"
    needs = {"objectives": ("nll",)}
    brings = NEXT

    def __init__(
        self,
        *,
        operations: str = "add",
        size: int = 20_000,
        test: int = 200,
        data_seed: int = 0,
        length: int = 6,
        longer: str = "8+12+20+30",
        answer: str = "text",
        steps: str = "",
        path: str = "",
    ):
        """
        Args:
          operations: names of data/arithmetic joined by "+", or "all".
          size: training problems in all. test: problems in each stream of each operation.
          data_seed: of the generator.
          length: most digits of operands in training. longer: lengths of further test streams, joined by "+".
          answer: "text", or "number": the model writes exactly one number; not for sort and frac, whose answers hold
            several, nor for copy and convert, which ask for one spelling of it.
          steps: "", or "scratchpad": the answers of add begin with their steps, see `write_scratchpad`. Other
            operations have none. Only what stands behind the last step is the prediction.
          path: a folder with NUPA's problems instead, see data/arithmetic/nupa.py; operations are then its tasks,
            such as "add" or "max_float".
        """
        if steps not in STEPS:
            raise UsageError(f"arithmetic: steps must be empty or scratchpad, not {steps!r}")
        if steps and answer == "number":
            raise UsageError("arithmetic: an answer with its steps is more than one number: set task.answer=text")
        one_number = not {"sort", "frac", "copy", "convert", "all"} & set(operations.split("+"))
        if answer == "number" and path:
            raise UsageError("arithmetic: answers of other problems may be fractions: set task.answer=text")
        if answer == "number" and not one_number:
            raise UsageError(
                "arithmetic: the answers of sort, frac, copy and convert are more than a plain number: set "
                "task.answer=text"
            )
        self.answer, self.steps = answer, steps
        self.dataset: dict[str, Any] = {
            "name": "arithmetic", "operations": operations, "size": size, "test": test, "seed": data_seed,
            "length": length, "longer": longer,
        }  # fmt: skip
        self.dataset |= {"path": path} if path else {}

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on."""
        for row in rows:
            yield f"{fields.text(row, 'question')} {self._write_answer(row)}"

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """[CLS] question [SEP], then a blank, the answer with its steps, and [EOS]."""
        prompt = self.prompt(record, parse)
        document = documents.merge((*prompt, Text(" "), *parse(self._write_answer(record)), Mark("[EOS]")))
        reference = {name: fields.text(record, name) for name in REFERENCE}
        return Example(str(record["id"]), document, loss_from=len(prompt), reference=reference)

    def _write_answer(self, record: Mapping[str, Any]) -> str:
        answer = fields.text(record, "answer")
        if not self.steps or fields.text(record, "operation") != "add":
            return answer
        return f"{write_scratchpad(fields.text(record, 'question'))}{answer}"

    def prompt(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Document:
        """[CLS] question [SEP]."""
        return (Mark("[CLS]"), *parse(fields.text(record, "question").strip()), Mark("[SEP]"))

    def prompt_from_text(self, text: str, parse: Callable[[str], Document]) -> Document | None:
        """The prompt of a question that a user typed, with or without the "=" at its end.

        Raises:
          DataError: the text has no question.
        """
        question = text.strip().removesuffix("=").strip()
        if not question:
            raise DataError("there is no question in it: type one such as '12 + 34 ='")
        return self.prompt({"question": f"{question} ="}, parse)

    def predicted(self, document: Document) -> str | None:
        """The text up to the first mark, without the steps of the answer."""
        text = documents.written_text(document)
        return (text.rpartition(STEP_END)[2] if self.steps else text).strip() or None

    def score(self, predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """Shares of all problems, also as "METRIC/OPERATION" and "METRIC/OPERATION/STREAM".

        "exact": the answer's numbers, in its order, with the same text between them; for `SPELLINGS` the same
        text. "well_formed": numbers and text between them of the same form as the answer's. "digits": of answers of
        one number, the share of decimal places that are right, counted from the point. "scaled_error": of series, see
        `regression.scaled_error`. "r2/OPERATION" and "r2/OPERATION/STREAM": of tabular and orbit.
        """
        rows: dict[str, list[float]] = {}
        for prediction, reference in zip(predictions, references, strict=True):
            metrics = score_answer(prediction or "", reference)
            suffixes = ("", f"/{reference['operation']}", f"/{reference['operation']}/{reference['stream']}")
            for suffix in suffixes:
                for name, value in metrics.items():
                    rows.setdefault(name + suffix, []).append(value)
        means = {name: sum(values) / len(values) for name, values in rows.items()}
        return means | score_regressions(predictions, references)


def write_scratchpad(question: str) -> str:
    """The steps of a sum of two whole numbers, one for each place from the units on: the digit A that is written
    there, and the carry C. For 128 + 367 they are "A->5 , C->1 ; A->9 , C->0 ; A->4 , C->0 ; ".

    Raises:
      DataError: the question is no such sum.

    Source: the simplified scratchpad of Lee et al. 2023, arXiv 2307.03381, which has a line for each step.
    """
    match = _SUM.fullmatch(question.strip())
    if match is None:
        raise DataError(f"{question!r} has no steps: they need a sum of two whole numbers, such as '12 + 34 ='")
    width = max(map(len, match.groups()))
    carry, steps = 0, ""
    for digits in zip(*(reversed(number.zfill(width)) for number in match.groups()), strict=True):
        carry, digit = divmod(carry + sum(map(int, digits)), 10)
        steps += f"A->{digit} , C->{carry} {STEP_END} "
    return steps


def score_answer(prediction: str, reference: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of one answer, see `Task.score`."""
    accepted = reference["accepted"].split(SEPARATOR)
    shape, values = _take_apart(prediction)
    gold_shape, gold_values = _take_apart(reference["answer"])
    if reference["operation"] in SPELLINGS:
        is_exact = prediction in accepted
    else:
        is_exact = any((shape, values) == _take_apart(answer) for answer in accepted)
    metrics = {"exact": float(is_exact), "well_formed": float(shape == gold_shape)}
    if len(gold_values) == 1:
        value = values[0] if shape == gold_shape else None
        golds = [gold for answer in accepted for gold in _take_apart(answer)[1]]
        metrics["digits"] = max(match_digits(value, gold) for gold in [*gold_values, *golds])
        if reference["operation"] == "series":
            _, history = _take_apart(reference["question"])
            metrics["scaled_error"] = regression.scaled_error(value, gold_values[0], history)
    return metrics


def score_regressions(predictions: Sequence[str | None], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """R² of the operations `REGRESSIONS`: "r2/OPERATION" and, by stream, "r2/OPERATION/STREAM"."""
    pairs: dict[str, list[tuple[Decimal | None, Decimal]]] = {}
    for prediction, reference in zip(predictions, references, strict=True):
        if reference["operation"] not in REGRESSIONS:
            continue
        (shape, values), (gold_shape, golds) = _take_apart(prediction or ""), _take_apart(reference["answer"])
        pair = values[0] if shape == gold_shape else None, golds[0]
        for suffix in ("", f"/{reference['stream']}"):
            pairs.setdefault(f"r2/{reference['operation']}{suffix}", []).append(pair)
    return {name: regression.r_squared(*zip(*group, strict=True)) for name, group in pairs.items()}


def _take_apart(text: str) -> tuple[str, list[Decimal]]:
    """(the text with a mark for each number, the numbers' values)."""
    segments = documents.parse(text)
    shape = "".join("#" if isinstance(s, Number) else documents.surface_of(s) for s in segments)
    return shape, [segment.value for segment in segments if isinstance(segment, Number)]


def match_digits(value: Decimal | None, gold: Decimal) -> float:
    """The share of the gold number's decimal places that have the right digit (NUPA's digit match), 0 for a wrong
    sign or no number. Further digits of the prediction do not count."""
    if value is None or (value < 0) != (gold < 0):
        return 0.0
    (digits, span), (gold_digits, gold_span) = _find_places(value), _find_places(gold)
    matches = sum(place in span and digits.get(place, 0) == gold_digits.get(place, 0) for place in gold_span)
    return matches / len(gold_span)


def _find_places(value: Decimal) -> tuple[dict[int, int], range]:
    """({decimal place: digit}, without zeros; the places from the last digit behind the point, or the units, to the
    first digit, or the units). A model may write any exponent, so nothing here is as large as the number."""
    _, digits, exponent = value.as_tuple()
    places = {int(exponent) + i: digit for i, digit in enumerate(reversed(digits)) if digit}
    return places, range(min(0, *places, 0), max(0, *places, 0) + 1)
