"""TAT-QA for TagOp: a question about a table and its paragraphs (Zhu et al. 2021; LUNA, section 4)."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numjax import protocols
from numjax.errors import DataError
from numjax.pipeline import fields
from numjax.tasks.tatqa import labels, metric
from numjax.tasks.tatqa import records as tatqa_records
from numjax.tasks.tatqa import traits as table_traits
from numjax.tasks.tatqa import units as tatqa_units
from numjax.tasks.tatqa.answers import OPERATORS, ORDERED, SCALES, SHARES, assemble
from numjax.tasks.tatqa.units import TABLE, TableContext, Unit
from numjax.text import document as documents
from numjax.types import UNITS, Document, Example, Mark, Segment, Text

_LEAST = 1e-30  # of a probability


class Task(protocols.Task):
    """[CLS] question [SEP] cells row by row, and the paragraphs, the most similar to the question first [SEP].

    The head's output for units (cells, and words of paragraphs) becomes an answer here. A prediction is {"answer",
    "scale", "operator"}; its "id", "answer" and "scale" make up the published {uid: [answer, scale]}.
    """

    kind = "units"
    channels = (UNITS,)
    # Not every file has "mapping", with answers or without.
    unanswered = {name: value for name, value in tatqa_records.UNANSWERED.items() if name != "mapping"}
    metric = "em"
    file_forms = ("a .json of TAT-QA's form", "a .csv with the questions in a .txt beside it")
    needs = {"heads": ("tagop",), "objectives": ("tagop",)}
    brings = {
        "heads": {"answer": dict(name="tagop", order="concat", operands="numbers", tagged="found", dropout=0.1)},
        "objectives": {
            f"{part}_loss": dict(name="tagop", head="answer", part=part, average="row", weight=1.0)
            for part in ("operator", "scale", "tags", "order")
        },
    }

    def __init__(
        self,
        *,
        path: str = "",
        size: int = 0,
        data_seed: int = 0,
        tables: str = "few",
        wordings: str = "apart",
        traits: bool = False,
        question: int = 46,
        context: int = 463,
        units: int = 512,
        as_published: bool = False,
        fold: int = 0,
        folds: int = 0,
    ):
        """
        Args:
          path: TAT-QA's file, or a folder with several; empty for the generated stand-in.
          size: contexts of each file to use, or to generate; 0 for all.
          data_seed: of the splits and of the stand-in.
          tables, wordings: of the stand-in: "few" layouts, or "many" (data/tables); with "many", the wordings of the
            splits differ ("apart"), or are those "seen" in training.
          traits: exact facts about cells and the question's words, as further token types (`traits.SIZES`). They
            come with two more operators, a cell's share in its column or row, for tables without a total: set
            heads.answer.operators=12.
          question, context: most positions of each that are read.
          units: length of a row's unit labels; as many as it has positions.
          as_published: as in TagOp's code that LUNA uses: questions without labels are left out, also when scoring;
            numbers are read and answers assembled as there (see `answers.assemble`).
          fold: which of `folds` is test, in whole contexts; folds=0 for the files' own splits.
        """
        self.dataset: dict[str, Any] = {"name": "tatqa", "seed": data_seed}
        options = {"path": path, "size": size, "fold": fold, "folds": folds}
        self.dataset |= {k: v for k, v in options.items() if v}
        if tables != "few":
            self.dataset |= {"tables": tables, "wordings": wordings}
        self.limits, self.units, self.as_published = (question, context), units, as_published
        self.traits = traits

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on: each context once, and the questions."""
        previous = None
        for row in rows:
            pieces = _make_context(row, range(len(_load_list(row, "paragraphs")))).text
            if pieces != previous:
                yield pieces
            previous = pieces
            yield fields.text(row, "question")

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The question, its context and the labels; −1 for labels that are unknown.

        Raises:
          DataError: a field is missing or has a wrong form; with `as_published` also if there are no labels.
        """
        question = fields.text(record, "question")
        order = tatqa_units.rank_paragraphs(question, _load_list(record, "paragraphs"))
        context = _make_context(record, order)
        gold, reference = _parse_gold(record, order)
        question_labels = labels.find_labels(context, gold, self.as_published, self.traits) if gold else None
        if self.as_published and gold and question_labels is None:
            raise DataError("no operator over the units gives its answer: left out as published")
        if gold:
            reference["operator"] = question_labels.operator if question_labels else ""
        prefix: Document = (Mark("[CLS]"), *parse(question), Mark("[SEP]"))
        segments: list[Segment] = []
        for piece in context.pieces:
            segments += [*parse(piece), Text(" ")]
        document = (*prefix, *documents.merge(segments[:-1]), Mark("[SEP]"))
        shift = len(documents.surface(prefix))
        cells = (*context.cells, *[(-1, -1)] * (len(context.units) - len(context.cells)))
        context_start = len(prefix)
        return Example(
            str(record["id"]),
            document,
            labels=self._labels(context, gold, question_labels),
            reference=reference,
            traits=self._traits(question, record, context, shift) if self.traits else (),
            units=tuple(
                (unit.start + shift, unit.end + shift, unit.group, int(unit.value is not None), *cell)
                for unit, cell in zip(context.units, cells, strict=True)
            ),
            limits=((1, context_start - 1, self.limits[0]), (context_start, len(document) - 1, self.limits[1])),
            # Only for a user's own record; tables of a builder or a file of contexts are filled up and noted before.
            unread=tatqa_records.describe_ragged(_load_json(record, "table")),
        )

    def make_prediction(self, example: Example, output: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
        """({"answer", "scale", "operator"}, {"confidence"}) from the output of `heads/tagop.py` for a row."""
        operator, scale = (*OPERATORS, *SHARES)[int(output[0])], SCALES[int(output[1])]
        question = documents.surface(example.document[1 : example.document.index(Mark("[SEP]"))])
        surface = documents.surface(example.document)
        units = tuple(
            Unit(start, end, group, tatqa_units.parse_value(surface[start:end]) if numeric else None)
            for start, end, group, numeric, *_ in example.units
        )
        cells = tuple((row, column) for *_, row, column in example.units)
        probabilities = np.full(len(units), -1.0)
        probabilities[: len(output) - 4] = output[4 : 4 + len(units)]
        if not self.as_published:
            # Units that were cut off cannot be answers.
            is_whole = probabilities >= 0
            units, cells = tuple(itertools.compress(units, is_whole)), tuple(itertools.compress(cells, is_whole))
            probabilities = probabilities[is_whole]
        scores = np.log(np.maximum(probabilities, _LEAST))
        table_cells = tuple(cell for unit, cell in zip(units, cells, strict=True) if unit.group == TABLE)
        context = TableContext(question, surface, units, cells=table_cells if self.traits else ())
        answer = assemble(context, operator, scale, scores.tolist(), bool(output[2]), self.as_published)
        return {"answer": answer, "scale": scale, "operator": operator}, {"confidence": float(np.exp(output[3]))}

    def score(
        self, predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """The official metric (see `metric.average_scores`), also by type; the accuracy of the operator if known; and
        the accuracies of the most frequent operator ("majority") and scale ("scale_majority")."""
        pairs = list(zip(predictions, references, strict=True))
        scores = [
            metric.score_question(r["answer"], r["answer_type"], r["scale"], p["answer"], p["scale"])
            for p, r in pairs
        ]
        out = metric.average_scores(scores, [r["answer_type"] for _, r in pairs])
        if pairs:
            out["scale_majority"] = Counter(r["scale"] for _, r in pairs).most_common(1)[0][1] / len(pairs)
        pairs_known = [(p["operator"], r["operator"]) for p, r in pairs if r["operator"]]
        if pairs_known:
            out["operator"] = sum(predicted == gold for predicted, gold in pairs_known) / len(pairs_known)
            out["majority"] = Counter(gold for _, gold in pairs_known).most_common(1)[0][1] / len(pairs_known)
        return out

    def from_file(self, path: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]] | None:
        """The questions of a user's file, see `records.from_file`."""
        return tatqa_records.from_file(path)

    def _traits(
        self, question: str, record: Mapping[str, Any], context: TableContext, shift: int
    ) -> tuple[tuple[int, ...], ...]:
        rows = tatqa_records.fill_rows(_load_json(record, "table"))
        cells, question_spans = table_traits.find_traits(question, rows, _load_list(record, "paragraphs"))
        begin = len("[CLS]")
        words = [(start + begin, end + begin, *values) for start, end, *values in question_spans]
        cell_spans = [
            (unit.start + shift, unit.end + shift, *cells[cell])
            for unit, cell in zip(context.units, context.cells, strict=False)
        ]
        return (*words, *cell_spans)

    def _labels(
        self, context: TableContext, gold: Mapping[str, Any] | None, question_labels: labels.Labels | None
    ) -> dict[str, Any]:
        tags, operands, order = np.zeros(self.units, bool), np.full(2, -1, np.int32), -1
        if question_labels is not None:
            tags[[i for i in question_labels.units if i < self.units]] = True
            if question_labels.operator in ORDERED and max(question_labels.units) < self.units:
                operands[:], order = question_labels.units, int(question_labels.swapped)
        return {
            "operator": (*OPERATORS, *SHARES).index(question_labels.operator) if question_labels else -1,
            "scale": SCALES.index(gold["scale"]) if gold else -1,
            "tags": tags,
            "operands": operands,
            "order": order,
        }


def _make_context(record: Mapping[str, Any], order: Sequence[int]) -> TableContext:
    texts = _load_list(record, "paragraphs")
    table = _load_json(record, "table")
    try:
        rows = tatqa_records.fill_rows(table)
    except ValueError as error:
        raise DataError(f"field 'table': {error}") from None
    return tatqa_units.make_context(fields.text(record, "question"), rows, [texts[i] for i in order])


def _parse_gold(record: Mapping[str, Any], order: Sequence[int]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """(the fields from which labels are derived, None without an answer; the reference for predictions)."""
    names = ("derivation", "answer_type", "answer_from", "scale")
    gold: dict[str, Any] = {name: fields.text(record, name, empty=True) for name in names}
    related, answer = _load_list(record, "rel_paragraphs", int), _load_json(record, "answer")
    if not gold["answer_type"]:
        return None, {}
    if gold["answer_type"] not in tatqa_records.TYPES or gold["scale"] not in SCALES:
        raise DataError(f"answer_type {gold['answer_type']!r} or scale {gold['scale']!r} is none of TAT-QA's")
    try:
        gold["answer"] = tatqa_records.parse_gold(answer, gold["answer_type"])
    except ValueError as error:
        raise DataError(f"field 'answer': {error}") from None
    mapping = _load_json({"mapping": "[]"} | dict(record), "mapping")
    gold["cells"] = [tuple(cell) for cell in tatqa_records.parse_mapping(mapping)]
    gold["rel_paragraphs"] = [TABLE + 1 + order.index(i) for i in related if i in order]
    return gold, {name: gold[name] for name in ("answer", "answer_type", "answer_from", "scale")}


def _load_json(record: Mapping[str, Any], name: str) -> Any:
    # A user's own record may hold them as lists.
    if name in ("table", "paragraphs") and isinstance(record.get(name), list):
        return record[name]
    if name == "paragraphs" and name not in record:
        return []
    text = fields.text(record, name)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"field {name!r} must be JSON, not {text[:40]!r}") from None


def _load_list(record: Mapping[str, Any], name: str, kind: type = str) -> list[Any]:
    items = _load_json(record, name)
    if not isinstance(items, list) or not all(isinstance(item, kind) for item in items):
        raise DataError(f"field {name!r} must be a JSON list of {kind.__name__}")
    return items
