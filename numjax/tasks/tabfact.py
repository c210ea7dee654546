"""Whether a table entails a statement or refutes it (TabFact, Chen et al. 2020; LUNA, section 4)."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax.errors import DataError, UsageError
from numjax.tasks import records, statement, table_traits
from numjax.text import document as documents
from numjax.types import Document, Example, Mark, Text

LAYOUTS = ("rows", "columns", "sentences")
Parse = Callable[[str], Document]


class Task(statement.Task):
    """[CLS] statement [SEP] cells [SEP] → 1 (entailed) or 0 (refuted). Empty cells and the caption are not read.

    What is too long loses the end of its table under `data.overflow="shorten"`: where LUNA cuts the whole at 512
    positions, but no number in the middle.
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
          size: statements of each split to take, of the stand-in to make; 0 for all.
          layout: the order of the cells, the header first: "rows" (LUNA's BERT), "columns" (its RoBERTa), or
            "sentences" ("row 1 is : club is barton ; points is 12 .", as Table-BERT writes rows; it has only the
            columns that its entity linking finds, here are all).
          data_seed: of the splits that are made here and of the stand-in.
          tables, wordings: of the stand-in: "few" subjects, or "many" (data/tables); of the latter, wordings that are
            "apart" in each split, or "seen" in training.
          traits: what is exactly known of cells and of the statement's words, as further token types
            (`table_traits.SIZES`); for layouts "rows" and "columns".
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
        """What a vocabulary is trained on: each table once."""
        before = None
        for row in rows:
            table = _table(row)
            if table != before:
                yield documents.surface(_written(table, self.layout, documents.parse))
            before = table
            yield records.text(row, "statement")

    def example(self, record: Mapping[str, Any], parse: Parse) -> Example:
        """The statement and the table, `table` a list of rows of cells or its JSON; the reference keeps the kind.

        Raises:
          DataError: the table is empty or ragged, or has a cell that `records.cell` refuses.
        """
        head = (Mark("[CLS]"), *parse(records.text(record, "statement").strip()), Mark("[SEP]"))
        table = _written(_table(record), self.layout, parse)
        label = records.label(record, "label", 2)
        rows = json.loads(_table(record))
        spare = reversed(range(len(head), len(head) + len(table)))
        return Example(
            str(record["id"]),
            (*head, *table, Mark("[SEP]")),
            labels={"label": label},
            reference={"label": label, "kind": records.text(record, "kind", empty=True)},
            traits=self._traits(records.text(record, "statement").strip(), rows, head) if self.traits else (),
            spare=tuple((place, place + 1) for place in spare),
        )

    def _traits(self, said: str, rows: list[list[str]], head: Document) -> tuple[tuple[int, ...], ...]:
        cells, words = table_traits.of(said, rows)
        begin, place = len("[CLS]"), len(documents.surface(head))
        found = [(start + begin, end + begin, *known) for start, end, *known in words]
        across = self.layout == "columns"
        order = sorted(cells, key=lambda cell: cell[::-1]) if across else sorted(cells)
        for row, column in order:
            if text := rows[row][column].strip():
                found.append((place + 1, place + 1 + len(text), *cells[row, column]))
                place += 1 + len(text)
        return tuple(found)


def _table(record: Mapping[str, Any]) -> str:
    """The field as JSON; what a list of lists of a user's own may hold becomes text.

    Raises:
      DataError: it is of another form.
    """
    if "table" in record and not isinstance(record["table"], str):
        return json.dumps(_checked(record["table"]), ensure_ascii=False)
    return records.text(record, "table")


def _checked(table: Any) -> list[list[str]]:
    if not isinstance(table, Sequence) or isinstance(table, str | bytes):
        raise DataError("field 'table' must be a list of rows, the header first, or its JSON")
    rows = []
    for number, row in enumerate(table, 1):
        if not isinstance(row, Sequence) or isinstance(row, str | bytes):
            raise DataError(f"field 'table' must be a list of rows; its row {number} is no list of cells")
        rows.append([records.cell(cell, number).strip() for cell in row])
    if len(rows) < 2 or not any(cell for row in rows[1:] for cell in row):
        raise DataError("the table is empty: give a header and at least one row")
    for number, row in enumerate(rows, 1):
        if len(row) != len(rows[0]):
            raise DataError(f"the table is ragged: row {number} has {len(row)} cells, the header {len(rows[0])}")
    return rows


# The statements of a table come one after the other.
@functools.lru_cache(maxsize=4)
def _written(table: str, layout: str, parse: Parse) -> Document:
    """A table's cells in their order, each parsed by itself, with blanks between them."""
    try:
        rows = _checked(json.loads(table))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError("field 'table' must be a list of rows, or its JSON") from None
    segments: list[Any] = []
    if layout == "sentences":
        for number, row in enumerate(rows[1:], 1):
            # The row's number is no number of the table.
            segments.append(Text(f" row {number} is :"))
            for place, (column, cell) in enumerate(zip(rows[0], row, strict=True)):
                segments += [Text(" ; " if place else " "), *parse(column), Text(" is "), *parse(cell)]
            segments.append(Text(" ."))
    else:
        order = rows if layout == "rows" else zip(*rows, strict=True)
        for cell in (cell for row in order for cell in row if cell):
            segments += [Text(" "), *parse(cell)]
    return documents.merge(segments)
