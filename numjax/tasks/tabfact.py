"""Whether a table entails a statement or refutes it (TabFact, Chen et al. 2020; LUNA, section 4)."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax.errors import DataError, UsageError
from numjax.pipeline import fields
from numjax.runtime import files
from numjax.tasks import statement
from numjax.tasks.tatqa import traits as table_traits
from numjax.text import document as documents
from numjax.types import Document, Example, Mark, Text

LAYOUTS = ("rows", "columns", "sentences")
Parse = Callable[[str], Document]


class Task(statement.Task):
    """[CLS] statement [SEP] cells [SEP] → 1 (entailed) or 0 (refuted). Empty cells and the caption are not read.

    A text that is too long loses the end of its table with `data.overflow="shorten"`: at 512 positions, where LUNA
    cuts the text too, but never within a number.
    """

    unanswered = {"label": 0, "kind": ""}

    def __init__(
        self,
        *,
        path: str = "",
        size: int = 0,
        layout: str = "rows",
        data_seed: int = 0,
        tables: str = "few",
        wordings: str = "apart",
        traits: bool = False,
    ):
        """
        Args:
          path: folder of the release; empty for the generated stand-in.
          size: statements of each split to use, or of the stand-in to generate; 0 for all.
          layout: the order of the cells, the header first: "rows" (LUNA's BERT), "columns" (its RoBERTa), or
            "sentences" ("row 1 is : club is barton ; points is 12 .", as Table-BERT writes rows, but with all columns
            and not only those that its entity linking finds).
          data_seed: of the generated splits and of the stand-in.
          tables, wordings: of the stand-in: "few" subjects, or "many" (data/tables); with "many", the wordings of the
            splits differ ("apart"), or are those "seen" in training.
          traits: exact facts about cells and the statement's words, as further token types (`tatqa.traits.SIZES`);
            for layouts "rows" and "columns".
        """
        if layout not in LAYOUTS:
            raise UsageError(f"tabfact: layout must be one of {', '.join(LAYOUTS)}, not {layout!r}")
        if traits and layout == "sentences":
            raise UsageError("tabfact: traits are of cells in rows or columns: use layout=rows or layout=columns")
        self.layout, self.traits = layout, traits
        self.dataset: dict[str, Any] = {"name": "tabfact", "seed": data_seed}
        self.dataset |= {k: v for k, v in {"path": path, "size": size}.items() if v}
        if tables != "few":
            self.dataset |= {"tables": tables, "wordings": wordings}

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on; each table once."""
        previous = None
        for row in rows:
            table = _table_json(row)
            if table != previous:
                yield documents.surface(_make_table_document(table, self.layout, documents.parse))
            previous = table
            yield fields.text(row, "statement")

    def example(self, record: Mapping[str, Any], parse: Parse) -> Example:
        """The statement and the table, `table` a list of rows of cells or its JSON; the reference keeps the kind.

        Raises:
          DataError: the table is empty or ragged, or has a cell that `fields.cell` refuses.
        """
        head = (Mark("[CLS]"), *parse(fields.text(record, "statement").strip()), Mark("[SEP]"))
        table = _make_table_document(_table_json(record), self.layout, parse)
        label = fields.label(record, "label", 2)
        spare = reversed(range(len(head), len(head) + len(table)))
        return Example(
            str(record["id"]),
            (*head, *table, Mark("[SEP]")),
            labels={"label": label},
            reference={"label": label, "kind": fields.text(record, "kind", empty=True)},
            traits=self._traits(record, head) if self.traits else (),
            spare=tuple((index, index + 1) for index in spare),
        )

    def list_cells(self, record: Mapping[str, Any], head: Document) -> list[tuple[int, int, int, int]]:
        """(start, end, row, column) of each cell that is not empty: characters [start, end) of the document that
        begins with `head`, in their order; for layouts "rows" and "columns"."""
        rows, offset = json.loads(_table_json(record)), len(documents.surface(head))
        order = [(r, c) for r in range(len(rows)) for c in range(len(rows[0]))]
        if self.layout == "columns":
            order.sort(key=lambda cell: cell[::-1])
        spans = []
        for r, c in order:
            if text := rows[r][c].strip():
                spans.append((offset + 1, offset + 1 + len(text), r, c))
                offset += 1 + len(text)
        return spans

    def _traits(self, record: Mapping[str, Any], head: Document) -> tuple[tuple[int, ...], ...]:
        rows = json.loads(_table_json(record))
        cells, words = table_traits.find_traits(fields.text(record, "statement").strip(), rows)
        begin = len("[CLS]")
        traits = [(start + begin, end + begin, *values) for start, end, *values in words]
        traits += [(start, end, *cells[row, column]) for start, end, row, column in self.list_cells(record, head)]
        return tuple(traits)


def _table_json(record: Mapping[str, Any]) -> str:
    """The field "table" as JSON of rows of texts, which the cells of a user's table become.

    Raises:
      DataError: it has another form.
    """
    table = record.get("table")
    if table is None or isinstance(table, str):
        return _normalise_json(fields.text(record, "table"))
    return json.dumps(_check_table(table), ensure_ascii=False)


# Cached, because the statements of a table follow each other.
@functools.lru_cache(maxsize=4)
def _normalise_json(text: str) -> str:
    try:
        table = files.parse_json(text)
    except ValueError:
        raise DataError("field 'table' must be a list of rows, or its JSON") from None
    return json.dumps(_check_table(table), ensure_ascii=False)


def _check_table(table: Any) -> list[list[str]]:
    if not isinstance(table, Sequence) or isinstance(table, str | bytes):
        raise DataError("field 'table' must be a list of rows, the header first, or its JSON")
    rows = []
    for number, row in enumerate(table, 1):
        if not isinstance(row, Sequence) or isinstance(row, str | bytes):
            raise DataError(f"field 'table' must be a list of rows; its row {number} is no list of cells")
        rows.append([fields.cell(cell, number).strip() for cell in row])
    if len(rows) < 2 or not any(cell for row in rows[1:] for cell in row):
        raise DataError("the table is empty: give a header and at least one row")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise DataError(f"the table is ragged: row {number} has {len(row)} cells, the header {len(rows[0])}")
    return rows


@functools.lru_cache(maxsize=4)
def _make_table_document(table: str, layout: str, parse: Parse) -> Document:
    """The cells of a table in the order of the layout, each parsed by itself, with blanks between them."""
    rows = json.loads(table)
    segments: list[Any] = []
    if layout == "sentences":
        for number, row in enumerate(rows[1:], 1):
            # The row's index is text, because it is no number of the table.
            segments.append(Text(f" row {number} is :"))
            for index, (column, cell) in enumerate(zip(rows[0], row, strict=True)):
                segments += [Text(" ; " if index else " "), *parse(column), Text(" is "), *parse(cell)]
            segments.append(Text(" ."))
    else:
        order = rows if layout == "rows" else zip(*rows, strict=True)
        for cell in (cell for row in order for cell in row if cell):
            segments += [Text(" "), *parse(cell)]
    return documents.merge(segments)
