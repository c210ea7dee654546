"""Source files that people point `path` at: found, unpacked, and refused in one line where they are damaged."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

from numjax.errors import DataError, UsageError
from numjax.runtime.files import contents, readable


def one_of(path: str, patterns: Sequence[str], hint: str = "set path to the file") -> pathlib.Path:
    """`path` itself where it is a file, else the one file under it that matches a pattern.

    Raises:
      DataError: there is none.
      UsageError: there are several.
    """
    root = pathlib.Path(path).expanduser()
    if root.is_file():
        return root
    found = sorted({file for pattern in patterns for file in root.glob(pattern) if file.is_file()})
    if not found:
        raise DataError(f"{root}: no {' or '.join(patterns)} there; {hint}")
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise UsageError(f"{root}: several files ({names}); set path to one of them, or leave one in the folder")
    return found[0]


def lines(path: pathlib.Path) -> Iterator[bytes]:
    """A file's lines without their ends, one after the other. Errors as in `readable`."""
    with readable(path), gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
        for number, line in enumerate(file):
            yield (line if number else line.removeprefix(codecs.BOM_UTF8)).rstrip(b"\r\n")


def text(path: pathlib.Path) -> str:
    """A file's text.

    Raises:
      DataError: as `contents`; or it is not UTF-8, or empty.
    """
    try:
        found = contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; convert or fetch it again") from None
    if not found.strip():
        raise DataError(f"{path}: the file is empty; fetch it again")
    return found


def parsed(path: pathlib.Path) -> Any:
    """The value of a JSON file.

    Raises:
      DataError: as `text`; or the JSON is wrong.
    """
    source = text(path)
    try:
        return json.loads(source)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: the JSON breaks off or is wrong; fetch it again") from None


def table(path: pathlib.Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """(line number, column → text) of each row of a table whose first line names its columns, with commas or tabs.

    Args:
      columns: that it must have. Cells that a short row lacks are empty; of columns of one name the first counts.

    Raises:
      DataError: as `text`; or a column is missing.
    """
    source = text(path)
    header = source.lstrip().partition("\n")[0]
    delimiter = "\t" if header.count("\t") >= header.count(",") and "\t" in header else ","
    csv.field_size_limit(1 << 24)
    rows = csv.reader(io.StringIO(source.lstrip(), newline=""), delimiter=delimiter)
    names = [name.strip() for name in next(rows)]
    missing = [name for name in columns if name not in names]
    if missing:
        raise DataError(f"{path}: no column {', '.join(map(repr, missing))}; the table has {', '.join(names)}")
    try:
        for cells in rows:
            if any(cell.strip() for cell in cells):
                yield rows.line_num, dict(reversed(list(zip(names, cells + [""] * len(names), strict=False))))
    except csv.Error as error:
        raise DataError(f"{path}: line {rows.line_num} is no row of a table: {error}") from None
