"""Finds, unpacks and reads the source files that the option `path` names; damaged files give a one-line error."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


def read_table(path: pathlib.Path, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, str] | ValueError]]:
    """Yields (line number, column → text, or what is wrong) for each row of a table with commas or tabs and a header.

    A cell of several lines must be quoted, and its quotes closed: else the lines that a quote joins are refused.

    Args:
      columns: that the table must have. Missing cells of a short row are empty; of columns of one name the first
        counts.

    Raises:
      DataError: as in `read_text`; a column is missing; or the first line is no header.
    """
    source = read_text(path).lstrip("\r\n ")  # a tab may be the first cell of the header
    header = source.partition("\n")[0]
    delimiter = "\t" if header.count("\t") >= header.count(",") and "\t" in header else ","
    csv.field_size_limit(1 << 24)
    lines = _RecordedLines(source)
    rows = csv.reader(lines, delimiter=delimiter)
    try:
        names = [name.strip() for name in next(rows)]
    except csv.Error as error:
        raise DataError(f"{path}: line 1 is no header: {error}") from None
    missing = [name for name in columns if name not in names]
    if missing:
        raise DataError(f"{path}: no column {', '.join(map(repr, missing))}; the table has {', '.join(names)}")
    while True:
        first = rows.line_num + 1
        lines.forget()
        try:
            cells = next(rows, None)
            if rows.line_num > first:
                cells = next(csv.reader(lines.recorded, delimiter=delimiter, strict=True))
        except csv.Error as error:  # the reader goes on behind this row
            where = f"lines {first} to {rows.line_num} are one row, and" if rows.line_num > first else "the line is"
            yield first, ValueError(f"{where} no row of a table: {error}")
            continue
        if cells is None:
            return
        if any(cell.strip() for cell in cells[len(names) :]):
            yield rows.line_num, ValueError(f"has {len(cells)} cells, the header {len(names)}")
        elif any(cell.strip() for cell in cells):
            yield rows.line_num, dict(reversed(list(zip(names, cells + [""] * len(names), strict=False))))


def parse_table(
    path: pathlib.Path,
    columns: Sequence[str],
    parse_rows: Callable[[Iterable[tuple[str, Mapping[str, str]]]], Iterable[tuple[str, Any]]],
) -> Iterator[tuple[str, Any]]:
    """Yields (name, record or a ValueError) for a table: `parse_rows` makes them from (name, row) pairs.

    Rows that cannot be read come last. Errors as in `read_table`.
    """
    wrong = []

    def list_rows() -> Iterator[tuple[str, Mapping[str, str]]]:
        for number, row in read_table(path, columns):
            if isinstance(row, ValueError):
                wrong.append((f"line-{number}", row))
            else:
                yield f"line-{number}", row

    yield from parse_rows(list_rows())
    yield from wrong


class _RecordedLines:
    """The lines of a text with their line ends, and those since the last call of `forget`."""

    def __init__(self, source: str):
        self._lines, self.recorded = iter(io.StringIO(source, newline="")), []

    def __iter__(self) -> _RecordedLines:
        return self

    def __next__(self) -> str:
        self.recorded.append(next(self._lines))
        return self.recorded[-1]

    def forget(self) -> None:
        self.recorded = []
