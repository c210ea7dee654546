"""Exact facts about a table's cells and a question's words, as further token types.

TAPAS (Herzig et al. 2020, section 3) adds to each position the row, the column and the rank of its cell, and how its
number compares with those of the question. This module adds which headers and cells a question names, in their order,
and how its numbers relate to the table (a sum, a mean, a count …). All traits are exact: from decimals and words.

Row 1 and column 1 count as headers; rows and columns called "total" are not counted or ranked.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from numjax.tasks.tatqa.units import Value, parse_value

# Trait → its number of values, among them 0 for "unknown".
TRAITS: Mapping[str, int] = {
    "row": 32,  # from 1; the last value is for all further rows
    "column": 32,
    "column_rank": 8,  # from 1 for the smallest of its column
    "column_rank_back": 8,  # from 1 for the largest
    "row_rank": 8,
    "row_rank_back": 8,
    "compared": 8,  # 1 equal to a number of the question + 2 larger than one + 4 smaller than one
    "named": 8,  # whether the question names its text: 1 in part, 2 as the first, 3 as the second …
    "moved": 4,  # compared with the cell of the previous time: 1 smaller, 2 larger, 3 equal
    "named_rank": 8,  # from 1 for the smallest of the named cells of its line, if there are several
    "row_named": 8,  # as "named", for the header of its row
    "column_named": 8,  # as "named", for the header of its column
    "total": 2,  # in a row or column of totals
    "is_cell": 4,  # a number of the question equals 3 the named cell, 2 one in a named row or column, 1 any cell
    "is_sum": 2,
    "is_mean": 2,
    "is_difference": 2,
    "is_ratio": 2,  # a percentage, a percent change, or a quotient
    "is_count": 2,
    "scaled": 4,  # 1 thousands, 2 millions, 3 billions, by its headers, the corner or a paragraph
    "exceeded": 8,  # how many cells of the line are larger: 1 none, 2 one, 3 some, 4 all but one, 5 all, 6 unclear
}
SIZES = tuple(TRAITS.values())
_INDEX = {name: index for index, name in enumerate(TRAITS)}

_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_UNIT = re.compile(r"[(\[][^)\]]*[)\]]|,.*$|:$")
_STOP = frozenset("the a an of in on at for and or to by with from is was were are be s".split())
_TOTAL = re.compile(r"\s*(?:grand |sub)?totals?\b|\s*(?:all|sum|overall)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])[-−]?[$€£¥]?\d++(?:,\d{3})*+(?:\.\d++)?+(?=(?i:k|mn?|bn|x|pp)?(?!\w))\s?%?")
_WORDS = {
    word: number
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
# Words that scale all numbers, not those of one number: "in millions", "thousands of euros", "€ bn", "($m)", "'000".
_SCALED = re.compile(
    r"(?<!\d )(?<![\w.,])(?:(?:us|a|c)?[$€£¥] ?|in (?:[a-z]+ )?[$€£¥]? ?|[(\[])?"
    r"(thousands?|millions?|billions?|['’]?000s?|k|mn?|bn)\b",
    re.IGNORECASE,
)
_SCALES = {"t": 1, "k": 1, "0": 1, "m": 2, "b": 3}
_LARGEST = 7
_PAIRS = 400  # most pairs of cells that are compared with a number

Cell = tuple[int, int]


def find_scale(text: str) -> int:
    """The scale of numbers that a header or a paragraph names: 1 thousands, 2 millions, 3 billions; 0 none."""
    for match in _SCALED.finditer(text):
        word = match[1].lower().lstrip("'’")
        # "k", "m" and "thousand" are units only behind a currency, "in" or a bracket.
        if len(match[0].strip()) > len(match[1]) or (len(word) > 3 and word.endswith("s")):
            return _SCALES[word[0]]
    return 0


def is_total(header: str) -> bool:
    """Whether a header says that its row or column is a sum of others."""
    return bool(_TOTAL.match(header)) and len(header) < 20


Span = tuple[int, ...]  # characters [start, end), then the traits


class Grid(NamedTuple):
    """A parsed table: texts, numbers of cells other than headers, and which rows and columns are totals."""

    rows: tuple[tuple[str, ...], ...]
    values: dict[Cell, Value]
    total_rows: frozenset[int]
    total_columns: frozenset[int]


class NumberSpan(NamedTuple):
    """A number of a question: characters [start, end), its value, its decimals, whether it is a percentage."""

    start: int
    end: int
    value: Decimal
    decimals: int
    percent: bool


class _ParsedQuestion(NamedTuple):
    """A parsed question: words (start, end, stem), and numbers."""

    words: tuple[tuple[int, int, str], ...]
    numbers: tuple[NumberSpan, ...]


class _Names(NamedTuple):
    """The headers that a question names. order: header → order from 2, or 1 if named in part; words: index of a word
    that names a header → order."""

    order: dict[int, int]
    words: dict[int, int]


def find_traits(
    question: str, rows: Sequence[Sequence[str]], paragraphs: Sequence[str] = ()
) -> tuple[dict[Cell, tuple[int, ...]], list[Span]]:
    """({cell: its traits} of a table, [(start, end, *traits)] of the question's words and numbers, in order).

    Args:
      paragraphs: texts of the table, which may name the scale of its numbers.
    """
    grid = parse_grid(tuple(tuple(cell.strip() for cell in row) for row in rows))
    parsed = _parse_question(question)
    height, width = len(grid.rows), max(map(len, grid.rows))
    row_headers = {r: grid.rows[r][0] for r in range(1, height)}
    column_headers = {c: grid.rows[0][c] for c in range(1, width)}
    row_names, column_names = _find_named(row_headers, parsed), _find_named(column_headers, parsed)
    named_words = {*row_names.words, *column_names.words}
    free_numbers = [
        number for number in parsed.numbers if not any(_overlaps(number, parsed.words[w]) for w in named_words)
    ]
    inner_texts = {
        (r, c): text
        for r, row in enumerate(grid.rows)
        for c, text in enumerate(row)
        if r and c and (r, c) not in grid.values
    }
    texts = _find_named(dict(enumerate(dict.fromkeys(inner_texts.values()))), parsed)
    text_order = {text: texts.order.get(i, 0) for i, text in enumerate(dict.fromkeys(inner_texts.values()))}

    cells: dict[Cell, tuple[int, ...]] = {}
    outer_scale = next(filter(None, map(find_scale, (grid.rows[0][0], *paragraphs))), 0)
    ranks, moved, named_ranks = _rank_cells(grid), _compare_times(grid), _rank_named(grid, row_names, column_names)
    for r, row in enumerate(grid.rows):
        for c, text in enumerate(row):
            values = {"row": min(r + 1, 31), "column": min(c + 1, 31)}
            values["row_named"], values["column_named"] = row_names.order.get(r, 0), column_names.order.get(c, 0)
            values["total"] = int(r in grid.total_rows or c in grid.total_columns)
            values["named"] = (
                text_order.get(text, 0) if r and c else (values["row_named"] if r else values["column_named"])
            )
            values |= ranks.get((r, c), {}) | moved.get((r, c), {}) | named_ranks.get((r, c), {})
            if (r, c) in grid.values:
                values["compared"] = _compare(grid.values[r, c].number, free_numbers)
                percent = "%" in text or "%" in row[0] or "%" in grid.rows[0][c]
                values["scaled"] = 0 if percent else find_scale(grid.rows[0][c]) or find_scale(row[0]) or outer_scale
            cells[r, c] = _to_tuple(values)
    return cells, _make_spans(parsed, free_numbers, grid, row_names, column_names, text_order)


def _to_tuple(values: Mapping[str, int]) -> tuple[int, ...]:
    out = [0] * len(SIZES)
    for name, value in values.items():
        out[_INDEX[name]] = value
    return tuple(out)


@functools.lru_cache(256)
def parse_grid(rows: tuple[tuple[str, ...], ...]) -> Grid:
    values = {
        (r, c): value
        for r, row in enumerate(rows)
        for c, text in enumerate(row)
        if r and c and text and (value := parse_value(text)) is not None
    }
    total_rows = frozenset(r for r in range(1, len(rows)) if is_total(rows[r][0]))
    total_columns = frozenset(c for c in range(1, len(rows[0])) if is_total(rows[0][c]))
    return Grid(rows, values, total_rows, total_columns)


def _parse_question(question: str) -> _ParsedQuestion:
    words = tuple((m.start(), m.end(), _stem(m[0])) for m in _WORD.finditer(question))
    return _ParsedQuestion(words, tuple(find_numbers(question)))


def find_numbers(question: str) -> list[NumberSpan]:
    """The numbers of a question or a statement, in order: those written with digits, and the words up to twelve."""
    numbers = []
    for match in _NUMBER.finditer(question):
        text = match[0].rstrip(" %")
        digits = re.sub(r"[^\d.\-−]", "", text).replace("−", "-")
        decimals = len(digits.partition(".")[2])
        end = match.start() + len(text)
        numbers.append(NumberSpan(match.start(), end, Decimal(digits), decimals, "%" in match[0]))
    for match in _WORD.finditer(question):
        if (word := _stem(match[0])) in _WORDS:
            numbers.append(NumberSpan(match.start(), match.end(), Decimal(_WORDS[word]), 0, False))
    return sorted(numbers)


def _stem(word: str) -> str:
    """A word in lower case without its plural ending; a number without commas."""
    plain = word.lower()
    if plain[:1].isdigit():
        return plain.replace(",", "")
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("s", "")):
        if plain.endswith(ending) and len(plain) > len(ending) + 2 and not plain.endswith("ss"):
            return plain.removesuffix(ending) + instead
    return plain


@functools.lru_cache(4096)
def _header_words(text: str) -> tuple[str, ...]:
    """The distinctive words of a header: without units and stop words, if other words are left."""
    for plain in (_UNIT.sub(" ", text), text):
        words = [_stem(match[0]) for match in _WORD.finditer(plain)]
        if words:
            return tuple(dict.fromkeys([word for word in words if word not in _STOP] or words))
    return ()


def _find_named(headers: Mapping[int, str], question: _ParsedQuestion) -> _Names:
    """The headers that a question names. A header is named if the question has all of its words that not every header
    has; if its words are a subset of another named header's, only the other counts."""
    # "—" has no words.
    keys = {index: words for index, text in headers.items() if (words := _header_words(text))}
    frequencies = Counter(word for key in keys.values() for word in key)
    places: dict[str, list[int]] = {}
    for index, (_, _, word) in enumerate(question.words):
        places.setdefault(word, []).append(index)
    named_headers: dict[int, tuple[str, ...]] = {}
    order: dict[int, int] = {}
    for index, key in keys.items():
        distinctive = [word for word in key if frequencies[word] < len(keys)] or key
        if all(word in places for word in distinctive):
            named_headers[index] = tuple(distinctive)
        elif any(word in places for word in distinctive if word not in _STOP and len(word) > 1):
            order[index] = 1
    for index in list(named_headers):
        is_included = any(set(keys[index]) < set(keys[other]) for other in named_headers)
        if is_included and all(len(places[word]) == 1 for word in named_headers[index]):
            del named_headers[index]
            order[index] = 1
    # The position at which a header is named is that of its rarest word among headers.
    named_at = {
        index: min((frequencies[word], places[word][0]) for word in key)[1] for index, key in named_headers.items()
    }
    ranked = {at: 2 + i for i, at in enumerate(sorted(set(named_at.values())))}
    order |= {index: min(ranked[at], _LARGEST) for index, at in named_at.items()}
    words = {at: order[index] for index, key in named_headers.items() for word in key for at in places[word]}
    return _Names(order, words)


def _overlaps(number: tuple, word: tuple[int, int, str]) -> bool:
    return number[0] < word[1] and word[0] < number[1]


def _rank_cells(grid: Grid) -> dict[Cell, dict[str, int]]:
    ranks: dict[Cell, dict[str, int]] = {}
    for axis, name in ((1, "column"), (0, "row")):
        for _, cells in _group_lines(grid, axis).items():
            ordered = sorted({grid.values[cell].number for cell in cells})
            for cell in cells if len(ordered) > 1 else ():
                rank = ordered.index(grid.values[cell].number)
                cell_ranks = ranks.setdefault(cell, {})
                cell_ranks[f"{name}_rank"] = min(rank + 1, _LARGEST)
                cell_ranks[f"{name}_rank_back"] = min(len(ordered) - rank, _LARGEST)
    return ranks


_TIME = re.compile(r"(?:\D*\b(?:FY|Q)?)((?:1[89]|20)\d\d|(?<=Q)[1-4])\b\D*", re.IGNORECASE)
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\b\.?"
)
_DAY = r"([0-3]?\d)(?:st|nd|rd|th)?"
_BEGINS_WITH_MONTH = re.compile(_MONTH, re.IGNORECASE)
_DATE = re.compile(rf"\b(?:{_DAY}\s+)?{_MONTH}(?:\s+{_DAY})?\s*,?\s*((?:1[89]|20)\d\d)\b", re.IGNORECASE)


def parse_time(header: str) -> int | None:
    """The sort key of a header that is a year, a quarter, a month or a date; None for any other."""
    header = header.strip()
    if (dated := find_date(header)) and not any(map(str.isdigit, dated[1])):
        return dated[0]
    if match := _TIME.fullmatch(header):
        return int(match[1]) * 10_000
    match = _BEGINS_WITH_MONTH.match(header)
    return _find_month(match[1]) if match else None


def find_date(header: str) -> tuple[int, str] | None:
    """(the sort key of a month or day with its year, the header without it); None without one."""
    if not (match := _DATE.search(header)):
        return None
    key = (int(match[4]) * 100 + _find_month(match[2]) + 1) * 100 + int(match[1] or match[3] or 0)
    return key, f"{header[: match.start()]} {header[match.end() :]}"


def _find_month(word: str) -> int:
    return _MONTHS.index(word[:3].lower())


def _compare_times(grid: Grid) -> dict[Cell, dict[str, int]]:
    """How cells compare with those of the previous time, if all headers of an axis except totals are times."""
    comparisons: dict[Cell, dict[str, int]] = {}
    height, width = len(grid.rows), len(grid.rows[0])
    down = {r: parse_time(grid.rows[r][0]) for r in range(1, height) if r not in grid.total_rows}
    across = {c: parse_time(grid.rows[0][c]) for c in range(1, width) if c not in grid.total_columns}
    for axis, moments in ((0, down), (1, across)):
        times = {index: time for index, time in moments.items() if time is not None}
        if len(times) < len(moments) or len(set(times.values())) < max(2, len(times)):
            continue
        for previous, index in itertools.pairwise(sorted(times, key=lambda index: times[index])):
            for cell, value in grid.values.items():
                other = grid.values.get((previous, cell[1]) if axis == 0 else (cell[0], previous))
                if cell[axis] == index and other is not None:
                    a, b = other.number, value.number
                    comparisons[cell] = {"moved": 2 if b > a else 1 if b < a else 3}
    return comparisons


def _rank_named(grid: Grid, row_names: _Names, column_names: _Names) -> dict[Cell, dict[str, int]]:
    """Ranks among the cells of a line whose other header is named."""
    ranks: dict[Cell, dict[str, int]] = {}
    for axis, line_names, cross_names in ((0, row_names, column_names), (1, column_names, row_names)):
        for line, cells in _group_lines(grid, axis).items():
            named = [cell for cell in cells if cross_names.order.get(cell[1 - axis], 0) > 1]
            if len(named) > 1 and (
                line_names.order.get(line, 0) > 1 or not any(o > 1 for o in line_names.order.values())
            ):
                ordered = sorted({grid.values[cell].number for cell in named})
                for cell in named if len(ordered) > 1 else ():
                    ranks[cell] = {"named_rank": min(1 + ordered.index(grid.values[cell].number), _LARGEST)}
    return ranks


def _group_lines(grid: Grid, axis: int) -> dict[int, list[Cell]]:
    """The cells with numbers of each column (axis 1) or row (axis 0), without totals."""
    lines: dict[int, list[Cell]] = {}
    for cell in grid.values:
        if cell[0] not in grid.total_rows and cell[1] not in grid.total_columns:
            lines.setdefault(cell[axis], []).append(cell)
    return lines


def _compare(value: Decimal, numbers: Iterable[tuple]) -> int:
    bits = 0
    for _, _, number, _, _ in numbers:
        bits |= 1 if value == number else 2 if value > number else 4
    return bits


def _make_spans(
    question: _ParsedQuestion,
    free_numbers: Sequence[tuple],
    grid: Grid,
    row_names: _Names,
    column_names: _Names,
    text_order: Mapping[str, int],
) -> list[Span]:
    spans: list[Span] = []
    groups = _find_groups(grid, row_names, column_names) if free_numbers else []
    for number in free_numbers:
        spans.append(
            (
                number[0],
                number[1],
                *_to_tuple(_number_traits(number, free_numbers, groups, grid, row_names, column_names, text_order)),
            )
        )
    for index, (start, end, _) in enumerate(question.words):
        if not any(number[0] < end and start < number[1] for number in free_numbers):
            values = {"row_named": row_names.words.get(index, 0), "column_named": column_names.words.get(index, 0)}
            if any(values.values()):
                spans.append((start, end, *_to_tuple(values)))
    return sorted(spans)


def _find_groups(grid: Grid, row_names: _Names, column_names: _Names) -> list[tuple[list[Cell], list[Cell]]]:
    """(cells of a line, those whose other header is named) for each line that a question may mean: the lines that it
    names, or all."""
    groups = []
    for axis, line_names, cross_names in ((1, column_names, row_names), (0, row_names, column_names)):
        lines = _group_lines(grid, axis)
        named = [line for line in lines if line_names.order.get(line, 0) > 1]
        if not named and any(order > 1 for order in cross_names.order.values()):
            continue
        for line in named or lines:
            cells = lines[line]
            groups.append((cells, [cell for cell in cells if cross_names.order.get(cell[1 - axis], 0) > 1]))
    return groups


def _number_traits(
    number: tuple,
    free_numbers: Sequence[tuple],
    groups: Sequence[tuple[list[Cell], list[Cell]]],
    grid: Grid,
    row_names: _Names,
    column_names: _Names,
    text_order: Mapping[str, int],
) -> dict[str, int]:
    """The traits of a number of the question: how it relates to the table."""
    _, _, value, decimals, _ = number
    values: dict[str, int] = {}

    def is_close(other: Decimal) -> bool:
        return abs(abs(other) - abs(value)) <= Decimal("0.5000001").scaleb(-decimals)

    for cell, cell_value in grid.values.items():
        if cell_value.number == value:
            rank = sum(names.order.get(at, 0) > 1 for names, at in ((row_names, cell[0]), (column_names, cell[1])))
            values["is_cell"] = max(values.get("is_cell", 0), 1 + rank)
    small = value == int(value) and 0 <= value <= 30 and decimals == 0
    for cells, named in groups:
        for part in (cells, named):
            numbers = [grid.values[cell].number for cell in part]
            if len(numbers) < 2:
                continue
            total = sum(numbers, Decimal(0))
            if total == value:
                values["is_sum"] = 1
            if is_close(total / len(numbers)):
                values["is_mean"] = 1
        pairs = itertools.islice(itertools.permutations(named if len(named) > 1 else cells, 2), _PAIRS)
        line_total = sum((grid.values[cell].number for cell in cells), Decimal(0))
        for first_cell, second_cell in pairs:
            a, b = grid.values[first_cell].number, grid.values[second_cell].number
            if abs(a - b) == abs(value):
                values["is_difference"] = 1
            if b and (is_close(a / b) or is_close((a - b) / b * 100) or is_close(a / b * 100)):
                values["is_ratio"] = 1
        for cell in named or cells:
            if line_total and is_close(grid.values[cell].number / line_total * 100):
                values["is_ratio"] = 1
        n_larger = sum(grid.values[cell].number > value for cell in cells)
        share = (
            1
            if not n_larger
            else 5
            if n_larger == len(cells)
            else 2
            if n_larger == 1
            else 4
            if n_larger == len(cells) - 1
            else 3
        )
        values["exceeded"] = share if values.get("exceeded", share) == share else 6
        if small and _is_line_count(cells, value, number, free_numbers, grid):
            values["is_count"] = 1
    if small and _is_text_count(value, grid, text_order):
        values["is_count"] = 1
    return values


def _is_line_count(
    cells: Sequence[Cell], value: Decimal, number: tuple, free_numbers: Sequence[tuple], grid: Grid
) -> bool:
    """Whether `value` is how many cells of a line are smaller or larger than, or equal to, another number of the
    question; without another number, whether the line has `value` cells."""
    others = [other[2] for other in free_numbers if other is not number]
    if not others:
        return len(cells) == value
    numbers = [grid.values[cell].number for cell in cells]
    counts = [sum(map(test, numbers)) for limit in others for test in (limit.__lt__, limit.__gt__, limit.__eq__)]
    return value in counts


def _is_text_count(value: Decimal, grid: Grid, text_order: Mapping[str, int]) -> bool:
    named = [text for text, order in text_order.items() if order > 1]
    return any(sum(row.count(text) for row in grid.rows[1:]) == value for text in named)
