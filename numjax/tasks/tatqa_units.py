"""What TagOp can point at: the cells of a table, and the words of the paragraphs beside it (Zhu et al. 2021)."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

TABLE = 1  # group of the table's cells; the paragraphs' words have the groups behind it

_WORDS = re.compile(r"[^\s\-–—~]+")
# A sign is part of a number where it does not join it to what precedes.
_SIGNED = re.compile(r"(?<![^\s(\[$€£¥])[-−]\s?[$€£¥]?\d|[^\s\-–—~]+")
_NUMBER = re.compile(  # 1 200,5 and 1'200.5; 1.200,50 and 1.234.567; the usual form
    r"[1-9]\d{0,2}(?:(?P<mark>[ \u00a0\u2009\u202f'’])\d{3}(?:(?P=mark)\d{3})*(?![\d'’])(?:[.,]\d+)?"
    r"|\.\d{3}(?:(?:\.\d{3})*,\d+|(?:\.\d{3})+)(?![\d.,]))"
    r"|(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3}(?!\w))?"
)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d*)?")
_FOOTNOTES = re.compile(r"(?:(?<!\s)\s*[(\[]\d{1,2}[)\]])+")
DIGITS = 100  # of a number, at most: no amount has more
_CURRENCY = re.compile(r"(?:US|A|C|HK|S|NZ|R)?[$]|RMB|USD|EUR|GBP|Rs\.?")
_NOTHING = re.compile(r"[($€£¥\s]*[-−–—]+[)%\s]*")  # what a table writes for nought, as "$ —"
_QUOTES = "“”\"‘’'"
_TOKENS = re.compile(r"\b\w\w+\b")


class Value(NamedTuple):
    """A number of a unit as it is written: "(1.5)%" is −1.5, a percentage."""

    number: Decimal
    percent: bool = False


class Unit(NamedTuple):
    """A cell, or a word: characters [start, end) of the context's text, the group, and what it is worth."""

    start: int
    end: int
    group: int
    value: Value | None


class Context(NamedTuple):
    """A table and paragraphs as one text: cells row by row, then the paragraphs, in pieces with blanks between.

    Attributes:
      question: what is asked of it. text: all of it. units: in the order of the text. pieces: the texts of cells and
        paragraphs. cells: (row, column) of each of the table's units, from 0.
    """

    question: str
    text: str
    units: tuple[Unit, ...]
    pieces: tuple[str, ...] = ()
    cells: tuple[tuple[int, int], ...] = ()


def context(question: str, table: Sequence[Sequence[str]], paragraphs: Sequence[str]) -> Context:
    """The units of a table's cells that are not empty, and of the paragraphs' words."""
    pieces: list[str] = []
    units: list[Unit] = []
    place = 0
    at = [(r, c) for r, row in enumerate(table) for c, cell in enumerate(row) if cell.strip()]
    cells = [table[r][c].strip() for r, c in at]
    for group, piece in [(TABLE, cell) for cell in cells] + [(TABLE + 1 + i, p) for i, p in enumerate(paragraphs)]:
        if group == TABLE:
            units.append(Unit(place, place + len(piece), TABLE, read(piece)))
        else:
            units += [Unit(place + a, place + b, group, value) for a, b, value in _words_of(piece)]
        pieces.append(piece)
        place += len(piece) + 1
    return Context(question, " ".join(pieces), tuple(units), tuple(pieces), tuple(at))


@functools.lru_cache(1024)
def _words_of(text: str) -> tuple[tuple[int, int, Value | None], ...]:
    # The questions of a context follow one another.
    return tuple((start, end, read(text[start:end])) for start, end in words(text))


def words(text: str) -> list[tuple[int, int]]:
    """Characters [start, end) of each word, without quotation marks around it; blanks and dashes part words, but for
    the sign of a number."""
    found = []
    place = 0
    while match := _SIGNED.search(text, place):
        start, end = match.span()
        if match[0][0] in "-−":
            rest = _WORDS.match(text, end - 1)
            end = rest.end() if rest else end
        place = end
        start += len(text[start:end]) - len(text[start:end].lstrip(_QUOTES))
        end = start + len(text[start:end].rstrip(_QUOTES))
        if start < end:
            found.append((start, end))
    return found


def read(text: str) -> Value | None:
    """The number of a text that holds one and no more than a unit beside it, as accountants write them.

    Negative are "(1,746)", "-5", "$(5)" and "−5"; "—" and "$—" are nought. Blanks and apostrophes part thousands
    too, and so do points where there are several or a comma follows: "1 200", "1'200", "1.200,50". Of "1,5" the
    comma parts decimals, since it parts no thousands. Of "2019 (1)", a number with a footnote, the first counts;
    texts with other digits besides, as "5 to 7", "2018/19", "1,2,3" and "1½", hold no one number.
    """
    bare = text.strip()
    if _NOTHING.fullmatch(bare):
        return Value(Decimal(0))
    found = _NUMBER.search(bare)
    if found is None:
        return None
    before, after = bare[: found.start()], bare[found.end() :]
    # "Note 5" and "H2O" are names.
    if re.search(r"[^\W\d_]", _CURRENCY.sub("", before)) or re.search(r"\d", _FOOTNOTES.sub("", after)):
        return None
    if any(unicodedata.decomposition(c).startswith("<fraction>") for c in before + after):
        return None
    try:
        number = Decimal(_plain(found[0]))
    except InvalidOperation:
        return None
    if len(found[0]) > DIGITS:
        return None
    negative = bool(re.search(r"[-−–]\s*[$€£¥]?$", before.rstrip())) or ("(" in before and ")" in after)
    return Value(-number if negative else number, "%" in after)


def _plain(written: str) -> str:
    """A number as Python writes it; "" where commas part neither thousands nor decimals."""
    written = re.sub(r"[^\d.,eE+-]", "", written.rstrip(".,"))
    if re.search(r"\..*[.,]", written):
        return written.replace(".", "").replace(",", ".")
    if "," in written and not _GROUPED.fullmatch(written):
        written = written.replace(",", ".") if "." not in written else ""
    return written.replace(",", "")


@functools.lru_cache(1024)
def _counts(text: str) -> Counter[str]:
    return Counter(_TOKENS.findall(text.lower()))


def ranked(question: str, paragraphs: Sequence[str]) -> list[int]:
    """Places of the paragraphs, the most alike to the question first: cosines of TF-IDF over words of two letters or
    more, smoothed as in scikit-learn; equals stay in order."""
    counts = [_counts(text) for text in (question, *paragraphs)]
    known = Counter(word for count in counts for word in count)
    weight = {word: math.log((1 + len(counts)) / (1 + n)) + 1 for word, n in known.items()}
    vectors = [{word: n * weight[word] for word, n in count.items()} for count in counts]
    norms = [math.sqrt(sum(x * x for x in vector.values())) or 1.0 for vector in vectors]
    asked = vectors[0]

    def cosine(place: int) -> float:
        other = vectors[place + 1]
        return sum(x * other.get(word, 0.0) for word, x in asked.items()) / norms[0] / norms[place + 1]

    return sorted(range(len(paragraphs)), key=lambda place: -cosine(place))
