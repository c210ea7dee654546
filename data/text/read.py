"""Reads documents from plain-text and JSON-lines files, gzipped or not, as a stream in constant memory."""

from __future__ import annotations

import codecs
import gzip
import json
import os
import pathlib
import zlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

SUFFIXES = (".txt", ".jsonl", ".txt.gz", ".jsonl.gz")
MAX_LINE = 16 << 20  # bytes; a longer line is skipped, so that memory stays bounded
LONG_DOCUMENT = 1 << 20  # bytes; a longer document without blank lines ends at the next line end


class BinaryFile(Protocol):
    """A binary file, gzipped or not."""

    def readline(self, size: int = -1, /) -> bytes: ...


class TextDocument(NamedTuple):
    """A document; if `text` is None, `reason` says why. `line` counts from 1; 0 stands for the file itself."""

    line: int
    text: str | None
    reason: str = ""


def list_files(root: pathlib.Path) -> list[pathlib.Path]:
    """Returns the sorted files of the readable kinds under a folder, or the file itself. Hidden files are skipped."""
    if root.is_file():
        return [root]
    candidates = (path for path in root.rglob("*") if path.name.endswith(SUFFIXES) and path.is_file())
    return sorted(path for path in candidates if not any(p.startswith(".") for p in path.relative_to(root).parts))


def name_below(path: pathlib.Path, root: pathlib.Path) -> str:
    """Returns a file's name below the root, as text even if its bytes are not UTF-8."""
    inner = path.relative_to(root) if path != root else pathlib.Path(path.name)
    return os.fsencode(inner).decode("utf-8", "replace")


def read_file(path: pathlib.Path) -> Iterator[TextDocument]:
    """Yields the documents of a file in order: paragraphs between blank lines, or the "text" of each line's JSON.

    If a gzip file is damaged, the last document reports it; the documents before stay.
    """
    name = path.name.removesuffix(".gz")
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            yield from _read_json_lines(file) if name.endswith(".jsonl") else _read_paragraphs(file)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        yield TextDocument(0, None, "the gzip file is damaged or cut short; the documents before the break are kept")
    except OSError as error:
        yield TextDocument(0, None, f"cannot be read: {error.strerror or error}")


def number_lines(file: BinaryFile) -> Iterator[tuple[int, bytes | None]]:
    """Yields (number from 1, line without its line end, or None if the line is too long)."""
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


def _read_paragraphs(file: BinaryFile) -> Iterator[TextDocument]:
    first, lines, length, reason = 0, [], 0, ""
    for number, line in number_lines(file):
        if line is not None and not line.strip():
            if first:
                yield _make_document(first, lines, reason)
            first, lines, length, reason = 0, [], 0, ""
            continue
        first = first or number
        if line is None:
            reason = f"line {number} is longer than {MAX_LINE >> 20} MiB; break it into lines"
            continue
        lines.append(line)
        length += len(line) + 1
        if length >= LONG_DOCUMENT:
            yield _make_document(first, lines, reason)
            first, lines, length, reason = 0, [], 0, ""
    if first:
        yield _make_document(first, lines, reason)


def _make_document(first: int, lines: list[bytes], reason: str) -> TextDocument:
    if reason:
        return TextDocument(first, None, reason)
    try:
        return TextDocument(first, b"\n".join(lines).decode())
    except UnicodeDecodeError as error:
        line = first + error.object[: error.start].count(b"\n")
        return TextDocument(first, None, f"not UTF-8 on line {line}")


def _read_json_lines(file: BinaryFile) -> Iterator[TextDocument]:
    for number, line in number_lines(file):
        if line is None:
            yield TextDocument(number, None, f"longer than {MAX_LINE >> 20} MiB")
            continue
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
        except UnicodeDecodeError:
            yield TextDocument(number, None, "not UTF-8")
            continue
        except (ValueError, RecursionError):
            yield TextDocument(number, None, "not JSON")
            continue
        text = value.get("text") if isinstance(value, dict) else None
        if isinstance(text, str) and text.strip():
            yield TextDocument(number, text)
        else:
            yield TextDocument(number, None, 'no JSON object with a "text" that is not empty')
