"""Masked pre-training on tables with texts beside them (LUNA, section 3.2; the cuts are those of its code)."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numjax import protocols
from numjax.errors import DataError
from numjax.tasks import records
from numjax.text import document as documents
from numjax.types import Document, Example, Mark, Number, Segment, Text

Parse = Callable[[str], Document]
ROWS = 20
CHARACTERS = {"text": 256, "cell": 128}
NUMBERS = {"text": 7, "cell": 3}


class Task(protocols.Task):
    """[CLS] text [SEP] cells [SEP], columns one after the other; without a table [CLS] text [SEP].

    Read are 20 rows, 256 characters of the text and 128 of a cell; 7 numbers of the text and 3 of a cell are numbers,
    the others text. What is masked is decided batch by batch (`pipeline/masking.py`).
    """

    kind = "masked"
    metric = "-loss"
    needs = {"heads": ("masked",), "objectives": ("masked",)}
    # A quarter of a row's positions may be scored before a head reads all: 15% are masked.
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
    ):
        """
        Args:
          tatqa, tabfact: folders of these datasets, of which the training and the validation splits are read; text: a
            folder of running text. All empty: generated stand-ins of the first two.
          contexts, statements: how large the stand-ins are; as large as a task's own they leave its test split alone.
          size: records of each source and split to take; 0 for all.
          data_seed: of the splits and of the stand-ins.
        """
        self.dataset: dict[str, Any] = {"name": "table_text", "seed": data_seed}
        given = {"tatqa": tatqa, "tabfact": tabfact, "text": text, "size": size}
        given |= {"contexts": contexts, "statements": statements}
        self.dataset |= {name: value for name, value in given.items() if value}

    def texts(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        """What a vocabulary is trained on: each table once."""
        before = None
        for row in rows:
            if (table := records.text(row, "table", empty=True)) != before:
                yield " ".join(documents.beginning(cell, CHARACTERS["cell"]) for cell in _cells(_rows(table)))
            before = table
            yield records.text(row, "text", empty=True)

    def example(self, record: Mapping[str, Any], parse: Parse) -> Example:
        """The text and the table, `table` the JSON of a list of rows.

        Raises:
          DataError: the table is something else; or there is nothing to read.
        """
        text, unread = _part(records.text(record, "text", empty=True).strip(), "text", parse)
        table, more = _written(records.text(record, "table", empty=True), parse)
        if not text and not table:
            raise DataError("there is neither a text nor a table")
        behind = (*table, Mark("[SEP]")) if table else ()
        told = ", ".join(f"{what}: {n}" for what, n in (more + unread).items())
        return Example(str(record["id"]), (Mark("[CLS]"), *text, Mark("[SEP]"), *behind), unread=told)

    def score(self, predictions: Sequence[Any], references: Sequence[Any]) -> dict[str, float]:
        """Nothing beyond the loss."""
        del predictions, references
        return {}


def limited(document: Document, part: str) -> Document:
    """The document with only its first numbers, the others as text."""
    out: list[Segment] = []
    left = NUMBERS[part]
    for segment in document:
        if isinstance(segment, Number):
            segment = segment if left > 0 else Text(segment.surface)
            left -= 1
        out.append(segment)
    return documents.merge(out)


def _part(text: str, part: str, parse: Parse) -> tuple[Document, Counter[str]]:
    """(a text or a cell as it is read, how much of it is not)."""
    short = documents.beginning(text, CHARACTERS[part])
    document = parse(short)
    kept = limited(document, part)
    numbers = [sum(isinstance(segment, Number) for segment in found) for found in (document, kept)]
    lost = {"characters not read": len(text) - len(short), "numbers read as text": numbers[0] - numbers[1]}
    return kept, Counter(lost)


def _rows(table: str) -> list[list[str]]:
    try:
        rows = json.loads(table or "[]")
        whole = isinstance(rows, list) and all(isinstance(row, list) for row in rows)
    except (ValueError, RecursionError):
        rows, whole = [], False
    if not whole or not all(isinstance(cell, str) for row in rows for cell in row):
        raise DataError("field 'table' must be the JSON of a list of rows, each a list of texts")
    return rows


def _cells(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The cells that are read, column by column; a short row has none at its end."""
    rows = rows[:ROWS]
    for column in range(max(map(len, rows), default=0)):
        for row in rows:
            if column < len(row) and (cell := row[column].strip()):
                yield cell


# The texts of a table come one after the other.
@functools.lru_cache(maxsize=4)
def _written(table: str, parse: Parse) -> tuple[Document, Counter[str]]:
    """(a table as it is read, how much of it is not)."""
    segments: list[Segment] = []
    rows = _rows(table)
    lost = Counter({"rows not read": max(0, len(rows) - ROWS)})
    for cell in _cells(rows):
        document, more = _part(cell, "cell", parse)
        segments += [*([Text(" ")] if segments else []), *document]
        lost += more
    return documents.merge(segments), lost
