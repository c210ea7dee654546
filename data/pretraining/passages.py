"""Passages of running text: documents cut at blanks, again and again until there are as many as wanted."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Sequence

from numjax.errors import DataError

from ..text.read import name_below, read_file

WORDS = 32  # of a passage at most
FEWEST = 8  # words; a shorter rest of a document is left out


def list_passages(
    files: Sequence[pathlib.Path], root: pathlib.Path, skip: Callable[[str, str], None] | None = None
) -> Iterator[tuple[str, str]]:
    """Yields (id, passage) of all files; the words of a passage are separated by single blanks.

    Args:
      skip: called with the id of a document that cannot be read, and the reason.
    """
    for path in files:
        name = name_below(path, root)
        for line, text, reason in read_file(path):
            if text is None:
                if skip is not None:
                    skip(f"{name}:{line}" if line else name, reason)
                continue
            words = text.split()
            for start in range(0, len(words), WORDS):
                if len(part := words[start : start + WORDS]) >= FEWEST:
                    yield f"{name}:{line}:{start}", " ".join(part)


def repeat_passages(
    passages: Callable[[], Iterator[tuple[str, str]]], count: int, split: str
) -> Iterator[tuple[str, str]]:
    """Yields `count` passages: all of them again and again, and the last time passages at equal distances.

    An id ends with the number of the pass, so that a passage has other gaps in each.

    Args:
      passages: of a split; starts at the first passage at each call.

    Raises:
      DataError: there are none.
    """
    total = sum(1 for _ in passages())
    if not total and count:
        raise DataError(
            f"pretraining: no passage of {FEWEST} words or more is in {split}: set path to a folder with more text"
        )
    passes = 0
    while count > 0:
        taken = min(count, total)
        for index, (name, passage) in enumerate(passages()):
            if (index + 1) * taken // total > index * taken // total:
                yield f"{name}#{passes}", passage
        count -= taken
        passes += 1
