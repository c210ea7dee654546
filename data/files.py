"""Reading source files, also .gz: what is wrong with one is one line."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import pathlib
import zlib
from collections.abc import Iterator

from numjax.errors import DataError


@contextlib.contextmanager
def readable(path: pathlib.Path) -> Iterator[None]:
    """What goes wrong while a file is read.

    Raises:
      DataError: it is damaged, or cannot be read.
    """
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: the gzip file is damaged or cut short; fetch it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def contents(path: pathlib.Path) -> bytes:
    """A whole file, unzipped. Errors as in `readable`."""
    with readable(path):
        data = path.read_bytes()
        return gzip.decompress(data) if path.name.endswith(".gz") else data


def lines(path: pathlib.Path) -> Iterator[bytes]:
    """A file's lines without their ends, one after the other. Errors as in `readable`."""
    with readable(path), gzip.open(path, "rb") if path.name.endswith(".gz") else open(path, "rb") as file:
        for number, line in enumerate(file):
            yield (line if number else line.removeprefix(codecs.BOM_UTF8)).rstrip(b"\r\n")
