"""Reads TabFact's files: tables `all_csv/ID`, a header and rows, with "#" between cells; statements
{ID: [[statement], [label], caption]} of each split; pairs [ID, entailed, refuted]; lists of table ids."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from numjax.errors import DataError, UsageError
from numjax.pipeline.fields import LONGEST_CELL

from ..files import read_json
from ..pieces import list_files, read_file

SPLIT_FILES = {"train": "train_examples.json", "validation": "val_examples.json", "test": "test_examples.json"}
PAIRS, TRAIN_IDS = "positive_negative_pairs.json", "train_id.json"
KIND_FILES = {
    "simple": ("simple_ids.json", "simple_test_id.json"),
    "complex": ("complex_ids.json", "complex_test_id.json"),
}
HINT = "the folder with TabFact's all_csv (or its .tar.gz) and val_examples.json"

# The full stop at the end of the release's pairs, more often of refuted ones. The test files have none.
_STOP = re.compile(r"(?:\s+\.|\.{2,})+\s*$")

Table = str | ValueError  # its rows as JSON, or the error why it cannot be used


class Statement(dict):
    """The fields of one statement without those of its table: id, table_id, caption, statement, label."""


def find_files(path: str) -> dict[str, pathlib.Path]:
    """Returns name (see above) → path of the JSON files under a folder, also packed by gzip.

    Raises:
      DataError: there are no statements with labels.
      UsageError: two files have the same name.
    """
    root = pathlib.Path(path).expanduser().absolute()
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; set path to {HINT}")
    names = [*SPLIT_FILES.values(), PAIRS, TRAIN_IDS, *(name for names in KIND_FILES.values() for name in names)]
    files: dict[str, pathlib.Path] = {}
    for file in sorted(root.rglob("*.json*")):
        name = file.name.removesuffix(".gz")
        if name not in names or not file.is_file():
            continue
        if name in files:
            raise UsageError(f"{root}: {name} twice ({files[name]}, {file}); leave one of them in the folder")
        files[name] = file
    if not {*SPLIT_FILES.values(), PAIRS} & set(files):
        raise DataError(f"{root}: no {', '.join(SPLIT_FILES.values())} and no {PAIRS} there; set path to {HINT}")
    return files


def find_table_files(path: str) -> list[pathlib.Path]:
    """Returns the tables' files under a folder, one table a file or in archives. Errors as in `pieces.list_files`."""
    return list_files(path, (".csv",), HINT)


def read_tables(path: str, table_ids: Collection[str]) -> Iterator[tuple[str, Table]]:
    """Yields (table id, table) for `table_ids`, and (name, error) for each file that cannot be read."""
    root = pathlib.Path(path).expanduser().absolute()
    for file in find_table_files(path):
        for piece in read_file(file, root, (".csv",)):
            name = pathlib.PurePosixPath(piece.id).name
            if piece.data is None:
                yield name, ValueError(piece.reason)
            elif name in table_ids:
                yield name, encode_table(piece.data)


def encode_table(data: bytes) -> Table:
    """Returns the rows of a table's file as JSON, or the error why it cannot be used."""
    try:
        return json.dumps(parse_rows(data.decode("utf-8-sig")), ensure_ascii=False)
    except UnicodeDecodeError as error:
        return ValueError(f"its table is not UTF-8 at byte {error.start}")
    except ValueError as error:
        return error


def parse_rows(text: str) -> list[list[str]]:
    """Returns a table's rows of cells, the header first, all of one length.

    Raises:
      ValueError: the text is no such table.
    """
    raw_rows = [line.rstrip("\r").split("#") for line in text.rstrip("\r\n").split("\n")]
    cells = [[cell.strip() for cell in row] for row in raw_rows]
    if len(cells) < 2 or not any(cell for row in cells[1:] for cell in row):
        raise ValueError("its table is empty: no cell below the header")
    for number, row in enumerate(cells, 1):
        if len(row) != len(cells[0]):
            raise ValueError(f"its table is ragged: row {number} has {len(row)} cells, the header {len(cells[0])}")
        longest = max(map(len, row))
        if longest > LONGEST_CELL:
            raise ValueError(
                f"its table has a cell of {longest:,} characters in row {number}; {LONGEST_CELL:,} at most"
            )
    return cells


def read_ids(path: pathlib.Path) -> set[str]:
    """Returns the table ids of a file.

    Raises:
      DataError: the file is not a list of table ids.
    """
    values = read_json(path)
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DataError(f"{path}: not a list of table ids")
    return set(values)


def parse_statements(entries: Any, name: str) -> Iterator[tuple[str, Statement | ValueError]]:
    """Yields (id, statement or the error why it cannot be used) of a split's file; messages give its `name`.

    Raises:
      DataError: the file has another form.
    """
    if not isinstance(entries, Mapping):
        raise DataError(f"{name}: not TabFact's form, {{table id: [[statement], [label], caption]}}")
    for table, entry in entries.items():
        if not isinstance(entry, list) or len(entry) < 2 or not all(isinstance(part, list) for part in entry[:2]):
            yield table, ValueError("is not [[statement], [label], caption]")
            continue
        texts, labels = entry[:2]
        caption = entry[2] if len(entry) > 2 and isinstance(entry[2], str) else ""
        if len(texts) != len(labels):
            yield table, ValueError(f"has {len(texts)} statements and {len(labels)} labels")
            continue
        for index, (text, label) in enumerate(zip(texts, labels, strict=True)):
            yield _make_statement(table, index, text, label, caption)


def parse_pairs(
    pairs: Any, name: str, table_ids: Collection[str] | None
) -> Iterator[tuple[str, Statement | ValueError]]:
    """Yields the same as `parse_statements` for pairs: each statement once, without a full stop at its end.

    Args:
      table_ids: only statements on these tables; None: on all.

    Raises:
      DataError: the file has another form.
    """
    if not isinstance(pairs, list):
        raise DataError(f"{name}: not a list of [table id, entailed statement, refuted statement]")
    labels: dict[tuple[str, str], int] = {}
    contradictions = set()
    for number, row in enumerate(pairs):
        if not isinstance(row, list) or len(row) != 3 or not all(isinstance(part, str) for part in row):
            yield f"{PAIRS}:{number}", ValueError("is not [table id, entailed statement, refuted statement]")
        elif table_ids is None or row[0] in table_ids:
            for text, label in ((_STOP.sub("", row[1]), 1), (_STOP.sub("", row[2]), 0)):
                if labels.setdefault((row[0], text), label) != label:
                    contradictions.add((row[0], text))
    counts: dict[str, int] = {}
    for (table, text), label in labels.items():
        index = counts[table] = counts.get(table, -1) + 1
        if (table, text) in contradictions:
            yield f"{table}:pair-{index}", ValueError("stands on both sides of pairs")
        elif len(text.split()) == 1:
            yield f"{table}:pair-{index}", ValueError(f"{text[:40]!r} is one word, no statement")
        else:
            yield _make_statement(table, f"pair-{index}", text, label, "")


def _make_statement(table: str, index: int | str, text: Any, label: Any, caption: str):
    name = f"{table}:{index}"
    if not isinstance(text, str) or not text.strip():
        return name, ValueError("has no statement")
    if isinstance(label, bool) or label not in (0, 1):
        return name, ValueError(f"has the label {label!r}, neither 1 (entailed) nor 0 (refuted)")
    return name, Statement(id=name, table_id=table, caption=caption, statement=text.strip(), label=int(label))
