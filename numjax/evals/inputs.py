"""What a user gives to predict or to continue: records or prompts a line, or a file that the task can read."""

from __future__ import annotations

import io
import json
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from numjax.errors import DataError, UsageError
from numjax.runtime import files, processes

STDIN = "-"
Found = Sequence[tuple[str, dict[str, Any] | ValueError]]


def records(task: Any, given: str) -> Found:
    """(id, record; or what is wrong with it) of each record of a file, "-" for stdin: of a kind that the task reads
    (`from_file`), else a JSON object a line.

    Raises:
      UsageError: it cannot be read, or there is no record in it.
    """
    _there(given)
    if given != STDIN and (of_own := task.from_file(given)) is not None:
        found = list(of_own)
    else:
        found = list(_parsed(lines(given)))
        if found and all(isinstance(record, ValueError) for _, record in found):
            forms = "".join(f", or {form}" for form in task.file_forms)
            raise UsageError(f"--input={given}: no record: {found[0][1]}; give a JSON object a line{forms}")
    if not found:
        raise UsageError(f"--input={given}: it holds no record")
    return found


def sorted_out(found: Found, strict: bool) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """(records, those left out); under `strict` the first that is no record is an error."""
    good, skipped = [], []
    for name, record in found:
        if not isinstance(record, ValueError):
            good.append(record)
        elif strict:
            raise DataError(f"{name}: {record}")
        else:
            skipped.append({"id": name, "split": "input", "reason": str(record)})
    return good, skipped


def lines(given: str) -> list[str]:
    """The lines of a file, packed or not, or of stdin ("-"), without those that are empty.

    Raises:
      UsageError: it cannot be read.
    """
    if given == STDIN:
        # Only the first process has somebody who writes to it.
        data = processes.from_first(sys.stdin.buffer.read() if jax.process_index() == 0 else b"")
    else:
        _there(given)
        try:
            data = files.contents(pathlib.Path(given))
        except DataError as error:
            raise UsageError(f"cannot read --input={error}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read --input={given}: not UTF-8 at byte {error.start}; convert it") from None
    # Texts in JSON may hold what else Unicode counts as the end of a line.
    return [line.rstrip("\n") for line in io.StringIO(text, newline=None) if line.strip()]


def _there(given: str) -> None:
    path = pathlib.Path(given)
    if given != STDIN and (path.is_dir() or not path.exists()):
        raise UsageError(
            f"cannot read --input={given}: {'it is a folder' if path.is_dir() else 'there is no such file'}"
        )


def _parsed(rows: Sequence[str]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    for number, line in enumerate(rows, 1):
        name = f"input-{number}"
        try:
            found = json.loads(line)
        except json.JSONDecodeError as error:
            yield name, ValueError(f"line {number} is not a JSON object: {error}")
        except (ValueError, RecursionError):
            yield name, ValueError(f"line {number} is not a JSON object: a number or its nesting is endless")
        else:
            if isinstance(found, dict):
                yield name, {"id": name} | found
            else:
                yield name, ValueError(f"line {number} is not a JSON object: it is {line[:40]!r}")
