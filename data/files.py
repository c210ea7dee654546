"""Finds, unpacks and reads the source files that the option `path` names; damaged files give a one-line error."""

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
from numjax.runtime.files import read_bytes, report_read_errors


def find_one(path: str, patterns: Sequence[str], hint: str = "set path to the file") -> pathlib.Path:
    """Returns `path` itself if it is a file, else the one file in it that matches a pattern.

    Raises:
      DataError: no file matches.
      UsageError: several files match.
    """
    root = pathlib.Path(path).expanduser()
    if root.is_file():
        return root
    matches = sorted({file for pattern in patterns for file in root.glob(pattern) if file.is_file()})
    if not matches:
        raise DataError(f"{root}: no {' or '.join(patterns)} there; {hint}")
    if len(matches) > 1:
        names = ", ".join(file.name for file in matches)
        raise UsageError(f"{root}: several files ({names}); set path to one of them, or leave one in the folder")
    return matches[0]


def read_lines(path: pathlib.Path) -> Iterator[bytes]:
    """Yields a file's lines without their line ends. Errors as in `report_read_errors`."""
    with report_read_errors(path), gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
        for number, line in enumerate(file):
            yield (line if number else line.removeprefix(codecs.BOM_UTF8)).rstrip(b"\r\n")


def read_text(path: pathlib.Path) -> str:
    """Returns a file's text.

    Raises:
      DataError: as in `read_bytes`; or the file is not UTF-8, or empty.
    """
    try:
        decoded = read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; convert or fetch it again") from None
    if not decoded.strip():
        raise DataError(f"{path}: the file is empty; fetch it again")
    return decoded


def read_json(path: pathlib.Path) -> Any:
    """Returns the value of a JSON file.

    Raises:
      DataError: as in `read_text`; or the JSON is wrong.
    """
    source = read_text(path)
    try:
        return json.loads(source)
    except (ValueError, RecursionError):
        raise DataError(f"{path}: the JSON breaks off or is wrong; fetch it again") from None


def read_table(path: pathlib.Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields (line number, column → text) for each row of a table with commas or tabs and a header line.

    Args:
      columns: that the table must have. Missing cells of a short row are empty; of columns of one name the first
        counts.

    Raises:
      DataError: as in `read_text`; or a column is missing.
    """
    source = read_text(path)
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
        raise DataError(f"{path}: line {rows.line_num} is not a table row: {error}") from None
