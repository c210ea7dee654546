"""Loads the user's input: a record or prompt a line, or a file in a format that the task reads."""

from __future__ import annotations

import io
import json
import os
import pathlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import jax

from numjax.errors import DataError, UsageError
from numjax.runtime import files, processes

STDIN = "-"
InputRecords = Sequence[tuple[str, dict[str, Any] | ValueError]]


def load_records(task: Any, input_path: str) -> InputRecords:
    """(id, record or a ValueError that says what is wrong with it) of each record of a file, "-" for stdin. The task
    reads its own formats (`from_file`); any other file has a JSON object a line.

    Raises:
      UsageError: the file cannot be read, or it has no record.
    """
    _check_exists(input_path)
    if input_path != STDIN and (task_records := task.from_file(input_path)) is not None:
        records = list(task_records)
    else:
        records = list(_parse_lines(number_lines(input_path)))
        if records and all(isinstance(record, ValueError) for _, record in records):
            forms = "".join(f", or {form}" for form in task.file_forms)
            raise UsageError(f"--input={input_path}: no record: {records[0][1]}; give a JSON object a line{forms}")
    if not records:
        raise UsageError(f"--input={input_path}: it holds no record")
    return records


def split_valid(records: InputRecords, strict: bool) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """(valid records, skipped ones as {"id", "split", "reason"}); with `strict` the first invalid one is an error."""
    valid, skipped = [], []
    for name, record in records:
        if not isinstance(record, ValueError):
            valid.append(record)
        elif strict:
            raise DataError(f"{name}: {record}")
        else:
            skipped.append({"id": name, "split": "input", "reason": str(record)})
    return valid, skipped


def read_lines(input_path: str) -> list[str]:
    """The lines of a file, packed or not, or of stdin ("-"), without empty ones. Errors as in `number_lines`."""
    return [line for _, line in number_lines(input_path)]


def number_lines(input_path: str) -> list[tuple[int, str]]:
    """(line number, line) of the same.

    Raises:
      UsageError: the file cannot be read.
    """
    if input_path == STDIN:
        # Only the first process has input on stdin.
        content = processes.broadcast_bytes(sys.stdin.buffer.read() if jax.process_index() == 0 else b"")
    else:
        _check_exists(input_path)
        try:
            content = files.read_bytes(pathlib.Path(input_path))
        except DataError as error:
            raise UsageError(f"cannot read --input={error}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"cannot read --input={input_path}: not UTF-8 at byte {error.start}; convert it") from None
    # Do not use splitlines: texts in JSON may contain other line ends of Unicode.
    lines = enumerate(io.StringIO(text, newline=None), 1)
    return [(number, line.rstrip("\n")) for number, line in lines if line.strip()]


def _check_exists(input_path: str) -> None:
    # `pathlib` raises for a name that is too long, such as a record in place of a file.
    is_folder = os.path.isdir(input_path)
    if input_path != STDIN and (is_folder or not os.path.exists(input_path)):
        raise UsageError(
            f"cannot read --input={input_path}: {'it is a folder' if is_folder else 'there is no such file'}"
        )


def _parse_lines(rows: Sequence[tuple[int, str]]) -> Iterator[tuple[str, dict[str, Any] | ValueError]]:
    for number, line in rows:
        name = f"input-{number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            yield name, ValueError(f"line {number} is not a JSON object: {error}")
        except (ValueError, RecursionError):
            yield name, ValueError(f"line {number} is not a JSON object: a number or its nesting is endless")
        else:
            if isinstance(record, dict):
                yield name, {"id": name} | record
            else:
                yield name, ValueError(f"line {number} is not a JSON object: it is {line[:40]!r}")
