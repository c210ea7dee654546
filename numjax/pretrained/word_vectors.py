"""Vectors of numbers and number words from GloVe and word2vec text files, one word a line: `word v1 v2 … vD`.

word2vec's first line has the count of words and the width (`400000 300`); GloVe has no such line. Every row is
checked: its width, and that all values are numbers. Only rows of numerals ("7", "1,000", "-3.5") and of number words
("seven", "twenty-five") are kept, so files with millions of words fit in memory.
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

_NUMBER_BYTES = b"0123456789.eE+- "
# The first letters of number words and scale words: a cheap check before parsing.
_WORD_STARTS = tuple("ze no on tw th fo fi si se ei ni te el hu mi bi tr qu".split())


class Table(NamedTuple):
    """Vectors by word.

    Attributes:
      row: word → row of `vectors`. vectors: float64[N, D]. n_words: rows of the file. n_repeated: rows of words that
        an earlier row has; they are left out.
    """

    row: dict[str, int]
    vectors: np.ndarray
    n_words: int
    n_repeated: int


def is_number(word: str) -> bool:
    """Whether a word is exactly one numeral, in digits or in words."""
    if word[:1] in "0123456789+-.\u2212($€£¥" and word:
        return take_apart(word) is not None
    if not word.casefold().startswith(_WORD_STARTS):
        return False
    spans = words.find(word)
    return len(spans) == 1 and spans[0].text == word


def read_table(path: str | pathlib.Path, keep: Callable[[str], bool] = is_number) -> Table:
    """Reads the vectors of a text file (or .gz) for the words that `keep` accepts.

    Raises:
      DataError: the file cannot be read, is empty, is in word2vec's binary form, is cut short, or has a bad row (the
        message names the line).
    """
    path = pathlib.Path(path).expanduser()
    rows, kept_vectors, count, n_repeated = {}, [], 0, 0
    width = header_count = None
    for line_number, line, header in _number_lines(path):
        if header is not None:
            header_count, width = header
            continue
        if width is None:
            width = line.count(b" ")
            if not width:
                raise _row_error(
                    path, line_number, "no vector: GloVe and word2vec text files have `word v1 v2 …` a line"
                )
        # Split from the right: a few words of GloVe 840B have blanks.
        parts = line.rsplit(b" ", width)
        if len(parts) <= width or not parts[0]:
            raise _row_error(path, line_number, f"{line.count(b' ')} numbers after the word, not {width}")
        if wrong_bytes := line[len(parts[0]) :].translate(None, _NUMBER_BYTES):
            raise _row_error(
                path, line_number, f"{_first_bad_value(parts[1:])} is no number" + _binary_hint(wrong_bytes)
            )
        count += 1
        word = parts[0].decode("utf-8", errors="replace")
        if _has_numbers(word):
            raise _row_error(path, line_number, f"{line.count(b' ')} numbers after the word, not {width}")
        if not keep(word):
            continue
        if word in rows:
            n_repeated += 1
            continue
        try:
            vector = np.array(parts[1:], np.float64)
        except ValueError:
            raise _row_error(path, line_number, f"{_first_bad_value(parts[1:])} is no number") from None
        if not np.isfinite(vector).all():
            raise _row_error(path, line_number, "a number beyond every float")
        rows[word] = len(kept_vectors)
        kept_vectors.append(vector)
    if not count:
        raise DataError(f"{path}: no vectors; give a GloVe or word2vec text file, `word v1 v2 …` a line")
    if header_count is not None and header_count != count:
        raise DataError(
            f"{path}: {count} rows, but its first line promises {header_count}: cut short? Fetch it again"
        )
    vectors = np.stack(kept_vectors) if kept_vectors else np.zeros((0, width or 0))
    return Table(rows, vectors, count, n_repeated)


def _read_lines(path: pathlib.Path) -> Iterator[bytes]:
    with files.report_read_errors(path), gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
        for line in file:
            yield line.replace(b"\t", b" ").rstrip(b"\r\n ")


def _number_lines(path: pathlib.Path) -> Iterator[tuple[int, bytes, tuple[int, int] | None]]:
    """Yields (line number, line, word2vec's count and width if it is the header) for every line."""
    lines = enumerate(_read_lines(path), 1)
    first_two = list(itertools.islice(lines, 2))
    header = _parse_header(first_two[0][1]) if first_two else None
    # "7 7" may also be a word and its only coordinate; then the next line has this form too.
    if len(first_two) > 1 and header and header[1] != 1 and first_two[1][1].count(b" ") == 1:
        header = None
    for line_number, line in itertools.chain(first_two, lines):
        yield line_number, line, header if line_number == 1 else None


def _has_numbers(word: str) -> bool:
    """Whether a word with blanks is rather a word and extra numbers. (GloVe 840B has some words with blanks.)"""
    if " " not in word:
        return False
    try:
        list(map(float, word.split(" ")[1:]))
    except ValueError:
        return False
    return True


def _parse_header(line: bytes) -> tuple[int, int] | None:
    parts = line.split()
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 and all(p.isdigit() for p in parts) else None


def _row_error(path: pathlib.Path, line_number: int, what: str) -> DataError:
    return DataError(f"{path}, line {line_number}: {what}; mend the row or leave it out")


def _first_bad_value(parts: list[bytes]) -> str:
    for part in parts:
        try:
            float(part)
        except ValueError:
            return repr(part[:20].decode("utf-8", errors="replace"))
        if part.translate(None, _NUMBER_BYTES):  # nan, inf, 1_000
            return repr(part[:20].decode())
    return "a value"


def _binary_hint(wrong: bytes) -> str:
    return " (word2vec's binary form? save it as text)" if any(b < 9 or b > 126 for b in wrong) else ""
