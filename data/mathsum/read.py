"""The files of OFEQ-10k and EXEQ-300k: post.X and title.X, one question per line, its headline on the same line."""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from numjax.errors import DataError, UsageError
from numjax.expr.prose.wrap import CLOSE, OPEN
from numjax.text.document.marked import FORMULA

from ..files import read_lines

# Our names of the splits → the files' names.
FILES = {"train": "train", "validation": "val", "test": "test"}
SIGNS = {"LRB": "(", "RRB": ")", "LSB": "[", "RSB": "]", "LCB": "{", "RCB": "}"}

_MARK = re.compile(r"</?m>")
_NAME = re.compile(rf"-({'|'.join(SIGNS)})-")
_QUOTE = re.compile(r"(?<!\S)(?:``|'')(?!\S)")


class Pair(NamedTuple):
    """A line of both files, counted from 1; a text is None if it is not UTF-8."""

    line: int
    post: str | None
    title: str | None


class Region(NamedTuple):
    """A part of a headline that a model should write, and the headline before it."""

    prefix: str
    headline: str


def find_files(path: str) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """Split → (its questions, its headlines), of those that have both, in the order train, validation, test.

    Raises:
      DataError: there are none.
      UsageError: a file exists twice, zipped and unzipped.
    """
    root = pathlib.Path(path).expanduser()
    files: dict[str, tuple[pathlib.Path, pathlib.Path]] = {}
    for split, name in FILES.items():
        paths = [_find(root, f"{kind}.{name}") for kind in ("post", "title")]
        if paths[0] is not None and paths[1] is not None:
            files[split] = paths[0], paths[1]
    if not files:
        raise DataError(
            f"{root}: no post.train and title.train (.val, .test, also .gz) there; set path to their folder"
        )
    return files


def _find(root: pathlib.Path, name: str) -> pathlib.Path | None:
    paths = [path for path in (root / name, root / f"{name}.gz") if path.is_file()]
    if len(paths) > 1:
        raise UsageError(f"{root}: both {name} and {name}.gz are there; keep one of them")
    return paths[0] if paths else None


def read_pairs(posts: pathlib.Path, titles: pathlib.Path) -> Iterator[Pair]:
    """Yields the lines of both files in pairs.

    Raises:
      DataError: one has more lines than the other, or is damaged.
    """
    for line, (post, title) in enumerate(itertools.zip_longest(read_lines(posts), read_lines(titles)), 1):
        if post is None or title is None:
            shorter, longer = (posts, titles) if post is None else (titles, posts)
            raise DataError(
                f"{shorter} ends after line {line - 1} and {longer.name} does not: both need the same number of lines"
            )
        yield Pair(line, _decode(post), _decode(title))


def find_fault(name: str, text: str | None) -> str:
    """Why a line cannot be used; empty if it can."""
    if text is None:
        return f"the {name} is not UTF-8"
    if not text.strip():
        return f"has no {name}"
    depth = 0
    for mark in _MARK.findall(text):
        depth += 1 if mark == OPEN else -1
        if depth not in (0, 1):
            return f"the {name} has a {mark} {'inside a formula' if depth > 0 else 'without its <m>'}"
    return f"the {name} has a {OPEN} without its {CLOSE}" if depth else ""


def restore_signs(text: str) -> str:
    """Outside formulas, turns -LRB- and the like into brackets, `` and '' into quotation marks, token by token."""
    out, end = [], 0
    for match in [*FORMULA.finditer(text), None]:
        plain = text[end : match.start() if match else len(text)]
        out.append(_QUOTE.sub('"', _NAME.sub(lambda name: SIGNS[name[1]], plain)))
        if match:
            out.append(match[0])
            end = match.end()
    return "".join(out)


def find_regions(title: str, kind: str) -> Iterator[Region]:
    """Yields the whole headline ("all"), each formula of it, or each text after a formula. prefix + headline is the
    headline up to the region's end."""
    if kind == "all":
        yield Region("", title)
        return
    matches = list(FORMULA.finditer(title))
    for match, next_match in zip(matches, [*matches[1:], None], strict=False):
        start, end = (
            match.span() if kind == "formula" else (match.end(), next_match.start() if next_match else len(title))
        )
        if title[start:end].strip():
            yield Region(title[:start], title[start:end])


def _decode(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
