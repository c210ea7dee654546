"""The units that TagOp can select: the cells of a table, and the words of its paragraphs (Zhu et al. 2021)."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

TABLE = 1  # group of the table's cells; the paragraphs have the groups from 2

_WORDS = re.compile(r"[^\s\-–—~]+")
# A sign is part of a number unless it joins the number to the text before it.
_SIGNED = re.compile(r"(?<![^\s(\[$€£¥])[-−]\s?[$€£¥]?\d|[^\s\-–—~]+")
_NUMBER = re.compile(  # 1 200,5 and 1'200.5; 1.200,50 and 1.234.567; the usual form
    r"[1-9]\d{0,2}(?:(?P<mark>[ \u00a0\u2009\u202f'’])\d{3}(?:(?P=mark)\d{3})*(?![\d'’])(?:[.,]\d+)?"
    r"|\.\d{3}(?:(?:\.\d{3})*,\d+|(?:\.\d{3})+)(?![\d.,]))"
    r"|(?:\d[\d,]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,3}(?!\w))?"
)
_GROUPED = re.compile(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d*)?")
_FOOTNOTES = re.compile(r"(?:(?<!\s)\s*[(\[]\d{1,2}[)\]])+")
DIGITS = 100  # most characters of a number: no amount has more
_CURRENCY = re.compile(r"(?:US|A|C|HK|S|NZ|R)?[$]|RMB|USD|EUR|GBP|Rs\.?")
_NOTHING = re.compile(r"[($€£¥\s]*[-−–—]+[)%\s]*")  # zero as tables write it, such as "$ —"
_QUOTES = "“”\"‘’'"
_TOKENS = re.compile(r"\b\w\w+\b")


class Value(NamedTuple):
    """The number of a unit as written: "(1.5)%" is −1.5, a percentage."""

    number: Decimal
    percent: bool = False


class Unit(NamedTuple):
    """A cell or a word: characters [start, end) of the context's text, its group, and its value if it is a number."""

    start: int
    end: int
    group: int
    value: Value | None


class TableContext(NamedTuple):
    """A table and paragraphs as one text: cells row by row, then the paragraphs, in pieces with blanks between.

    Attributes:
      question: the question about it. text: the whole text. units: in the order of the text. pieces: the texts of
        cells and paragraphs. cells: (row, column) of each of the table's units, from 0.
    """

    question: str
    text: str
    units: tuple[Unit, ...]
    pieces: tuple[str, ...] = ()
    cells: tuple[tuple[int, int], ...] = ()


def make_context(question: str, table: Sequence[Sequence[str]], paragraphs: Sequence[str]) -> TableContext:
    """The context of a question, with units for the non-empty cells and for the words of the paragraphs."""
    pieces: list[str] = []
    units: list[Unit] = []
    offset = 0
    positions = [(r, c) for r, row in enumerate(table) for c, cell in enumerate(row) if cell.strip()]
    cells = [table[r][c].strip() for r, c in positions]
    for group, piece in [(TABLE, cell) for cell in cells] + [(TABLE + 1 + i, p) for i, p in enumerate(paragraphs)]:
        if group == TABLE:
            units.append(Unit(offset, offset + len(piece), TABLE, parse_value(piece)))
        else:
            units += [Unit(offset + a, offset + b, group, value) for a, b, value in _parse_words(piece)]
        pieces.append(piece)
        offset += len(piece) + 1
    return TableContext(question, " ".join(pieces), tuple(units), tuple(pieces), tuple(positions))


@functools.lru_cache(1024)
def _parse_words(text: str) -> tuple[tuple[int, int, Value | None], ...]:
    # Cached, because the questions of a context follow each other.
    return tuple((start, end, parse_value(text[start:end])) for start, end in find_words(text))


def find_words(text: str) -> list[tuple[int, int]]:
    """Characters [start, end) of each word, without quotation marks around it. Blanks and dashes separate words,
    except the sign of a number."""
    spans = []
    offset = 0
    while match := _SIGNED.search(text, offset):
        start, end = match.span()
        if match[0][0] in "-−":
            rest = _WORDS.match(text, end - 1)
            end = rest.end() if rest else end
        offset = end
        start += len(text[start:end]) - len(text[start:end].lstrip(_QUOTES))
        end = start + len(text[start:end].rstrip(_QUOTES))
        if start < end:
            spans.append((start, end))
    return spans


def parse_value(text: str) -> Value | None:
    """The number of a text that holds one number, as accountants write it, and at most a unit; else None.

    "(1,746)", "-5", "$(5)" and "−5" are negative; "—" and "$—" are zero. Blanks and apostrophes also separate
    thousands, and so do points if there are several or a comma follows: "1 200", "1'200", "1.200,50". In "1,5" the
    comma is a decimal comma, since it separates no thousands. In "2019 (1)", a number with a footnote, the first
    number counts. Texts with further digits, such as "5 to 7", "2018/19", "1,2,3" and "1½", hold no single number.
    """
    stripped = text.strip()
    if _NOTHING.fullmatch(stripped):
        return Value(Decimal(0))
    match = _NUMBER.search(stripped)
    if match is None:
        return None
    prefix, suffix = stripped[: match.start()], stripped[match.end() :]
    # "Note 5" and "H2O" are names.
    if re.search(r"[^\W\d_]", _CURRENCY.sub("", prefix)) or re.search(r"\d", _FOOTNOTES.sub("", suffix)):
        return None
    if any(unicodedata.decomposition(c).startswith("<fraction>") for c in prefix + suffix):
        return None
    try:
        number = Decimal(_to_plain(match[0]))
    except InvalidOperation:
        return None
    if len(match[0]) > DIGITS:
        return None
    negative = bool(re.search(r"[-−–]\s*[$€£¥]?$", prefix.rstrip())) or ("(" in prefix and ")" in suffix)
    return Value(-number if negative else number, "%" in suffix)


def _to_plain(number: str) -> str:
    """A number in Python's notation; "" if its commas separate neither thousands nor decimals."""
    number = re.sub(r"[^\d.,eE+-]", "", number.rstrip(".,"))
    if re.search(r"\..*[.,]", number):
        return number.replace(".", "").replace(",", ".")
    if "," in number and not _GROUPED.fullmatch(number):
        number = number.replace(",", ".") if "." not in number else ""
    return number.replace(",", "")


@functools.lru_cache(1024)
def _count_words(text: str) -> Counter[str]:
    return Counter(_TOKENS.findall(text.lower()))


def rank_paragraphs(question: str, paragraphs: Sequence[str]) -> list[int]:
    """Indices of the paragraphs, the most similar to the question first: by cosines of TF-IDF over words of two
    letters or more, smoothed as in scikit-learn; equally similar ones keep their order."""
    counts = [_count_words(text) for text in (question, *paragraphs)]
    frequencies = Counter(word for count in counts for word in count)
    weight = {word: math.log((1 + len(counts)) / (1 + n)) + 1 for word, n in frequencies.items()}
    vectors = [{word: n * weight[word] for word, n in count.items()} for count in counts]
    norms = [math.sqrt(sum(x * x for x in vector.values())) or 1.0 for vector in vectors]
    question_vector = vectors[0]

    def cosine(index: int) -> float:
        paragraph_vector = vectors[index + 1]
        return (
            sum(x * paragraph_vector.get(word, 0.0) for word, x in question_vector.items())
            / norms[0]
            / norms[index + 1]
        )

    return sorted(range(len(paragraphs)), key=lambda index: -cosine(index))
