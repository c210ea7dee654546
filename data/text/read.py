"""Documents of plain text and JSON-lines files, gzipped or not. Streaming, constant memory."""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import pathlib
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

SUFFIXES = (".txt", ".jsonl", ".txt.gz", ".jsonl.gz")
MAX_LINE = 16 << 20  # bytes; a longer line is left out, so that memory stays bounded
LONG_DOCUMENT = 1 << 20  # bytes; a document without blank lines ends at the first line end beyond


class Piece(NamedTuple):
    """A document, or where `text` is None why there is none; `line` counts from 1, 0 is the file itself."""

    line: int
    text: str | None
    reason: str = ""


def list_files(root: pathlib.Path) -> list[pathlib.Path]:
    """The readable kinds of files under a folder, or the file itself; hidden ones are left out. Sorted."""
    if root.is_file():
        return [root]
    found = (path for path in root.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file())
    return sorted(path for path in found if not any(p.startswith(".") for p in path.relative_to(root).parts))


def label(path: pathlib.Path, root: pathlib.Path) -> str:
    """A file's name below the root, as text whatever its bytes are."""
    inner = path.relative_to(root) if path != root else pathlib.Path(path.name)
    return os.fsencode(inner).decode("utf-8", "replace")


def read_file(path: pathlib.Path) -> Iterator[Piece]:
    """The documents of a file in order: paragraphs between blank lines, or a JSON object's "text" a line.

    What precedes a break in a damaged gzip file is kept; the break is one more piece.
    """
    name = path.name.removesuffix(".gz")
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            yield from _json_lines(file) if name.endswith(".jsonl") else _paragraphs(file)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield Piece(0, None, "the gzip file is damaged or cut short; the documents before the break are kept")
    except OSError as error:
        yield Piece(0, None, f"cannot be read: {error.strerror or error}")


def numbered(file: IO[bytes] | io.BufferedIOBase) -> Iterator[tuple[int, bytes | None]]:
    """(number from 1, line without its end, or None where it is too long)."""
    number = 0
    while line := file.readline(MAX_LINE + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(codecs.BOM_UTF8)
        if len(line) > MAX_LINE and not line.endswith(b"\n"):
            while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                pass
            yield number, None
        else:
            yield number, line.rstrip(b"\r\n")


def _paragraphs(file: IO[bytes] | io.BufferedIOBase) -> Iterator[Piece]:
    first, lines, length, reason = 0, [], 0, ""
    for number, line in numbered(file):
        if line is not None and not line.strip():
            if first:
                yield _piece(first, lines, reason)
            first, lines, length, reason = 0, [], 0, ""
            continue
        first = first or number
        if line is None:
            reason = f"line {number} is longer than {MAX_LINE >> 20} MiB; break it into lines"
            continue
        lines.append(line)
        length += len(line) + 1
        if length >= LONG_DOCUMENT:
            yield _piece(first, lines, reason)
            first, lines, length, reason = 0, [], 0, ""
    if first:
        yield _piece(first, lines, reason)


def _piece(first: int, lines: list[bytes], reason: str) -> Piece:
    if reason:
        return Piece(first, None, reason)
    try:
        return Piece(first, b"\n".join(lines).decode())
    except UnicodeDecodeError as error:
        line = first + error.object[: error.start].count(b"\n")
        return Piece(first, None, f"not UTF-8 on line {line}")


def _json_lines(file: IO[bytes] | io.BufferedIOBase) -> Iterator[Piece]:
    for number, line in numbered(file):
        if line is None:
            yield Piece(number, None, f"longer than {MAX_LINE >> 20} MiB")
            continue
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except UnicodeDecodeError:
            yield Piece(number, None, "not UTF-8")
            continue
        except (ValueError, RecursionError):
            yield Piece(number, None, "not JSON")
            continue
        text = value.get("text") if isinstance(value, dict) else None
        if isinstance(text, str) and text.strip():
            yield Piece(number, text)
        else:
            yield Piece(number, None, 'no JSON object with a "text" that is not empty')
