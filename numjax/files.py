"""Small files that are there whole or not at all, what a full disk says, and files of people's own, packed or not."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
import pathlib
import zlib
from collections.abc import Iterable, Iterator

from numjax.errors import DataError, UsageError

# Nothing is wrong with the program: somebody has to make room, or mend the disk.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}


def write(path: pathlib.Path, content: str | bytes | Iterable[str]) -> None:
    """Writes the whole file or nothing: a kill or a full disk leaves what was there. Makes its folder.

    Args:
      content: text, bytes, or pieces of text to write one by one.

    Raises:
      OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".tmp")
    try:
        if isinstance(content, bytes):
            fresh.write_bytes(content)
        else:
            with fresh.open("w", encoding="utf-8") as file:
                file.writelines([content] if isinstance(content, str) else content)
        fresh.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


@contextlib.contextmanager
def readable(path: pathlib.Path) -> Iterator[None]:
    """What goes wrong while a file is read, also a .gz.

    Raises:
      DataError: it cannot be read or is damaged.
    """
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: the gzip file is damaged or cut short; fetch it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def contents(path: pathlib.Path) -> bytes:
    """A file's bytes, unpacked where it is a .gz. Errors as in `readable`."""
    with readable(path):
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data


class Appended:
    """A file that grows: what was added is with the system when `add` returns, and no later write can fail."""

    def __init__(self, path: pathlib.Path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._path = path

    def add(self, content: bytes) -> None:
        """Appends.

        Raises:
          OSError: the disk is full; a part may have been written.
        """
        while content:
            try:
                content = content[os.write(self._file, content) :]
            except OSError as error:
                raise OSError(error.errno, error.strerror, str(self._path)) from error

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


@contextlib.contextmanager
def room(folder: pathlib.Path) -> Iterator[None]:
    """A disk that is full, or that fails, is said in a line.

    Raises:
      UsageError: something could not be written.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise UsageError(
            f"cannot write {error.filename or folder} ({error.strerror}): make room and run the same command to go "
            "on; the checkpoints are kept"
        ) from error


def digest(content: bytes) -> str:
    """Sixteen hexadecimal digits that change with the content."""
    return hashlib.sha256(content).hexdigest()[:16]
