"""TabFact's files: tables `all_csv/ID`, cells apart by "#", the header first; statements {ID: [[statement], [label],
caption]} a split; pairs [ID, entailed, refuted]; lists of table ids."""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from numjax.errors import DataError, UsageError
from numjax.tasks.records import LONGEST_CELL

from ..files import parsed
from ..pieces import list_files, read_file

SPLIT_FILES = {"train": "train_examples.json", "validation": "val_examples.json", "test": "test_examples.json"}
PAIRS, TRAIN_IDS = "positive_negative_pairs.json", "train_id.json"
KIND_FILES = {
    "simple": ("simple_ids.json", "simple_test_id.json"),
    "complex": ("complex_ids.json", "complex_test_id.json"),
}
WHAT = "the folder with TabFact's all_csv (or its .tar.gz) and val_examples.json"

# The stop that the release's pairs end in, more often a refuted one: the files that test have none.
_STOP = re.compile(r"(?:\s+\.|\.{2,})+\s*$")

Table = str | ValueError  # its rows as JSON, or what is wrong with it


class Statement(dict):
    """The fields of one statement but for its table's: id, table_id, caption, statement, label."""


def find_files(path: str) -> dict[str, pathlib.Path]:
    """name (see above) → file of the JSON files under a folder, also packed by gzip.

    Raises:
      DataError: there are no statements with labels.
      UsageError: two files of one name.
    """
    root = pathlib.Path(path).expanduser().absolute()
    if not root.is_dir():
        raise DataError(f"{root}: no such folder; set path to {WHAT}")
    names = [*SPLIT_FILES.values(), PAIRS, TRAIN_IDS, *(name for names in KIND_FILES.values() for name in names)]
    out: dict[str, pathlib.Path] = {}
    for file in sorted(root.rglob("*.json*")):
        name = file.name.removesuffix(".gz")
        if name not in names or not file.is_file():
            continue
        if name in out:
            raise UsageError(f"{root}: {name} twice ({out[name]}, {file}); leave one of them in the folder")
        out[name] = file
    if not {*SPLIT_FILES.values(), PAIRS} & set(out):
        raise DataError(f"{root}: no {', '.join(SPLIT_FILES.values())} and no {PAIRS} there; set path to {WHAT}")
    return out


def table_files(path: str) -> list[pathlib.Path]:
    """The tables under a folder, one a file or in archives. Errors as in `pieces.list_files`."""
    return list_files(path, (".csv",), WHAT)


def tables(path: str, wanted: Collection[str]) -> Iterator[tuple[str, Table]]:
    """(table id, table) of those that are wanted; of an archive that is damaged (its name, the error) too."""
    root = pathlib.Path(path).expanduser().absolute()
    for file in table_files(path):
        for piece in read_file(file, root, (".csv",)):
            name = pathlib.PurePosixPath(piece.id).name
            if piece.data is None:
                yield name, ValueError(piece.reason)
            elif name in wanted:
                yield name, packed(piece.data)


def packed(data: bytes) -> Table:
    """A table's file as its rows in JSON."""
    try:
        return json.dumps(rows(data.decode("utf-8-sig")), ensure_ascii=False)
    except UnicodeDecodeError as error:
        return ValueError(f"its table is not UTF-8 at byte {error.start}")
    except ValueError as error:
        return error


def rows(text: str) -> list[list[str]]:
    """A table's rows of cells, the header first, all of one length.

    Raises:
      ValueError: it is none.
    """
    found = [line.rstrip("\r").split("#") for line in text.rstrip("\r\n").split("\n")]
    cells = [[cell.strip() for cell in row] for row in found]
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


def ids(path: pathlib.Path) -> set[str]:
    """The table ids of a list.

    Raises:
      DataError: it is none.
    """
    found = parsed(path)
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise DataError(f"{path}: not a list of table ids")
    return set(found)


def statements(found: Any, name: str) -> Iterator[tuple[str, Statement | ValueError]]:
    """(id, statement, or what is wrong with it) of a split's file; `name` is for messages.

    Raises:
      DataError: it is of another form.
    """
    if not isinstance(found, Mapping):
        raise DataError(f"{name}: not TabFact's form, {{table id: [[statement], [label], caption]}}")
    for table, entry in found.items():
        if not isinstance(entry, list) or len(entry) < 2 or not all(isinstance(part, list) for part in entry[:2]):
            yield table, ValueError("is not [[statement], [label], caption]")
            continue
        texts, labels = entry[:2]
        caption = entry[2] if len(entry) > 2 and isinstance(entry[2], str) else ""
        if len(texts) != len(labels):
            yield table, ValueError(f"has {len(texts)} statements and {len(labels)} labels")
            continue
        for place, (text, label) in enumerate(zip(texts, labels, strict=True)):
            yield _statement(table, place, text, label, caption)


def pairs(found: Any, name: str, wanted: Collection[str] | None) -> Iterator[tuple[str, Statement | ValueError]]:
    """As `statements`, of pairs; each statement once, without a full stop at its end.

    Args:
      wanted: only of these tables; None: of all.

    Raises:
      DataError: it is of another form.
    """
    if not isinstance(found, list):
        raise DataError(f"{name}: not a list of [table id, entailed statement, refuted statement]")
    said: dict[tuple[str, str], int] = {}
    both = set()
    for number, row in enumerate(found):
        if not isinstance(row, list) or len(row) != 3 or not all(isinstance(part, str) for part in row):
            yield f"{PAIRS}:{number}", ValueError("is not [table id, entailed statement, refuted statement]")
        elif wanted is None or row[0] in wanted:
            for text, label in ((_STOP.sub("", row[1]), 1), (_STOP.sub("", row[2]), 0)):
                if said.setdefault((row[0], text), label) != label:
                    both.add((row[0], text))
    counts: dict[str, int] = {}
    for (table, text), label in said.items():
        place = counts[table] = counts.get(table, -1) + 1
        if (table, text) in both:
            yield f"{table}:pair-{place}", ValueError("stands on both sides of pairs")
        elif len(text.split()) == 1:
            yield f"{table}:pair-{place}", ValueError(f"{text[:40]!r} is one word, no statement")
        else:
            yield _statement(table, f"pair-{place}", text, label, "")


def _statement(table: str, place: int | str, text: Any, label: Any, caption: str):
    name = f"{table}:{place}"
    if not isinstance(text, str) or not text.strip():
        return name, ValueError("has no statement")
    if isinstance(label, bool) or label not in (0, 1):
        return name, ValueError(f"has the label {label!r}, neither 1 (entailed) nor 0 (refuted)")
    return name, Statement(id=name, table_id=table, caption=caption, statement=text.strip(), label=int(label))
