"""What is exactly known of a table's cells and of a question's words before anything is learned: further token types.

TAPAS (Herzig et al. 2020, section 3) adds to each position the row, the column and the rank of its cell, and how its
number compares with those of the question. Here are also: which headers and cells a question names, in their order,
and what its numbers are of the table (a sum, a mean, a count …). All of it is exact: from decimals and from words.

Row 1 and column 1 are taken to be headers, rows and columns called "total" no part of what is counted or ranked.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from numjax.tasks.tatqa_units import Value, read

# Trait → how many values it has, 0 among them for "nothing is known".
TRAITS: Mapping[str, int] = {
    "row": 32,  # from 1, the last for all that follow
    "column": 32,
    "column_rank": 8,  # from the smallest of its column, from 1
    "column_rank_back": 8,  # from the largest
    "row_rank": 8,
    "row_rank_back": 8,
    "compared": 8,  # 1 equal to a number of the question + 2 larger than one + 4 smaller than one
    "named": 8,  # its own text: 1 in part, 2 the first that is named, 3 the second …
    "moved": 4,  # 1 smaller, 2 larger than the same of the time before, 3 equal
    "named_rank": 8,  # from the smallest of those cells of its line that are named, where several are
    "row_named": 8,  # the header of its row
    "column_named": 8,  # the header of its column
    "total": 2,  # of a row or column of totals
    "is_cell": 4,  # a number of the question: 3 of the cell that is named, 2 of a named row or column, 1 of any
    "is_sum": 2,
    "is_mean": 2,
    "is_difference": 2,
    "is_ratio": 2,  # a percentage, a percent change, or a quotient
    "is_count": 2,
    "scaled": 4,  # in thousands 1, millions 2, billions 3, as its headers, the corner or a paragraph say
    "exceeded": 8,  # by how many of the cells it may be of: 1 none, 2 one, 3 some, 4 all but one, 5 all
}
SIZES = tuple(TRAITS.values())
_PLACE = {name: place for place, name in enumerate(TRAITS)}

_WORD = re.compile(r"[^\W_]+(?:[.,]\d+)*")
_UNIT = re.compile(r"[(\[][^)\]]*[)\]]|,.*$|:$")
_STOP = frozenset("the a an of in on at for and or to by with from is was were are be s".split())
_TOTAL = re.compile(r"\s*(?:grand |sub)?totals?\b|\s*(?:all|sum|overall)\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])[-−]?[$€£¥]?\d+(?:,\d{3})*(?:\.\d+)?(?!\w)\s?%?")
_WORDS = {
    word: number
    for number, word in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
}
# What scales a number is a unit, not a number's own: "in millions", "thousands of euros", "€ bn", "($m)", "'000".
_SCALED = re.compile(
    r"(?<!\d )(?<![\w.,])(?:(?:us|a|c)?[$€£¥] ?|in (?:[a-z]+ )?[$€£¥]? ?|[(\[])?"
    r"(thousands?|millions?|billions?|['’]?000s?|k|mn?|bn)\b",
    re.IGNORECASE,
)
_SCALES = {"t": 1, "k": 1, "0": 1, "m": 2, "b": 3}
_MOST = 7
_PAIRS = 400  # of cells that are compared with a number, at most

Cell = tuple[int, int]


def scale(text: str) -> int:
    """What a header or a paragraph says that numbers are in: 1 thousands, 2 millions, 3 billions; 0 nothing."""
    for match in _SCALED.finditer(text):
        word = match[1].lower().lstrip("'’")
        # "k", "m" and "thousand" are units behind a currency, "in" or a bracket alone.
        if len(match[0].strip()) > len(match[1]) or (len(word) > 3 and word.endswith("s")):
            return _SCALES[word[0]]
    return 0


def is_total(header: str) -> bool:
    """Whether a header says that its row or column is a sum of others."""
    return bool(_TOTAL.match(header)) and len(header) < 20


Span = tuple[int, ...]  # characters [start, end), and the traits


class _Grid(NamedTuple):
    """A table read: texts, numbers of cells that are no header, and which rows and columns are totals."""

    rows: tuple[tuple[str, ...], ...]
    values: dict[Cell, Value]
    total_rows: frozenset[int]
    total_columns: frozenset[int]


class _Asked(NamedTuple):
    """A question read: words with their places, and numbers (start, end, value, decimals, percent)."""

    words: tuple[tuple[int, int, str], ...]
    numbers: tuple[tuple[int, int, Decimal, int, bool], ...]


class _Names(NamedTuple):
    """Which headers a question names: header → order from 2, or 1 in part; the words that do (word → order)."""

    order: dict[int, int]
    words: dict[int, int]


def of(
    question: str, rows: Sequence[Sequence[str]], paragraphs: Sequence[str] = ()
) -> tuple[dict[Cell, tuple[int, ...]], list[Span]]:
    """({cell: its traits} of a table, [(start, end, *traits)] of the question's words and numbers, in order).

    Args:
      paragraphs: texts beside the table, which may say in what its numbers are.
    """
    grid = _grid(tuple(tuple(cell.strip() for cell in row) for row in rows))
    asked = _asked(question)
    height, width = len(grid.rows), max(map(len, grid.rows))
    heads_down = {r: grid.rows[r][0] for r in range(1, height)}
    heads_across = {c: grid.rows[0][c] for c in range(1, width)}
    down, across = _named(heads_down, asked), _named(heads_across, asked)
    taken = {*down.words, *across.words}
    free = [number for number in asked.numbers if not any(_meets(number, asked.words[w]) for w in taken)]
    inner = {
        (r, c): text
        for r, row in enumerate(grid.rows)
        for c, text in enumerate(row)
        if r and c and (r, c) not in grid.values
    }
    texts = _named(dict(enumerate(dict.fromkeys(inner.values()))), asked)
    own = {text: texts.order.get(i, 0) for i, text in enumerate(dict.fromkeys(inner.values()))}

    cells: dict[Cell, tuple[int, ...]] = {}
    beside = next(filter(None, map(scale, (grid.rows[0][0], *paragraphs))), 0)
    ranks, moved, among = _ranks(grid), _moved(grid), _among(grid, down, across)
    for r, row in enumerate(grid.rows):
        for c, text in enumerate(row):
            known = {"row": min(r + 1, 31), "column": min(c + 1, 31)}
            known["row_named"], known["column_named"] = down.order.get(r, 0), across.order.get(c, 0)
            known["total"] = int(r in grid.total_rows or c in grid.total_columns)
            known["named"] = own.get(text, 0) if r and c else (known["row_named"] if r else known["column_named"])
            known |= ranks.get((r, c), {}) | moved.get((r, c), {}) | among.get((r, c), {})
            if (r, c) in grid.values:
                known["compared"] = _compared(grid.values[r, c].number, free)
                percent = "%" in text or "%" in row[0] or "%" in grid.rows[0][c]
                known["scaled"] = 0 if percent else scale(grid.rows[0][c]) or scale(row[0]) or beside
            cells[r, c] = _tuple(known)
    return cells, _spans(asked, free, grid, down, across, own)


def _tuple(known: Mapping[str, int]) -> tuple[int, ...]:
    out = [0] * len(SIZES)
    for name, value in known.items():
        out[_PLACE[name]] = value
    return tuple(out)


@functools.lru_cache(256)
def _grid(rows: tuple[tuple[str, ...], ...]) -> _Grid:
    values = {
        (r, c): value
        for r, row in enumerate(rows)
        for c, text in enumerate(row)
        if r and c and text and (value := read(text)) is not None
    }
    total_rows = frozenset(r for r in range(1, len(rows)) if is_total(rows[r][0]))
    total_columns = frozenset(c for c in range(1, len(rows[0])) if is_total(rows[0][c]))
    return _Grid(rows, values, total_rows, total_columns)


def _asked(question: str) -> _Asked:
    words = tuple((m.start(), m.end(), _stem(m[0])) for m in _WORD.finditer(question))
    numbers = []
    for match in _NUMBER.finditer(question):
        text = match[0].rstrip(" %")
        digits = re.sub(r"[^\d.\-−]", "", text).replace("−", "-")
        decimals = len(digits.partition(".")[2])
        numbers.append((match.start(), match.start() + len(text), Decimal(digits), decimals, "%" in match[0]))
    for start, end, word in words:
        if word in _WORDS:
            numbers.append((start, end, Decimal(_WORDS[word]), 0, False))
    return _Asked(words, tuple(sorted(numbers)))


def _stem(word: str) -> str:
    """A word in lower case without the ending of its plural; of a number no commas."""
    plain = word.lower()
    if plain[:1].isdigit():
        return plain.replace(",", "")
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("ches", "ch"), ("s", "")):
        if plain.endswith(ending) and len(plain) > len(ending) + 2 and not plain.endswith("ss"):
            return plain.removesuffix(ending) + instead
    return plain


@functools.lru_cache(4096)
def _key(text: str) -> tuple[str, ...]:
    """The words of a header that tell it apart: without units and small words, where others are left."""
    for plain in (_UNIT.sub(" ", text), text):
        words = [_stem(match[0]) for match in _WORD.finditer(plain)]
        if words:
            return tuple(dict.fromkeys([word for word in words if word not in _STOP] or words))
    return ()


def _named(headers: Mapping[int, str], asked: _Asked) -> _Names:
    """Which of several headers a question names. A header is named where all words are said that not each of the
    headers has; of one whose words are all another's too the other counts."""
    keys = {place: _key(text) for place, text in headers.items() if text}
    often = Counter(word for key in keys.values() for word in key)
    places: dict[str, list[int]] = {}
    for place, (_, _, word) in enumerate(asked.words):
        places.setdefault(word, []).append(place)
    full: dict[int, tuple[str, ...]] = {}
    order: dict[int, int] = {}
    for place, key in keys.items():
        telling = [word for word in key if often[word] < len(keys)] or key
        if all(word in places for word in telling):
            full[place] = tuple(telling)
        elif any(word in places for word in telling if word not in _STOP and len(word) > 1):
            order[place] = 1
    for place in list(full):
        inside = any(set(keys[place]) < set(keys[other]) for other in full)
        if inside and all(len(places[word]) == 1 for word in full[place]):
            del full[place]
            order[place] = 1
    # Where it is named: at the word that fewest headers have.
    first = {place: min((often[word], places[word][0]) for word in key)[1] for place, key in full.items()}
    ranked = {at: 2 + i for i, at in enumerate(sorted(set(first.values())))}
    order |= {place: min(ranked[at], _MOST) for place, at in first.items()}
    words = {at: order[place] for place, key in full.items() for word in key for at in places[word]}
    return _Names(order, words)


def _meets(number: tuple, word: tuple[int, int, str]) -> bool:
    return number[0] < word[1] and word[0] < number[1]


def _ranks(grid: _Grid) -> dict[Cell, dict[str, int]]:
    found: dict[Cell, dict[str, int]] = {}
    for axis, name in ((1, "column"), (0, "row")):
        for _, cells in _lines(grid, axis).items():
            ordered = sorted({grid.values[cell].number for cell in cells})
            for cell in cells if len(ordered) > 1 else ():
                at = ordered.index(grid.values[cell].number)
                place = found.setdefault(cell, {})
                place[f"{name}_rank"] = min(at + 1, _MOST)
                place[f"{name}_rank_back"] = min(len(ordered) - at, _MOST)
    return found


_TIME = re.compile(r"(?:\D*\b(?:FY|Q)?)((?:1[89]|20)\d\d|(?<=Q)[1-4])\b\D*", re.IGNORECASE)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


def _time(header: str) -> int | None:
    """What sorts a header that is a year, a quarter or a month; None of any other."""
    if match := _TIME.fullmatch(header.strip()):
        return int(match[1])
    word = header.strip()[:3].lower()
    return _MONTHS.index(word) if word in _MONTHS else None


def _moved(grid: _Grid) -> dict[Cell, dict[str, int]]:
    """How cells compare with those of the time before, where all headers of an axis but totals are times."""
    found: dict[Cell, dict[str, int]] = {}
    height, width = len(grid.rows), len(grid.rows[0])
    down = {r: _time(grid.rows[r][0]) for r in range(1, height) if r not in grid.total_rows}
    across = {c: _time(grid.rows[0][c]) for c in range(1, width) if c not in grid.total_columns}
    for axis, moments in ((0, down), (1, across)):
        known = {place: time for place, time in moments.items() if time is not None}
        if len(known) < len(moments) or len(set(known.values())) < max(2, len(known)):
            continue
        for before, place in itertools.pairwise(sorted(known, key=lambda place: known[place])):
            for cell, value in grid.values.items():
                other = grid.values.get((before, cell[1]) if axis == 0 else (cell[0], before))
                if cell[axis] == place and other is not None:
                    a, b = other.number, value.number
                    found[cell] = {"moved": 2 if b > a else 1 if b < a else 3}
    return found


def _among(grid: _Grid, down: _Names, across: _Names) -> dict[Cell, dict[str, int]]:
    """Ranks among the cells of a line that are named across it."""
    found: dict[Cell, dict[str, int]] = {}
    for axis, mine, others in ((0, down, across), (1, across, down)):
        for line, cells in _lines(grid, axis).items():
            named = [cell for cell in cells if others.order.get(cell[1 - axis], 0) > 1]
            if len(named) > 1 and (mine.order.get(line, 0) > 1 or not any(o > 1 for o in mine.order.values())):
                ordered = sorted({grid.values[cell].number for cell in named})
                for cell in named if len(ordered) > 1 else ():
                    found[cell] = {"named_rank": min(1 + ordered.index(grid.values[cell].number), _MOST)}
    return found


def _lines(grid: _Grid, axis: int) -> dict[int, list[Cell]]:
    """The cells with numbers of each column (axis 1) or row (axis 0), without totals."""
    lines: dict[int, list[Cell]] = {}
    for cell in grid.values:
        if cell[0] not in grid.total_rows and cell[1] not in grid.total_columns:
            lines.setdefault(cell[axis], []).append(cell)
    return lines


def _compared(value: Decimal, numbers: Iterable[tuple]) -> int:
    bits = 0
    for _, _, number, _, _ in numbers:
        bits |= 1 if value == number else 2 if value > number else 4
    return bits


def _spans(
    asked: _Asked, free: Sequence[tuple], grid: _Grid, down: _Names, across: _Names, own: Mapping[str, int]
) -> list[Span]:
    spans: list[Span] = []
    groups = _groups(grid, down, across) if free else []
    for number in free:
        spans.append((number[0], number[1], *_tuple(_of_number(number, free, groups, grid, down, across, own))))
    for place, (start, end, _) in enumerate(asked.words):
        if not any(number[0] < end and start < number[1] for number in free):
            known = {"row_named": down.words.get(place, 0), "column_named": across.words.get(place, 0)}
            if any(known.values()):
                spans.append((start, end, *_tuple(known)))
    return sorted(spans)


def _groups(grid: _Grid, down: _Names, across: _Names) -> list[tuple[list[Cell], list[Cell]]]:
    """(cells of a line, those of them that are named across it) of the lines that a question may mean: those that it
    names, or all."""
    found = []
    for axis, mine, others in ((1, across, down), (0, down, across)):
        lines = _lines(grid, axis)
        named = [line for line in lines if mine.order.get(line, 0) > 1]
        if not named and any(order > 1 for order in others.order.values()):
            continue
        for line in named or lines:
            cells = lines[line]
            found.append((cells, [cell for cell in cells if others.order.get(cell[1 - axis], 0) > 1]))
    return found


def _of_number(
    number: tuple,
    free: Sequence[tuple],
    groups: Sequence[tuple[list[Cell], list[Cell]]],
    grid: _Grid,
    down: _Names,
    across: _Names,
    own: Mapping[str, int],
) -> dict[str, int]:
    """What a number of the question is of the table."""
    _, _, value, decimals, _ = number
    known: dict[str, int] = {}

    def same(other: Decimal) -> bool:
        return abs(abs(other) - abs(value)) <= Decimal("0.5000001").scaleb(-decimals)

    for cell, other in grid.values.items():
        if other.number == value:
            rank = sum(names.order.get(at, 0) > 1 for names, at in ((down, cell[0]), (across, cell[1])))
            known["is_cell"] = max(known.get("is_cell", 0), 1 + rank)
    small = value == int(value) and 0 <= value <= 30 and decimals == 0
    for cells, named in groups:
        for part in (cells, named):
            numbers = [grid.values[cell].number for cell in part]
            if len(numbers) < 2:
                continue
            total = sum(numbers, Decimal(0))
            if total == value:
                known["is_sum"] = 1
            if same(total / len(numbers)):
                known["is_mean"] = 1
        pairs = itertools.islice(itertools.permutations(named if len(named) > 1 else cells, 2), _PAIRS)
        whole = sum((grid.values[cell].number for cell in cells), Decimal(0))
        for one, other in pairs:
            a, b = grid.values[one].number, grid.values[other].number
            if abs(a - b) == abs(value):
                known["is_difference"] = 1
            if b and (same(a / b) or same((a - b) / b * 100) or same(a / b * 100)):
                known["is_ratio"] = 1
        for cell in named or cells:
            if whole and same(grid.values[cell].number / whole * 100):
                known["is_ratio"] = 1
        above = sum(grid.values[cell].number > value for cell in cells)
        share = (
            1 if not above else 5 if above == len(cells) else 2 if above == 1 else 4 if above == len(cells) - 1 else 3
        )
        known["exceeded"] = share if known.get("exceeded", share) == share else 6
        if small and _counts(cells, value, number, free, grid):
            known["is_count"] = 1
    if small and _text_counts(value, grid, own):
        known["is_count"] = 1
    return known


def _counts(cells: Sequence[Cell], value: Decimal, number: tuple, free: Sequence[tuple], grid: _Grid) -> bool:
    """Whether so many cells of a line are more or less than another number of the question; without one, whether it
    has so many cells."""
    others = [other[2] for other in free if other is not number]
    if not others:
        return len(cells) == value
    numbers = [grid.values[cell].number for cell in cells]
    counts = [sum(map(test, numbers)) for limit in others for test in (limit.__lt__, limit.__gt__, limit.__eq__)]
    return value in counts


def _text_counts(value: Decimal, grid: _Grid, own: Mapping[str, int]) -> bool:
    named = [text for text, order in own.items() if order > 1]
    return any(sum(row.count(text) for row in grid.rows[1:]) == value for text in named)
