"""Vectors of numbers and number words from GloVe and word2vec text files, one word a line: `word v1 v2 … vD`.

word2vec's first line says how many words there are and how wide (`400000 300`); GloVe has none. Every row is checked
for its width and for what is no number; only rows of numerals ("7", "1,000", "-3.5") and of number words ("seven",
"twenty-five") are kept, so files of millions of words fit.
"""

from __future__ import annotations

import gzip
import itertools
import pathlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from numjax.errors import DataError
from numjax.numeral import words
from numjax.numeral.surface import take_apart
from numjax.runtime import files

_IN_NUMBERS = b"0123456789.eE+- "
# How number words begin, scale words included: a cheap look before they are read.
_BEGIN = tuple("ze no on tw th fo fi si se ei ni te el hu mi bi tr qu".split())


class Table(NamedTuple):
    """Vectors by word.

    Attributes:
      row: word → row. vectors: float64[N, D]. words: rows of the file. repeated: words that came again, left out.
    """

    row: dict[str, int]
    vectors: np.ndarray
    words: int
    repeated: int


def is_number(word: str) -> bool:
    """Whether a word is one numeral, in digits or in words."""
    if word[:1] in "0123456789+-.\u2212($€£¥" and word:
        return take_apart(word) is not None
    if not word.casefold().startswith(_BEGIN):
        return False
    found = words.find(word)
    return len(found) == 1 and found[0].text == word


def read(path: str | pathlib.Path, keep: Callable[[str], bool] = is_number) -> Table:
    """The vectors of a text file, also of a .gz, for the words that `keep` accepts.

    Raises:
      DataError: the file cannot be read, is empty, in word2vec's binary form, cut short, or has a bad row, whose line
        is named.
    """
    path = pathlib.Path(path).expanduser()
    rows, kept, count, repeated = {}, [], 0, 0
    width = promised = None
    for number, line, header in _told(path):
        if header is not None:
            promised, width = header
            continue
        if width is None:
            width = line.count(b" ")
            if not width:
                raise _bad(path, number, "no vector: GloVe and word2vec text files have `word v1 v2 …` a line")
        # From the right: a few words of GloVe 840B have blanks.
        parts = line.rsplit(b" ", width)
        if len(parts) <= width or not parts[0]:
            raise _bad(path, number, f"{line.count(b' ')} numbers after the word, not {width}")
        if wrong := line[len(parts[0]) :].translate(None, _IN_NUMBERS):
            raise _bad(path, number, f"{_no_number(parts[1:])} is no number" + _binary(wrong))
        count += 1
        word = parts[0].decode("utf-8", errors="replace")
        if _number_behind(word):
            raise _bad(path, number, f"{line.count(b' ')} numbers after the word, not {width}")
        if not keep(word):
            continue
        if word in rows:
            repeated += 1
            continue
        try:
            vector = np.array(parts[1:], np.float64)
        except ValueError:
            raise _bad(path, number, f"{_no_number(parts[1:])} is no number") from None
        if not np.isfinite(vector).all():
            raise _bad(path, number, "a number beyond every float")
        rows[word] = len(kept)
        kept.append(vector)
    if not count:
        raise DataError(f"{path}: no vectors; give a GloVe or word2vec text file, `word v1 v2 …` a line")
    if promised is not None and promised != count:
        raise DataError(f"{path}: {count} rows, but its first line promises {promised}: cut short? Fetch it again")
    vectors = np.stack(kept) if kept else np.zeros((0, width or 0))
    return Table(rows, vectors, count, repeated)


def _lines(path: pathlib.Path) -> Iterator[bytes]:
    with files.readable(path), gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
        for line in file:
            yield line.replace(b"\t", b" ").rstrip(b"\r\n ")


def _told(path: pathlib.Path) -> Iterator[tuple[int, bytes, tuple[int, int] | None]]:
    """(number, line, word2vec's count and width if it is its first line) of every line."""
    lines = enumerate(_lines(path), 1)
    begin = list(itertools.islice(lines, 2))
    header = _header(begin[0][1]) if begin else None
    # "7 7" may also be a number and its only coordinate, as the line behind it then is.
    if len(begin) > 1 and header and header[1] != 1 and begin[1][1].count(b" ") == 1:
        header = None
    for number, line in itertools.chain(begin, lines):
        yield number, line, header if number == 1 else None


def _number_behind(word: str) -> bool:
    """Whether a word with blanks, of which GloVe 840B has some, is rather a word and numbers too many."""
    if " " not in word:
        return False
    try:
        list(map(float, word.split(" ")[1:]))
    except ValueError:
        return False
    return True


def _header(line: bytes) -> tuple[int, int] | None:
    parts = line.split()
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 and all(p.isdigit() for p in parts) else None


def _bad(path: pathlib.Path, number: int, what: str) -> DataError:
    return DataError(f"{path}, line {number}: {what}; mend the row or leave it out")


def _no_number(parts: list[bytes]) -> str:
    for part in parts:
        try:
            float(part)
        except ValueError:
            return repr(part[:20].decode("utf-8", errors="replace"))
        if part.translate(None, _IN_NUMBERS):  # nan, inf, 1_000
            return repr(part[:20].decode())
    return "a value"


def _binary(wrong: bytes) -> str:
    return " (word2vec's binary form? save it as text)" if any(b < 9 or b > 126 for b in wrong) else ""
