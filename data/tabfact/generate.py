"""A seeded stand-in for TabFact: small tables on invented clubs, towns and ships, and statements that each table
entails or refutes, in the files' form.

The statements of one table are all simple (what one cell holds) or all complex (comparison, superlative, count, sum),
as the release tells tables apart. Every statement comes with its opposite: the same words but for one cell, name or
number, so that neither a template nor a label is likelier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

STATEMENTS = 8  # of a table, half of them entailed
ABSENT = 0.75  # of the wrong numbers and countries: how many stand nowhere in their column
BEYOND = 0.5  # of such numbers, and of wrong sums: how many lie beyond what the column can hold
FARTHEST = 20  # times its largest number
ROWS = (3, 5)
_ONSETS = "bar cal dor fen gar hol kel lor mar nor pel ros tar vel win zor".split()
_ENDS = "burg dale ford ham mere mouth stad ton vik wick".split()
_PLACES = "norway spain brazil kenya japan canada peru ghana iran chile italy egypt nepal cuba fiji laos".split()


class Column(NamedTuple):
    """A column of numbers: its name, their range, and how they are written."""

    name: str
    low: int
    high: int
    write: Callable[[int], str]


class Topic(NamedTuple):
    """What a table is about: its caption, what a row is (one, several), its columns of numbers."""

    caption: str
    one: str
    many: str
    columns: tuple[Column, ...]


def _plain(value: int) -> str:
    return str(value)


def _commas(value: int) -> str:
    return f"{value:,}"


def _tenths(value: int) -> str:
    return f"{value // 10}.{value % 10}"


TOPICS = (
    Topic(
        "final standings",
        "club",
        "clubs",
        (Column("points", 10, 99, _plain), Column("wins", 1, 30, _plain), Column("attendance", 900, 45_000, _commas)),
    ),
    Topic(
        "towns of the district",
        "town",
        "towns",
        (
            Column("population", 300, 90_000, _commas),
            Column("area", 11, 999, _tenths),
            Column("schools", 1, 40, _plain),
        ),
    ),
    Topic(
        "ships of the line",
        "ship",
        "ships",
        (Column("guns", 8, 120, _plain), Column("crew", 40, 900, _plain), Column("length", 201, 799, _tenths)),
    ),
)
Pair = tuple[str, str]  # a statement that the table entails, and one that it refutes


def release(count: int, seed: int) -> tuple[dict[str, list], dict[str, str], dict[str, str]]:
    """(val_examples.json's {ID: [[statement], [label], caption]}, ID → its file's text, ID → "simple" or "complex").

    Args:
      count: statements, rounded up to whole tables. seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    examples: dict[str, list] = {}
    texts: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for number in range(-(-count // STATEMENTS)):
        name = f"0-{seed}-{number}.html.csv"
        kinds[name] = ("simple", "complex")[number % 2]
        topic = TOPICS[int(rng.integers(len(TOPICS)))]
        table = _Table(topic, rng)
        makers = SIMPLE if kinds[name] == "simple" else COMPLEX
        pairs = _different(table, makers, rng)
        statements = [statement for pair in pairs for statement in pair]
        labels = [1, 0] * len(pairs)
        order = rng.permutation(len(statements)).tolist()
        examples[name] = [[statements[i] for i in order], [labels[i] for i in order], topic.caption]
        texts[name] = table.text()
    return examples, texts, kinds


class _Table:
    """A table in the making: a name, a place and two columns of numbers a row; no number twice in its column."""

    def __init__(self, topic: Topic, rng: np.random.Generator):
        count = int(rng.integers(ROWS[0], ROWS[1] + 1))
        places = rng.permutation(len(_ONSETS) * len(_ENDS))[:count].tolist()
        self.topic = topic
        self.names = [_ONSETS[place % len(_ONSETS)] + _ENDS[place // len(_ONSETS)] for place in places]
        self.places = [_PLACES[i] for i in rng.integers(len(_PLACES), size=count).tolist()]
        chosen = sorted(rng.permutation(len(topic.columns))[:2].tolist())
        self.columns = [topic.columns[i] for i in chosen]
        self.values = [
            (c.low + rng.permutation(c.high - c.low + 1)[:count]).tolist() for c in self.columns
        ]  # fmt: skip

    def text(self) -> str:
        """Its file."""
        rows = [[self.topic.one, "country", *(column.name for column in self.columns)]]
        for i, name in enumerate(self.names):
            numbers = (column.write(values[i]) for column, values in zip(self.columns, self.values, strict=True))
            rows.append([name, self.places[i], *numbers])
        return "".join("#".join(row) + "\n" for row in rows)

    def column(self, rng: np.random.Generator) -> tuple[Column, Sequence[int]]:
        at = int(rng.integers(len(self.columns)))
        return self.columns[at], self.values[at]

    def two(self, rng: np.random.Generator) -> tuple[int, int]:
        """Two different rows."""
        first, second = rng.permutation(len(self.names))[:2].tolist()
        return first, second


def _different(table: _Table, makers: Sequence[Callable], rng: np.random.Generator) -> list[Pair]:
    """Pairs of which no two share a statement."""
    pairs: list[Pair] = []
    seen: set[str] = set()
    for maker in _rounds(makers, rng):
        pair = maker(table, rng)
        if seen.isdisjoint(pair):
            seen.update(pair)
            pairs.append(pair)
        if len(pairs) == STATEMENTS // 2:
            return pairs
    raise AssertionError("makers never end")


def _rounds(makers: Sequence[Callable], rng: np.random.Generator) -> Iterator[Callable]:
    while True:
        for i in rng.permutation(len(makers)).tolist():
            yield makers[i]


def _holds(table: _Table, rng: np.random.Generator) -> Pair:
    """A number of a row; the opposite has a wrong one."""
    column, values = table.column(rng)
    row, other = table.two(rng)
    wrong = _absent(column, values, rng) if rng.random() < ABSENT else values[other]
    if rng.integers(2):
        said = f"the {column.name} of {table.names[row]} be "
        return said + column.write(values[row]), said + column.write(wrong)
    numbers = column.write(values[row]), column.write(wrong)
    right, false = (f"{table.names[row]} have {number} {column.name}" for number in numbers)
    return right, false


def _absent(column: Column, values: Sequence[int], rng: np.random.Generator) -> int:
    if rng.random() < BEYOND:
        return _beyond(column.high, rng)
    while True:
        drawn = int(rng.integers(column.low, column.high + 1))
        if drawn not in values:
            return drawn


def _beyond(high: int, rng: np.random.Generator) -> int:
    return int(rng.integers(high + 1, FARTHEST * high + 1))


def _country(table: _Table, rng: np.random.Generator) -> Pair:
    """Where a row is from; the opposite has another country."""
    row = int(rng.integers(len(table.names)))
    present = sorted({*table.places} - {table.places[row]})
    others = [place for place in _PLACES if place not in table.places]
    if present and rng.random() >= ABSENT:
        others = present
    said = f"{table.names[row]} be from "
    return said + table.places[row], said + others[int(rng.integers(len(others)))]


def _row(table: _Table, rng: np.random.Generator) -> Pair:
    """A whole row; the opposite has only its name right."""
    row, other = table.two(rng)
    elsewhere = [place for place in _PLACES if place not in table.places]
    right, wrong = [table.places[row]], [elsewhere[int(rng.integers(len(elsewhere)))]]
    if rng.random() >= ABSENT:
        wrong = [table.places[other]]
    for column, values in zip(table.columns, table.values, strict=True):
        right.append(column.write(values[row]))
        wrong.append(column.write(_absent(column, values, rng) if rng.random() < ABSENT else values[other]))
    first, second = (column.name for column in table.columns)
    cells = (f"from {place} have {a} {first} and {b} {second}" for place, a, b in (right, wrong))
    true, false = (f"{table.names[row]} {cell}" for cell in cells)
    return true, false


def _compared(table: _Table, rng: np.random.Generator) -> Pair:
    """Two rows; the opposite has them the other way round."""
    column, values = table.column(rng)
    more, less = sorted(table.two(rng), key=lambda i: -values[i])
    said = f" have more {column.name} than "
    if rng.integers(2):
        more, less, said = less, more, f" have less {column.name} than "
    names = table.names[more], table.names[less]
    return said.join(names), said.join(reversed(names))


def _superlative(table: _Table, rng: np.random.Generator) -> Pair:
    """The row with the largest or the least number; the opposite names another row."""
    column, values = table.column(rng)
    largest = bool(rng.integers(2))
    best = int(np.argmax(values) if largest else np.argmin(values))
    others = [i for i in range(len(values)) if i != best]
    said = f" have the {'highest' if largest else 'lowest'} {column.name}"
    return table.names[best] + said, table.names[others[rng.integers(len(others))]] + said


def _counted(table: _Table, rng: np.random.Generator) -> Pair:
    """How many rows are above a number; the opposite has another digit, which may be more than there are rows."""
    column, values = table.column(rng)
    limit = values[int(rng.integers(len(values)))]
    right = sum(value > limit for value in values)
    wrong = (right + int(rng.integers(1, 10))) % 10
    said = f"{table.topic.many} have more than {column.write(limit)} {column.name}"
    return f"{right} {said}", f"{wrong} {said}"


def _summed(table: _Table, rng: np.random.Generator) -> Pair:
    """The sum of two rows; the opposite is that of other two, or as often more than any two have."""
    column, values = table.column(rng)
    first, second = table.two(rng)
    right = values[first] + values[second]
    sums = {a + b for i, a in enumerate(values) for b in values[:i]} - {right}
    wrong = sorted(sums)[int(rng.integers(len(sums)))]
    if rng.random() < BEYOND:
        wrong = _beyond(2 * column.high, rng)
    said = f"{table.names[first]} and {table.names[second]} have a total {column.name} of "
    return said + column.write(right), said + column.write(wrong)


SIMPLE: tuple[Callable[[Any, np.random.Generator], Pair], ...] = (_row, _row, _holds, _country)
COMPLEX: tuple[Callable[[Any, np.random.Generator], Pair], ...] = (_compared, _superlative, _counted, _summed)
