"""Small files that are written whole or not at all, locks between processes, errors of a full disk, and the user's
own files, packed or not."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gzip
import hashlib
import json
import math
import os
import pathlib
import sys
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from numjax.errors import DataError, UsageError

# Errors that are not the program's: the user must make room or repair the disk.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO}
# Errors of network file systems that are mounted without locks.
_NO_LOCKS = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS}


def write(path: pathlib.Path, content: str | bytes | Iterable[str]) -> None:
    """Writes the whole file or nothing: a kill or a full disk leaves the old file. Makes the folder.
    Of processes that write one file at the same time, one's content is there whole.

    Args:
      content: text, bytes, or pieces of text to write one by one.

    Raises:
      OSError: the file cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        if isinstance(content, bytes):
            fresh.write_bytes(content)
        else:
            with fresh.open("w", encoding="utf-8") as file:
                file.writelines([content] if isinstance(content, str) else content)
        fresh.replace(path)
    except BaseException:  # also of the pieces, or Ctrl-C
        with contextlib.suppress(OSError):
            fresh.unlink()
        raise


@contextlib.contextmanager
def hold_lock(path: pathlib.Path, busy_message: str, wait: float = math.inf) -> Iterator[None]:
    """Holds a lock between processes; the system frees it when its holder dies. Makes the file and its folder.

    If the file system has no locks, it prints a warning and goes on without a lock.

    Args:
      busy_message: the message if another process holds the lock: "another process builds mme".
      wait: seconds to wait for the lock.

    Raises:
      OSError: the file cannot be made.
      UsageError: another process still holds the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        end, is_waiting = time.monotonic() + wait, False
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= end:
                    raise UsageError(busy_message) from None
                if not is_waiting:
                    limit = f"at most {wait:.0f} seconds " if math.isfinite(wait) else ""
                    print(f"{busy_message}: waiting {limit}for it to end", file=sys.stderr, flush=True)
                    is_waiting = True
                time.sleep(0.2)
            except OSError as error:
                if error.errno not in _NO_LOCKS:
                    raise
                message = f"{path}: the file system has no locks ({error.strerror}): let no other process write there"
                print(message, file=sys.stderr, flush=True)
                break
        yield


@contextlib.contextmanager
def report_read_errors(path: pathlib.Path) -> Iterator[None]:
    """Turns the errors of reading a file, also a .gz, into a DataError.

    Raises:
      DataError: the file cannot be read or is damaged.
    """
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise DataError(f"{path}: the gzip file is damaged or cut short; fetch it again") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def read_bytes(path: pathlib.Path) -> bytes:
    """A file's bytes, unpacked if it is a .gz. Errors as in `report_read_errors`."""
    with report_read_errors(path):
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON text.

    Raises:
      ValueError: it is no JSON, or too deeply nested.
    """
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("its nesting is too deep") from None


def check_name(name: Any) -> str:
    """The name of a file that another file names, if it leads to the folder of both.

    Raises:
      ValueError: it is no plain name but a path, such as ../x.
    """
    if not isinstance(name, str) or "\0" in name or name in ("", "..") or pathlib.PurePath(name).name != name:
        raise ValueError(f"{name!r:.80} is not the name of a file in the same folder")
    return name


class AppendOnlyFile:
    """A file to append to. When `add` returns, the system has the content, so no later write can fail for it."""

    def __init__(self, path: pathlib.Path):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._path = path

    def add(self, content: bytes) -> None:
        """Appends the content.

        Raises:
          OSError: the disk is full; a part may be written.
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
def report_full_disk(folder: pathlib.Path) -> Iterator[None]:
    """Turns the errors of a full or failing disk into a UsageError with a message of one line.

    Raises:
      UsageError: a file could not be written.
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
    """A digest of the content, sixteen hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:16]


def replace_surrogates(text: str) -> str:
    """The text with lone surrogates replaced by U+FFFD, so that it has a UTF-8 form."""
    try:
        text.encode("utf-8")
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
