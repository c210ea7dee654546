"""Small files that are there whole or not at all, locks between processes, what a full disk says, and files of
people's own, packed or not."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import hashlib
import math
import os
import pathlib
import sys
import time
import zlib
from collections.abc import Iterable, Iterator

from numjax.errors import DataError, UsageError

# Nothing is wrong with the program: somebody has to make room, or mend the disk.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
# What network file systems say that are mounted without locks.
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


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
def locked(path: pathlib.Path, held: str, wait: float = math.inf) -> Iterator[None]:
    """Holds a lock between processes; the system frees it when its holder dies. Makes the file and its folder.

    Where the file system has no locks it goes on without, and says so.

    Args:
      held: what is said when another process holds it: "another process builds mme".
      wait: seconds until it is given up.

    Raises:
      OSError: the file cannot be made.
      UsageError: another process holds it still.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        end, waiting = time.monotonic() + wait, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise UsageError(held) from None
                if not waiting:
                    limit = f"at most {wait:.0f} seconds " if math.isfinite(wait) else ""
                    print(f"{held}: waiting {limit}for it to end", file=sys.stderr, flush=True)
                    waiting = True
                time.sleep(0.2)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                told = f"{path}: the file system has no locks ({error.strerror}): let no other process write there"
                print(told, file=sys.stderr, flush=True)
                break
        yield


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


def without_surrogates(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, so that it has a UTF-8 form."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
