"""Masked pre-training on tables with accompanying texts (LUNA, section 3.2; with the cuts of its code)."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError
from numjax.pipeline import fields
from numjax.text import document as documents
from numjax.types import Document, Example, Mark, Number, Segment, Text

Parse = Callable[[str], Document]
ROWS = 20
CHARACTERS = {"text": 256, "cell": 128}
NUMBERS = {"text": 7, "cell": 3}


class Task(protocols.Task):
    """[CLS] text [SEP] cells [SEP], columns one after the other; without a table [CLS] text [SEP].

    It reads at most 20 rows, 256 characters of the text and 128 of a cell; the first 7 numbers of the text and 3 of a
    cell are numbers, the others are text. Each batch is masked when it is built (`pipeline/masking.py`).
    """

    kind = "masked"
    metric = "-loss"
    needs = {"heads": ("masked",), "objectives": ("masked",)}
    # The head computes up to a quarter of a row's positions (15% are masked), and beyond that all of them.
    brings = {
        "heads": {"masked": dict(name="masked", epsilon=1e-12)},
        "objectives": {"masked": dict(name="masked", head="masked", numbers=None, room=0.25, weight=1.0)},
        "data": {"masking": dict(rate=0.15, keep=0.1, random=0.1, literals=True, separators=False)},
    }

    def __init__(
        self,
        *,
        tatqa: str = "",
        tabfact: str = "",
        text: str = "",
        contexts: int = 0,
        statements: int = 0,
        size: int = 0,
        data_seed: int = 0,
        fold: int = 0,
        folds: int = 0,
    ):
        """
        Args:
          tatqa, tabfact: folders of these datasets, of which the training and the validation splits are used; text: a
            folder of running text. All empty: generated stand-ins of the first two.
          contexts, statements: sizes of the stand-ins; with the sizes of a task's own stand-in, its test split is not
            used here.
          size: records of each source and split to use; 0 for all.
          data_seed: of the splits and of the stand-ins.
          fold: which of `folds` of TAT-QA stays unread; folds=0 for its test split.
        """
        self.dataset: dict[str, Any] = {"name": "table_text", "seed": data_seed}
        options = {"tatqa": tatqa, "tabfact": tabfact, "text": text, "size": size}
        options |= {"contexts": contexts, "statements": statements, "fold": fold, "folds": folds}
        self.dataset |= {name: value for name, value in options.items() if value}

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """The texts that a vocabulary is trained on; each table once."""
        previous = None
        for row in rows:
            if (table := fields.text(row, "table", empty=True)) != previous:
                yield " ".join(
                    documents.take_beginning(cell, CHARACTERS["cell"]) for cell in _list_cells(_parse_rows(table))
                )
            previous = table
            yield fields.text(row, "text", empty=True)

    def example(self, record: Mapping[str, Any], parse: Parse) -> Example:
        """The text and the table, `table` the JSON of a list of rows.

        Raises:
          DataError: the table has another form; or text and table are both empty.
        """
        text, unread = _parse_part(fields.text(record, "text", empty=True).strip(), "text", parse)
        table, table_unread = _make_table_document(fields.text(record, "table", empty=True), parse)
        if not text and not table:
            raise DataError("there is neither a text nor a table")
        table_segments = (*table, Mark("[SEP]")) if table else ()
        description = ", ".join(f"{what}: {n}" for what, n in (table_unread + unread).items())
        return Example(str(record["id"]), (Mark("[CLS]"), *text, Mark("[SEP]"), *table_segments), unread=description)

    def score(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Nothing beyond the loss."""
        del predictions, references
        return {}


def limit_numbers(document: Document, part: str) -> Document:
    """The document with only its first `NUMBERS[part]` numbers; the others become text."""
    out: list[Segment] = []
    remaining = NUMBERS[part]
    for segment in document:
        if isinstance(segment, Number):
            segment = segment if remaining > 0 else Text(segment.surface)
            remaining -= 1
        out.append(segment)
    return documents.merge(out)


def _parse_part(text: str, part: str, parse: Parse) -> tuple[Document, Counter[str]]:
    """(the document of a text or a cell, counts of what is not read)."""
    short = documents.take_beginning(text, CHARACTERS[part])
    document = parse(short)
    limited = limit_numbers(document, part)
    numbers = [sum(isinstance(segment, Number) for segment in version) for version in (document, limited)]
    lost = {"characters not read": len(text) - len(short), "numbers read as text": numbers[0] - numbers[1]}
    return limited, Counter(lost)


def _parse_rows(table: str) -> list[list[str]]:
    try:
        rows = json.loads(table or "[]")
        is_list_of_lists = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    except (ValueError, RecursionError):
        rows, is_list_of_lists = [], False
    if not is_list_of_lists or not all(isinstance(cell, str) for row in rows for cell in row):
        raise DataError("field 'table' must be the JSON of a list of rows, each a list of texts")
    return rows


def _list_cells(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The cells that are read, column by column; short rows have no cells at their ends."""
    rows = rows[:ROWS]
    for column in range(max(map(len, rows), default=0)):
        for row in rows:
            if column < len(row) and (cell := row[column].strip()):
                yield cell


# Cached, because the texts of a table follow each other.
@functools.lru_cache(maxsize=4)
def _make_table_document(table: str, parse: Parse) -> tuple[Document, Counter[str]]:
    """(the document of a table, counts of what is not read)."""
    segments: list[Segment] = []
    rows = _parse_rows(table)
    lost = Counter({"rows not read": max(0, len(rows) - ROWS)})
    for cell in _list_cells(rows):
        document, cell_unread = _parse_part(cell, "cell", parse)
        segments += [*([Text(" ")] if segments else []), *document]
        lost += cell_unread
    return documents.merge(segments), lost
