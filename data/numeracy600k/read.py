"""The files of Numeracy-600K: one JSON array of annotated headlines or market comments."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from numjax.errors import DataError, UsageError

from ..files import contents

TEXT_KEY = {"titles": "title", "comments": "comment"}
FILE_STEM = {"titles": "article_title", "comments": "market_comment"}
MAGNITUDES = range(8)


def find_file(path: str, variant: str) -> pathlib.Path:
    """The file of a variant: `path` itself, or the one file under it with the published name's stem.

    Raises:
      DataError: there is none.
      UsageError: there are several.
    """
    root = pathlib.Path(path).expanduser()
    if root.is_file():
        return root
    stem = FILE_STEM[variant]
    found = [file for suffix in ("json", "json.gz") for file in sorted(root.glob(f"*{stem}*.{suffix}"))]
    if not found:
        raise DataError(f"{root}: no *{stem}*.json or .json.gz there; set path to the folder of Numeracy-600K")
    if len(found) > 1:
        names = ", ".join(file.name for file in found)
        raise UsageError(f"{root}: several files for {variant} ({names}); set path to one of them")
    return found[0]


def read_array(path: pathlib.Path) -> Iterator[Any]:
    """The elements of a JSON array in a file, one by one.

    Raises:
      DataError: the file is cut short, empty, not UTF-8, or no JSON array.
    """
    try:
        text = contents(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start}; convert or fetch it again") from None
    place = _skip_space(text, 0)
    if place == len(text):
        raise DataError(f"{path}: the file is empty; fetch it again")
    if text[place] != "[":
        raise DataError(f"{path}: not a JSON array; expected the form of Numeracy-600K")
    decoder = json.JSONDecoder()
    place = _skip_space(text, place + 1)
    while text[place : place + 1] != "]":
        try:
            element, place = decoder.raw_decode(text, place)
        except (json.JSONDecodeError, RecursionError):
            raise DataError(f"{path}: the JSON breaks off or is wrong at character {place}; fetch it again") from None
        yield element
        place = _skip_space(text, place)
        if text[place : place + 1] == ",":
            place = _skip_space(text, place + 1)
        elif text[place : place + 1] != "]":
            raise DataError(f"{path}: the JSON breaks off or is wrong at character {place}; fetch it again")


def check_record(raw: Any, variant: str) -> dict[str, Any]:
    """The fields of one annotated text.

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
    offset, length, magnitude = (_integer(raw, name) for name in ("offset", "length", "magnitude"))
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


def _integer(raw: Mapping[str, Any], name: str) -> int:
    value = raw.get(name)
    if isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"has no whole number {name!r}")
    return value


def _skip_space(text: str, place: int) -> int:
    while place < len(text) and text[place] in " \t\r\n":
        place += 1
    return place
