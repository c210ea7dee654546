"""A seeded stand-in for TabFact in the files' form: small tables about invented clubs, towns and ships, and
statements that each table entails or refutes.

As in the release, the statements of one table are all simple (the content of one cell) or all complex (comparison,
superlative, count, sum). Every statement has an opposite, which differs in one cell, name or number, so that both
labels are equally likely for every template.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

STATEMENTS = 8  # of a table, half of them entailed
ABSENT_SHARE = 0.75  # share of the wrong numbers and countries that are absent from their column
BEYOND_SHARE = 0.5  # share of such numbers, and of wrong sums, that are larger than the column's range
FARTHEST = 20  # times the column's largest possible number
ROWS = (3, 5)
_ONSETS = "bar cal dor fen gar hol kel lor mar nor pel ros tar vel win zor".split()
_ENDS = "burg dale ford ham mere mouth stad ton vik wick".split()
_COUNTRIES = "norway spain brazil kenya japan canada peru ghana iran chile italy egypt nepal cuba fiji laos".split()


class NumberColumn(NamedTuple):
    """A column of numbers: its name, the range of the numbers, and a function that writes them."""

    name: str
    low: int
    high: int
    write: Callable[[int], str]


class Topic(NamedTuple):
    """The topic of a table: its caption, the noun for a row, its columns of numbers."""

    caption: str
    singular: str
    plural: str
    columns: tuple[NumberColumn, ...]


def _write_integer(value: int) -> str:
    return str(value)


def _write_grouped(value: int) -> str:
    return f"{value:,}"


def _write_tenths(value: int) -> str:
    return f"{value // 10}.{value % 10}"


TOPICS = (
    Topic(
        "final standings",
        "club",
        "clubs",
        (
            NumberColumn("points", 10, 99, _write_integer),
            NumberColumn("wins", 1, 30, _write_integer),
            NumberColumn("attendance", 900, 45_000, _write_grouped),
        ),
    ),
    Topic(
        "towns of the district",
        "town",
        "towns",
        (
            NumberColumn("population", 300, 90_000, _write_grouped),
            NumberColumn("area", 11, 999, _write_tenths),
            NumberColumn("schools", 1, 40, _write_integer),
        ),
    ),
    Topic(
        "ships of the line",
        "ship",
        "ships",
        (
            NumberColumn("guns", 8, 120, _write_integer),
            NumberColumn("crew", 40, 900, _write_integer),
            NumberColumn("length", 201, 799, _write_tenths),
        ),
    ),
)
Pair = tuple[str, str]  # a statement that the table entails, and one that it refutes


def make_release(count: int, seed: int) -> tuple[dict[str, list], dict[str, str], dict[str, str]]:
    """Returns a stand-in for the release.

    Args:
      count: number of statements, rounded up to whole tables. seed: of everything random.

    Returns:
      ({ID: [[statement], [label], caption]} as in val_examples.json, ID → text of the table's file, ID → "simple" or
      "complex").
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
        pairs = _draw_pairs(table, makers, rng)
        statements = [statement for pair in pairs for statement in pair]
        labels = [1, 0] * len(pairs)
        order = rng.permutation(len(statements)).tolist()
        examples[name] = [[statements[i] for i in order], [labels[i] for i in order], topic.caption]
        texts[name] = table.format_file()
    return examples, texts, kinds


class _Table:
    """A random table: a name, a country and two numbers in each row; the numbers of a column all differ."""

    def __init__(self, topic: Topic, rng: np.random.Generator):
        count = int(rng.integers(ROWS[0], ROWS[1] + 1))
        indices = rng.permutation(len(_ONSETS) * len(_ENDS))[:count].tolist()
        self.topic = topic
        self.names = [_ONSETS[index % len(_ONSETS)] + _ENDS[index // len(_ONSETS)] for index in indices]
        self.countries = [_COUNTRIES[i] for i in rng.integers(len(_COUNTRIES), size=count).tolist()]
        column_indices = sorted(rng.permutation(len(topic.columns))[:2].tolist())
        self.columns = [topic.columns[i] for i in column_indices]
        self.values = [
            (c.low + rng.permutation(c.high - c.low + 1)[:count]).tolist() for c in self.columns
        ]  # fmt: skip

    def format_file(self) -> str:
        """Returns the text of the table's file."""
        rows = [[self.topic.singular, "country", *(column.name for column in self.columns)]]
        for i, name in enumerate(self.names):
            numbers = (column.write(values[i]) for column, values in zip(self.columns, self.values, strict=True))
            rows.append([name, self.countries[i], *numbers])
        return "".join("#".join(row) + "\n" for row in rows)

    def draw_column(self, rng: np.random.Generator) -> tuple[NumberColumn, Sequence[int]]:
        index = int(rng.integers(len(self.columns)))
        return self.columns[index], self.values[index]

    def draw_two_rows(self, rng: np.random.Generator) -> tuple[int, int]:
        """Draws two different rows."""
        first, second = rng.permutation(len(self.names))[:2].tolist()
        return first, second


def _draw_pairs(table: _Table, makers: Sequence[Callable], rng: np.random.Generator) -> list[Pair]:
    """Draws pairs of which no two share a statement."""
    pairs: list[Pair] = []
    statements: set[str] = set()
    for maker in _cycle(makers, rng):
        pair = maker(table, rng)
        if statements.isdisjoint(pair):
            statements.update(pair)
            pairs.append(pair)
        if len(pairs) == STATEMENTS // 2:
            return pairs
    raise AssertionError("makers never end")


def _cycle(makers: Sequence[Callable], rng: np.random.Generator) -> Iterator[Callable]:
    while True:
        for i in rng.permutation(len(makers)).tolist():
            yield makers[i]


def _state_number(table: _Table, rng: np.random.Generator) -> Pair:
    """States a number of a row; the opposite has a wrong number."""
    column, values = table.draw_column(rng)
    row, other = table.draw_two_rows(rng)
    wrong = _draw_absent(column, values, rng) if rng.random() < ABSENT_SHARE else values[other]
    if rng.integers(2):
        prefix = f"the {column.name} of {table.names[row]} be "
        return prefix + column.write(values[row]), prefix + column.write(wrong)
    numbers = column.write(values[row]), column.write(wrong)
    right, false = (f"{table.names[row]} have {number} {column.name}" for number in numbers)
    return right, false


def _draw_absent(column: NumberColumn, values: Sequence[int], rng: np.random.Generator) -> int:
    if rng.random() < BEYOND_SHARE:
        return _draw_beyond(column.high, rng)
    while True:
        number = int(rng.integers(column.low, column.high + 1))
        if number not in values:
            return number


def _draw_beyond(high: int, rng: np.random.Generator) -> int:
    return int(rng.integers(high + 1, FARTHEST * high + 1))


def _state_country(table: _Table, rng: np.random.Generator) -> Pair:
    """States the country of a row; the opposite has another country."""
    row = int(rng.integers(len(table.names)))
    other_countries = sorted({*table.countries} - {table.countries[row]})
    alternatives = [country for country in _COUNTRIES if country not in table.countries]
    if other_countries and rng.random() >= ABSENT_SHARE:
        alternatives = other_countries
    prefix = f"{table.names[row]} be from "
    return prefix + table.countries[row], prefix + alternatives[int(rng.integers(len(alternatives)))]


def _state_row(table: _Table, rng: np.random.Generator) -> Pair:
    """States a whole row; in the opposite only the name is right."""
    row, other = table.draw_two_rows(rng)
    absent_countries = [country for country in _COUNTRIES if country not in table.countries]
    right, wrong = [table.countries[row]], [absent_countries[int(rng.integers(len(absent_countries)))]]
    if rng.random() >= ABSENT_SHARE:
        wrong = [table.countries[other]]
    for column, values in zip(table.columns, table.values, strict=True):
        right.append(column.write(values[row]))
        wrong.append(
            column.write(_draw_absent(column, values, rng) if rng.random() < ABSENT_SHARE else values[other])
        )
    first, second = (column.name for column in table.columns)
    cells = (f"from {country} have {a} {first} and {b} {second}" for country, a, b in (right, wrong))
    true, false = (f"{table.names[row]} {cell}" for cell in cells)
    return true, false


def _compare_rows(table: _Table, rng: np.random.Generator) -> Pair:
    """Compares two rows; the opposite exchanges them."""
    column, values = table.draw_column(rng)
    larger, smaller = sorted(table.draw_two_rows(rng), key=lambda i: -values[i])
    comparison = f" have more {column.name} than "
    if rng.integers(2):
        larger, smaller, comparison = smaller, larger, f" have less {column.name} than "
    names = table.names[larger], table.names[smaller]
    return comparison.join(names), comparison.join(reversed(names))


def _state_superlative(table: _Table, rng: np.random.Generator) -> Pair:
    """States the row with the largest or smallest number; the opposite names another row."""
    column, values = table.draw_column(rng)
    is_largest = bool(rng.integers(2))
    best = int(np.argmax(values) if is_largest else np.argmin(values))
    other_rows = [i for i in range(len(values)) if i != best]
    predicate = f" have the {'highest' if is_largest else 'lowest'} {column.name}"
    return table.names[best] + predicate, table.names[other_rows[rng.integers(len(other_rows))]] + predicate


def _count_rows(table: _Table, rng: np.random.Generator) -> Pair:
    """States how many rows are above a number; the opposite has another digit, which may exceed the row count."""
    column, values = table.draw_column(rng)
    limit = values[int(rng.integers(len(values)))]
    right = sum(value > limit for value in values)
    wrong = (right + int(rng.integers(1, 10))) % 10
    predicate = f"{table.topic.plural} have more than {column.write(limit)} {column.name}"
    return f"{right} {predicate}", f"{wrong} {predicate}"


def _sum_rows(table: _Table, rng: np.random.Generator) -> Pair:
    """States the sum of two rows; the opposite is that of two others, or in half of the cases a larger number."""
    column, values = table.draw_column(rng)
    first, second = table.draw_two_rows(rng)
    right = values[first] + values[second]
    sums = {a + b for i, a in enumerate(values) for b in values[:i]} - {right}
    wrong = sorted(sums)[int(rng.integers(len(sums)))]
    if rng.random() < BEYOND_SHARE:
        wrong = _draw_beyond(2 * column.high, rng)
    prefix = f"{table.names[first]} and {table.names[second]} have a total {column.name} of "
    return prefix + column.write(right), prefix + column.write(wrong)


SIMPLE: tuple[Callable[[Any, np.random.Generator], Pair], ...] = (
    _state_row,
    _state_row,
    _state_number,
    _state_country,
)
COMPLEX: tuple[Callable[[Any, np.random.Generator], Pair], ...] = (
    _compare_rows,
    _state_superlative,
    _count_rows,
    _sum_rows,
)
