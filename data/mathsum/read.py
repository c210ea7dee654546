"""The files of OFEQ-10k and EXEQ-300k: post.X and title.X, a question a line and its headline on the same line."""

from __future__ import annotations

import itertools
import pathlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from numjax.errors import DataError, UsageError
from numjax.expr.wrap import CLOSE, OPEN
from numjax.text.marked import FORMULA

from ..files import lines

# Our names of the files' splits.
FILES = {"train": "train", "validation": "val", "test": "test"}
SIGNS = {"LRB": "(", "RRB": ")", "LSB": "[", "RSB": "]", "LCB": "{", "RCB": "}"}

_MARK = re.compile(r"</?m>")
_NAME = re.compile(rf"-({'|'.join(SIGNS)})-")
_QUOTE = re.compile(r"(?<!\S)(?:``|'')(?!\S)")


class Pair(NamedTuple):
    """A line of both files, counted from 1; a text is None where it is not UTF-8."""

    line: int
    post: str | None
    title: str | None


class Region(NamedTuple):
    """A part of a headline to be written, and all that goes before it."""

    prefix: str
    headline: str


def find_files(path: str) -> dict[str, tuple[pathlib.Path, pathlib.Path]]:
    """Split → (its questions, its headlines), of those that have both, in the order train, validation, test.

    Raises:
      DataError: there are none.
      UsageError: a file is there twice, zipped and not.
    """
    root = pathlib.Path(path).expanduser()
    found: dict[str, tuple[pathlib.Path, pathlib.Path]] = {}
    for split, name in FILES.items():
        both = [_find(root, f"{kind}.{name}") for kind in ("post", "title")]
        if both[0] is not None and both[1] is not None:
            found[split] = both[0], both[1]
    if not found:
        raise DataError(
            f"{root}: no post.train and title.train (.val, .test, also .gz) there; set path to their folder"
        )
    return found


def _find(root: pathlib.Path, name: str) -> pathlib.Path | None:
    found = [path for path in (root / name, root / f"{name}.gz") if path.is_file()]
    if len(found) > 1:
        raise UsageError(f"{root}: both {name} and {name}.gz are there; keep one of them")
    return found[0] if found else None


def pairs(posts: pathlib.Path, titles: pathlib.Path) -> Iterator[Pair]:
    """The lines of both files side by side.

    Raises:
      DataError: one has more lines than the other, or is damaged.
    """
    for line, (post, title) in enumerate(itertools.zip_longest(lines(posts), lines(titles)), 1):
        if post is None or title is None:
            short, other = (posts, titles) if post is None else (titles, posts)
            raise DataError(f"{short} ends after line {line - 1} and {other.name} does not: they belong line to line")
        yield Pair(line, _text(post), _text(title))


def fault_of(name: str, text: str | None) -> str:
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


def with_signs(text: str) -> str:
    """Outside formulas, -LRB- and the like as brackets, `` and '' as quotation marks: a token stays a token."""
    out, end = [], 0
    for found in [*FORMULA.finditer(text), None]:
        plain = text[end : found.start() if found else len(text)]
        out.append(_QUOTE.sub('"', _NAME.sub(lambda name: SIGNS[name[1]], plain)))
        if found:
            out.append(found[0])
            end = found.end()
    return "".join(out)


def regions(title: str, kind: str) -> Iterator[Region]:
    """The whole headline ("all"), each formula of it, or each text that follows a formula. prefix + headline is the
    headline so far."""
    if kind == "all":
        yield Region("", title)
        return
    found = list(FORMULA.finditer(title))
    for this, following in zip(found, [*found[1:], None], strict=False):
        first, end = (
            this.span() if kind == "formula" else (this.end(), following.start() if following else len(title))
        )
        if title[first:end].strip():
            yield Region(title[:first], title[first:end])


def _text(line: bytes) -> str | None:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return None
