"""The files of Numeracy-600K: one JSON array of annotated headlines or market comments."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError

from .. import files

TEXT_KEY = {"titles": "title", "comments": "comment"}
FILE_STEM = {"titles": "article_title", "comments": "market_comment"}
MAGNITUDES = range(8)


def find_file(path: str, variant: str) -> pathlib.Path:
    """Finds the file of a variant: `path` itself, or the one file under it with the published name's stem.

    Raises:
      DataError: there is none.
      UsageError: there are several.
    """
    stem = FILE_STEM[variant]
    return files.find_one(path, [f"*{stem}*.json", f"*{stem}*.json.gz"], "set path to the folder of Numeracy-600K")


def read_array(path: pathlib.Path) -> Iterator[Any]:
    """Yields the elements of a JSON array in a file, one by one.

    Raises:
      DataError: the file is truncated, empty, not UTF-8, or no JSON array.
    """
    text = files.read_text(path)
    index = _skip_space(text, 0)
    if text[index] != "[":
        raise DataError(f"{path}: not a JSON array; expected the form of Numeracy-600K")
    decoder = json.JSONDecoder()
    index = _skip_space(text, index + 1)
    while text[index : index + 1] != "]":
        try:
            element, index = decoder.raw_decode(text, index)
        except (json.JSONDecodeError, RecursionError):
            raise DataError(f"{path}: the JSON breaks off or is wrong at character {index}; fetch it again") from None
        yield element
        index = _skip_space(text, index)
        if text[index : index + 1] == ",":
            index = _skip_space(text, index + 1)
        elif text[index : index + 1] != "]":
            raise DataError(f"{path}: the JSON breaks off or is wrong at character {index}; fetch it again")


def check_record(raw: Any, variant: str) -> dict[str, Any]:
    """Checks one annotated text and returns its fields.

    Returns:
      text, number (as written at the offset), offset, length, magnitude, source_id, publish_date, story.

    Raises:
      ValueError: why the record cannot be used.
    """
    if not isinstance(raw, Mapping):
        raise ValueError("is not a JSON object")
    key = TEXT_KEY[variant]
    text = raw.get(key)
    if not isinstance(text, str) or not text:
        raise ValueError(f"has no {key!r} (the public annotations of market comments come without the text)")
    offset, length, magnitude = (_require_integer(raw, name) for name in ("offset", "length", "magnitude"))
    if offset < 0 or length < 1 or offset + length > len(text):
        raise ValueError(f"offset {offset} and length {length} lie outside a text of {len(text)} characters")
    number = text[offset : offset + length]
    stated = raw.get("number")
    if stated is not None and str(stated) != number:
        raise ValueError(f"text[{offset}:{offset + length}] is {number!r}, but the number is {str(stated)!r}")
    if not any(character.isdigit() for character in number):
        raise ValueError(f"text[{offset}:{offset + length}] is {number!r}: not a number")
    if magnitude not in MAGNITUDES:
        raise ValueError(f"magnitude {magnitude} is not from 0 to 7")
    return dict(
        text=text,
        number=number,
        offset=offset,
        length=length,
        magnitude=magnitude,
        source_id=str(raw.get("id", "")),
        publish_date=str(raw.get("publish_date") or ""),
        story=str(raw.get("UNIQUE_STORY_INDEX") or ""),
    )


def _require_integer(raw: Mapping[str, Any], name: str) -> int:
    value = raw.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"has no whole number {name!r}")
    return value


def _skip_space(text: str, index: int) -> int:
    while index < len(text) and text[index] in " \t\r\n":
        index += 1
    return index
