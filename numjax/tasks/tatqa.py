"""TAT-QA as TagOp reads it: a question over a table and paragraphs beside it (Zhu et al. 2021; LUNA, section 4)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from numjax import protocols
from numjax.errors import DataError
from numjax.tasks import records, table_traits, tatqa_labels, tatqa_records, tatqa_units
from numjax.tasks import tatqa_metric as metric
from numjax.tasks.tatqa_answers import OPERATORS, ORDERED, SCALES, SHARES, assemble
from numjax.tasks.tatqa_units import TABLE, Context, Unit
from numjax.text import document as documents
from numjax.types import UNITS, Document, Example, Mark, Segment, Text

_LEAST = 1e-30  # of a probability


class Task(protocols.Task):
    """[CLS] question [SEP] cells row by row, and the paragraphs, the most alike to the question first [SEP].

    What the head says of units (cells, and words of paragraphs) becomes an answer here; a prediction is {"answer",
    "scale", "operator"}, and with "id" the published {uid: [answer, scale]}.
    """

    kind = "units"
    channels = (UNITS,)
    # Which cells are meant is not said in every file, with an answer or without.
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
    ):
        """
        Args:
          path: TAT-QA's file, or a folder with several; empty for the generated stand-in.
          size: contexts of each file to take, or to generate; 0 for all.
          data_seed: of the splits and of the stand-in.
          tables, wordings: of the stand-in: "few" layouts, or "many" (data/tables); of the latter, wordings that are
            "apart" in each split, or "seen" in training.
          traits: what is exactly known of cells and of the question's words, as further token types
            (`table_traits.SIZES`). With them there are two more operators, a cell's share in its column or row, for
            tables without a total: set heads.answer.operators=12.
          question, context: positions of each that are read, at most.
          units: of a row, as many as it has positions.
          as_published: as TagOp's code as LUNA uses it: questions without labels are left out, also of what is
            scored; numbers are read and answers put together as there (see `tatqa_answers.assemble`).
        """
        self.dataset: dict[str, Any] = {"name": "tatqa", "seed": data_seed}
        self.dataset |= {k: v for k, v in {"path": path, "size": size}.items() if v}
        if tables != "few":
            self.dataset |= {"tables": tables, "wordings": wordings}
        self.limits, self.units, self.as_published = (question, context), units, as_published
        self.traits = traits

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on: each context once, and the questions."""
        before = None
        for row in rows:
            pieces = _context(row, range(len(_listed(row, "paragraphs")))).text
            if pieces != before:
                yield pieces
            before = pieces
            yield records.text(row, "question")

    def example(self, record: Mapping[str, Any], parse: Callable[[str], Document]) -> Example:
        """The question, its context and the labels; −1 for those that no operator gives.

        Raises:
          DataError: a field is missing or not of its form; `as_published`, also where there are no labels.
        """
        question = records.text(record, "question")
        order = tatqa_units.ranked(question, _listed(record, "paragraphs"))
        context = _context(record, order)
        gold, reference = _gold(record, order)
        found = tatqa_labels.find(context, gold, self.as_published, self.traits) if gold else None
        if self.as_published and gold and found is None:
            raise DataError("no operator over the units gives its answer: left out as published")
        if gold:
            reference["operator"] = found.operator if found else ""
        before: Document = (Mark("[CLS]"), *parse(question), Mark("[SEP]"))
        inside: list[Segment] = []
        for piece in context.pieces:
            inside += [*parse(piece), Text(" ")]
        document = (*before, *documents.merge(inside[:-1]), Mark("[SEP]"))
        shift = len(documents.surface(before))
        at = len(before)
        return Example(
            str(record["id"]),
            document,
            labels=self._labels(context, gold, found),
            reference=reference,
            traits=self._traits(question, record, context, shift) if self.traits else (),
            units=tuple((u.start + shift, u.end + shift, u.group, int(u.value is not None)) for u in context.units),
            limits=((1, at - 1, self.limits[0]), (at, len(document) - 1, self.limits[1])),
            # A record of one's own; what a builder or a file of contexts gives has been filled up, and told.
            unread=tatqa_records.ragged(_json(record, "table")),
        )

    def read(self, example: Example, said: np.ndarray) -> tuple[dict[str, Any], dict[str, Any]]:
        """({"answer", "scale", "operator"}, {"confidence"}) of what `heads/tagop.py` says of a row."""
        operator, scale = (*OPERATORS, *SHARES)[int(said[0])], SCALES[int(said[1])]
        question = documents.surface(example.document[1 : example.document.index(Mark("[SEP]"))])
        surface = documents.surface(example.document)
        units = tuple(
            Unit(start, end, group, tatqa_units.read(surface[start:end]) if numeric else None)
            for start, end, group, numeric in example.units
        )
        known = np.full(len(units), -1.0)
        known[: len(said) - 4] = said[4 : 4 + len(units)]
        places = {start: (row - 1, column - 1) for start, _, row, column, *_ in example.traits}
        if not self.as_published:
            # What was cut off is no answer, however little else there is.
            units, known = tuple(unit for unit, p in zip(units, known, strict=True) if p >= 0), known[known >= 0]
        scores = np.log(np.maximum(known, _LEAST))
        cells = tuple(places[unit.start] for unit in units if unit.group == TABLE) if places else ()
        context = Context(question, surface, units, cells=cells)
        answer = assemble(context, operator, scale, scores.tolist(), bool(said[2]), self.as_published)
        return {"answer": answer, "scale": scale, "operator": operator}, {"confidence": float(np.exp(said[3]))}

    def score(
        self, predictions: Sequence[Mapping[str, Any]], references: Sequence[Mapping[str, Any]]
    ) -> dict[str, float]:
        """The official metric as `tatqa_metric.overall` has it, by type too; the accuracy of the operator where it is
        known, and those of always saying the most frequent operator ("majority") or scale ("scale_majority")."""
        pairs = list(zip(predictions, references, strict=True))
        scores = [
            metric.question(r["answer"], r["answer_type"], r["scale"], p["answer"], p["scale"]) for p, r in pairs
        ]
        out = metric.overall(scores, [r["answer_type"] for _, r in pairs])
        if pairs:
            out["scale_majority"] = Counter(r["scale"] for _, r in pairs).most_common(1)[0][1] / len(pairs)
        known = [(p["operator"], r["operator"]) for p, r in pairs if r["operator"]]
        if known:
            out["operator"] = sum(said == right for said, right in known) / len(known)
            out["majority"] = Counter(right for _, right in known).most_common(1)[0][1] / len(known)
        return out

    def from_file(self, path: str) -> Iterator[tuple[str, dict[str, Any] | ValueError]] | None:
        """The questions of a file of one's own, see `tatqa_records.of_file`."""
        return tatqa_records.of_file(path)

    def _traits(
        self, question: str, record: Mapping[str, Any], context: Context, shift: int
    ) -> tuple[tuple[int, ...], ...]:
        rows = tatqa_records.cells(_json(record, "table"))
        cells, asked = table_traits.of(question, rows, _listed(record, "paragraphs"))
        begin = len("[CLS]")
        words = [(start + begin, end + begin, *known) for start, end, *known in asked]
        found = [
            (unit.start + shift, unit.end + shift, *cells[cell])
            for unit, cell in zip(context.units, context.cells, strict=False)
        ]
        return (*words, *found)

    def _labels(
        self, context: Context, gold: Mapping[str, Any] | None, found: tatqa_labels.Labels | None
    ) -> dict[str, Any]:
        tags, operands, order = np.zeros(self.units, bool), np.full(2, -1, np.int32), -1
        if found is not None:
            tags[[i for i in found.units if i < self.units]] = True
            if found.operator in ORDERED and max(found.units) < self.units:
                operands[:], order = found.units, int(found.swapped)
        return {
            "operator": (*OPERATORS, *SHARES).index(found.operator) if found else -1,
            "scale": SCALES.index(gold["scale"]) if gold else -1,
            "tags": tags,
            "operands": operands,
            "order": order,
        }


def _context(record: Mapping[str, Any], order: Sequence[int]) -> Context:
    texts = _listed(record, "paragraphs")
    table = _json(record, "table")
    try:
        rows = tatqa_records.cells(table)
    except ValueError as error:
        raise DataError(f"field 'table': {error}") from None
    return tatqa_units.context(records.text(record, "question"), rows, [texts[i] for i in order])


def _gold(record: Mapping[str, Any], order: Sequence[int]) -> tuple[dict[str, Any] | None, dict[str, Any]]:
    """(what labels are found from, None of a question without an answer; what predictions are compared with)."""
    names = ("derivation", "answer_type", "answer_from", "scale")
    gold: dict[str, Any] = {name: records.text(record, name, empty=True) for name in names}
    related, answer = _listed(record, "rel_paragraphs", int), _json(record, "answer")
    if not gold["answer_type"]:
        return None, {}
    if gold["answer_type"] not in tatqa_records.TYPES or gold["scale"] not in SCALES:
        raise DataError(f"answer_type {gold['answer_type']!r} or scale {gold['scale']!r} is none of TAT-QA's")
    try:
        gold["answer"] = tatqa_records.gold(answer, gold["answer_type"])
    except ValueError as error:
        raise DataError(f"field 'answer': {error}") from None
    gold["cells"] = [tuple(place) for place in _listed({"mapping": "[]"} | dict(record), "mapping", list)]
    gold["rel_paragraphs"] = [TABLE + 1 + order.index(i) for i in related if i in order]
    return gold, {name: gold[name] for name in ("answer", "answer_type", "answer_from", "scale")}


def _json(record: Mapping[str, Any], name: str) -> Any:
    # Of a user's own they may be as they are.
    if name in ("table", "paragraphs") and isinstance(record.get(name), list):
        return record[name]
    if name == "paragraphs" and name not in record:
        return []
    text = records.text(record, name)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"field {name!r} must be JSON, not {text[:40]!r}") from None


def _listed(record: Mapping[str, Any], name: str, kind: type = str) -> list[Any]:
    found = _json(record, name)
    if not isinstance(found, list) or not all(isinstance(one, kind) for one in found):
        raise DataError(f"field {name!r} must be a JSON list of {kind.__name__}")
    return found
