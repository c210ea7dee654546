"""Statements about a table, judged by the cells that decide them: TabFact's task by TagOp's way (Zhu et al. 2021)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from numjax.errors import DataError, UsageError
from numjax.pipeline import fields
from numjax.tasks import tabfact
from numjax.tasks.claims.operations import OPERATORS, judge
from numjax.tasks.claims.selection import Roles, select_claim
from numjax.tasks.tatqa.traits import find_numbers, parse_grid
from numjax.tasks.tatqa.units import TABLE, parse_value
from numjax.text import document as documents
from numjax.types import UNITS, Document, Example, Mark

ROLES = 2  # of cells: first and second operand; of numbers of the statement: the claimed one and the limit
QUESTION = 0  # group of the units of the statement


class Task(tabfact.Task):
    """[CLS] statement [SEP] cells row by row [SEP] → 1 (entailed) or 0 (refuted).

    The model predicts how to judge a statement: an operation, whether it is denied, and the roles of cells and of the
    statement's numbers. The operation is computed here, exactly. Training needs records with `evidence`, which the
    statements on generated tables of many layouts have (data/tables). Use task=tabfact for TabFact's release, whose
    statements have only labels.
    """

    kind = "units"
    channels = (UNITS,)
    unanswered = {"label": 0, "kind": "", "evidence": ""}
    needs = {"heads": ("tagop",), "objectives": ("tagop",)}
    # The second class of a row, TagOp's scale, is whether the statement is denied.
    brings = {
        "heads": {
            "answer": dict(
                name="tagop",
                operators=len(OPERATORS),
                scales=2,
                roles=ROLES,
                cells="crossed",
                asked="both",
                dropout=0.1,
            )
        },
        "objectives": {
            f"{part}_loss": dict(name="tagop", head="answer", part=part, average="row", weight=weight)
            # Otherwise these losses are too small next to that of tags, which is a sum over a row.
            for part, weight in (("operator", 3.0), ("scale", 2.0), ("tags", 1.0))
        },
    }
    num_classes = None

    def __init__(
        self, *, path: str = "", size: int = 0, data_seed: int = 0, wordings: str = "apart", units: int = 256
    ):
        """
        Args:
          path: must be empty: statements of a release have no evidence.
          size: training statements to generate; 0 for all.
          data_seed: of the generator.
          wordings: those of the splits differ ("apart"), or are those "seen" in training.
          units: length of a row's unit labels; as many as it has positions.

        Raises:
          UsageError: `path` is not empty.
        """
        if path:
            raise UsageError(
                f"claims: the statements in {path} have labels but no evidence: use task=tabfact for them"
            )
        super().__init__(size=size, data_seed=data_seed, tables="many", wordings=wordings, traits=True)
        self.units = units

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The statement, its table and the labels of the evidence; −1 without evidence.

        Raises:
          DataError: a field is missing or has a wrong form.
        """
        example = super().example(record, parse)
        head = example.document[: example.document.index(Mark("[SEP]")) + 1]
        begin, text = len("[CLS]"), fields.text(record, "statement").strip()
        numbers = find_numbers(text)
        units = [(number.start + begin, number.end + begin, QUESTION, 1, -1, -1) for number in numbers]
        for start, end, row, column in self.list_cells(record, head):
            cell = documents.surface(example.document)[start:end]
            units.append((start, end, TABLE, int(parse_value(cell) is not None), row, column))
        labels = {
            "operator": -1,
            "scale": -1,
            "tags": np.zeros(self.units, np.int32),
            "operands": np.full(2, -1, np.int32),
            "order": -1,
        }
        if evidence := _parse_evidence(record):
            self._label(labels, evidence, units)
        reference = example.reference | {"operation": evidence.get("operation", "")}
        return example._replace(labels=labels, reference=reference, units=tuple(units))

    def make_prediction(self, example: Example, output: np.ndarray) -> tuple[int, dict[str, Any]]:
        """(the label, {"confidence", "operation", "denied", "first", "second", "claimed", "limit"}): cells by row and
        column from 0, numbers as the statement writes them."""
        surface = documents.surface(example.document)
        statement_text = documents.surface(example.document[1 : example.document.index(Mark("[SEP]"))])
        probabilities = np.reshape(output[4:], (ROLES, -1)).T
        cells, numbers, rows = {}, {}, _fill_grid(surface, example.units)
        number_spans = iter(find_numbers(statement_text))
        for i, (_, _, group, _, row, column) in enumerate(example.units):
            pair = probabilities[i].tolist() if i < len(probabilities) else [-1.0] * ROLES
            if group == QUESTION:
                numbers[next(number_spans)] = (max(pair[0], 0.0), max(pair[1], 0.0))
            elif min(pair) >= 0:
                cells[row, column] = (pair[0], pair[1])
        claim = select_claim(OPERATORS[int(output[0])], bool(output[1]), rows, Roles(cells, numbers))
        label = int(judge(statement_text, parse_grid(rows), claim))
        spans = {"claimed": claim.claimed, "limit": claim.limit}
        return label, {
            "confidence": float(np.exp(output[3])),
            "operation": claim.operation,
            "denied": claim.denied,
            "first": [list(cell) for cell in claim.first],
            "second": [list(cell) for cell in claim.second],
            **{name: statement_text[span.start : span.end] if span else "" for name, span in spans.items()},
        }

    def score(self, predictions: Sequence[int], references: Sequence[Mapping[str, Any]]) -> dict[str, float]:
        """As `tasks/statement.py`, also by operation where it is known."""
        out = super().score(predictions, references)
        by_operation: dict[str, list[bool]] = {}
        for prediction, reference in zip(predictions, references, strict=True):
            if reference["operation"]:
                by_operation.setdefault(reference["operation"], []).append(prediction == reference["label"])
        return out | {f"accuracy_{name}": sum(right) / len(right) for name, right in sorted(by_operation.items())}

    def _label(self, labels: dict[str, Any], evidence: Mapping[str, Any], units: Sequence[tuple[int, ...]]) -> None:
        labels["operator"], labels["scale"] = OPERATORS.index(evidence["operation"]), int(evidence["denied"])
        begin = len("[CLS]")
        for i, (start, end, group, _, row, column) in enumerate(units[: self.units]):
            for role, (cells, number) in enumerate((("first", "claimed"), ("second", "limit")), 1):
                span = evidence[number]
                is_number = group == QUESTION and span and start < span[1] + begin and span[0] + begin < end
                if is_number or [row, column] in evidence[cells]:
                    labels["tags"][i] = role


def _fill_grid(surface: str, units: Sequence[tuple[int, ...]]) -> tuple[tuple[str, ...], ...]:
    """The rows of the table, from the units of its cells."""
    texts = {(row, column): surface[start:end] for start, end, group, _, row, column in units if group == TABLE}
    n_rows, n_columns = (max(index) + 1 for index in zip(*texts, strict=True))
    return tuple(tuple(texts.get((r, c), "") for c in range(n_columns)) for r in range(n_rows))


def _is_span(value: Any) -> bool:
    """Whether a field has the form [start, end], or is empty for none."""
    return not value or (isinstance(value, list) and len(value) == 2 and all(type(end) is int for end in value))


def _parse_evidence(record: Mapping[str, Any]) -> dict[str, Any]:
    """The field "evidence"; {} if it is empty.

    Raises:
      DataError: it has another form.
    """
    text = fields.text(record, "evidence", empty=True)
    try:
        evidence = json.loads(text or "{}")
        is_known = not text or evidence["operation"] in OPERATORS
        is_complete = not text or (
            evidence["denied"] in (0, 1)
            and _is_span(evidence["claimed"])
            and _is_span(evidence["limit"])
            and isinstance(evidence["first"], list)
            and isinstance(evidence["second"], list)
        )
    except (ValueError, RecursionError, TypeError, KeyError):
        is_known = is_complete = False
    if not is_known or not is_complete:
        raise DataError("field 'evidence' must be the JSON of operation, denied, first, second, claimed and limit")
    return evidence
