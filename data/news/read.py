"""Reads news: AG News' table of headlines and summaries, and the sentences of Financial PhraseBank."""

from __future__ import annotations

import csv
import html
import io
import pathlib
import re
from collections.abc import Iterator

from numjax.errors import DataError

from .. import files

AG_NEWS, PHRASE_BANK = ("*ag_news*.csv", "*ag_news*.csv.gz"), ("Sentences_50Agree.txt",)
_ENTITY = re.compile(r" ?#([0-9]{2,5});")
_NAMED = re.compile(r"(?<![&;\w])(quot|amp|lt|gt|nbsp);")
_TAG = re.compile(r"<[^<>]*>")


def find_files(path: str) -> list[pathlib.Path]:
    """Returns `path` itself if it is a file, else the files of both sources under it.

    Raises:
      DataError: there are none.
    """
    root = pathlib.Path(path).expanduser()
    if root.is_file():
        return [root]
    found = {file for pattern in (*AG_NEWS, *PHRASE_BANK) for file in root.rglob(pattern) if file.is_file()}
    if not found:
        names = " or ".join((*AG_NEWS, *PHRASE_BANK))
        raise DataError(
            f"{root}: no {names} there or below; set path to the folder of AG News or Financial PhraseBank"
        )
    return sorted(found)


def read_articles(path: pathlib.Path) -> Iterator[tuple[str, list[str] | ValueError]]:
    """Yields (name, the article's texts, or what is wrong with it) for each line of a file.

    Raises:
      DataError: the file is truncated, empty or not UTF-8.
    """
    if path.suffix == ".txt":
        return _read_phrases(path)
    return _read_table(path)


def _read_table(path: pathlib.Path) -> Iterator[tuple[str, list[str] | ValueError]]:
    """AG News: class, title and summary, without a header."""
    csv.field_size_limit(1 << 24)
    rows = csv.reader(io.StringIO(files.read_text(path), newline=""))
    name = path.name.partition(".")[0]
    try:
        for index, cells in enumerate(rows):
            is_article = len(cells) == 3 and cells[0] in ("1", "2", "3", "4")
            problem = ValueError("is not a class from 1 to 4, a title and a summary")
            yield f"{name}-{index:06d}", [clean(cell) for cell in cells[1:]] if is_article else problem
    except csv.Error as error:
        raise DataError(f"{path}: line {rows.line_num} is not a table row: {error}") from None


def _read_phrases(path: pathlib.Path) -> Iterator[tuple[str, list[str] | ValueError]]:
    """Financial PhraseBank: a sentence, @ and its label in each line."""
    for index, line in enumerate(files.read_text(path).rstrip("\r\n").split("\n")):
        sentence, _, label = line.rstrip("\r").rpartition("@")
        is_sentence = bool(sentence.strip()) and label in ("positive", "negative", "neutral")
        problem = ValueError("is not a sentence, @ and one of positive, negative, neutral")
        yield f"phrasebank-{index:06d}", [" ".join(sentence.split())] if is_sentence else problem


def clean(text: str) -> str:
    r"""Returns a text of AG News without what its crawler left: "\" for line ends, entities without "&", and HTML.

    Entities are numbers too: " #36;10" is "$10", not 36 and 10.
    """
    text = text.replace("\\$", "$").replace("\\", " ")
    text = _ENTITY.sub(lambda match: html.unescape(f"&#{match[1]};"), _NAMED.sub(r"&\1;", text))
    text = _TAG.sub(" ", html.unescape(html.unescape(text)))
    return " ".join(text.split())
