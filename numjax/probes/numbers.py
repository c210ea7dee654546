"""Single numbers, pairs and triples of numbers from tables, with targets: the data of LUNA's probes.

The numbers of a pair or triple come from one row or column of a table. Their values differ, and either all of them
are percentages or none is.

Legend: V distinct number strings, N examples, k numbers an example.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import DataError
from numjax.types import Span

LOW, HIGH = -2, 7  # exponents beyond these are clipped
KINDS = ("single", "pair", "triple")
# Task → the index in `KINDS` of the examples that it uses.
KIND_OF = {"decode": 0, "add": 1, "subtract": 1, "max": 2}
HELD_OUT = 0.1  # share of the number values, each for validation and for test
Grid = Sequence[Sequence[str]]


class TableLines(NamedTuple):
    """Lines (rows and columns) of tables. Percentages are a line of their own.

    Attributes:
      literals: V distinct number strings. values: float64[V].
      items: int32[...], the numbers of all lines, one line after another; no value is twice in a line.
      starts: int64[L + 1], where each line starts in `items`.
      cells: int32[...], the number of every cell that has one, with repetitions.
    """

    literals: list[str]
    values: np.ndarray
    items: np.ndarray
    starts: np.ndarray
    cells: np.ndarray


class ExamplesByKind(NamedTuple):
    """Examples of one split by kind, int32[N, k]."""

    single: np.ndarray
    pair: np.ndarray
    triple: np.ndarray


class Target(NamedTuple):
    """significand: float32[N], signed, as d.dddddd; exponent: int32[N], class 0 … 9."""

    significand: np.ndarray
    exponent: np.ndarray


def collect_lines(
    tables: Iterable[Grid], find: Callable[[str], list[Span]], longest: int, earlier: TableLines | None = None
) -> TableLines:
    """Collects the numbers of all cells with exactly one number, as `find` (a rule of `numjax.numeral`) parses it.

    Args:
      longest: in characters; longer numbers are left out, and so are those whose sums float64 cannot hold.
      earlier: lines collected before; the new ones continue their numbering.
    """
    literals = list(earlier.literals) if earlier else []
    index = {literal: i for i, literal in enumerate(literals)}
    values = list(earlier.values) if earlier else []
    items: list[int] = []
    starts, cells = [0], []
    for grid in tables:
        rows = [[_index_number(cell, find, longest, index, literals, values) for cell in row] for row in grid]
        cells += [number for row in rows for number in row if number >= 0]
        width = max(map(len, rows), default=0)
        columns = [[row[i] for row in rows if i < len(row)] for i in range(width)]
        for line in (*rows, *columns):
            for percent in (False, True):
                by_value = {
                    values[number]: number
                    for number in line
                    if number >= 0 and literals[number].endswith("%") == percent
                }
                if len(by_value) > 1:
                    items += by_value.values()
                    starts.append(len(items))
    return TableLines(
        literals, np.asarray(values, np.float64), np.asarray(items, np.int32), np.asarray(starts), np.asarray(cells)
    )


def _index_number(cell, find, longest, index, literals, values) -> int:
    if not any(map(str.isdigit, cell)):
        return -1
    spans = find(cell)
    if len(spans) != 1 or len(spans[0].text) > longest:
        return -1
    literal = spans[0].text
    if literal not in index:
        value = float(spans[0].value)
        if not math.isfinite(2 * value):  # the sum of two numbers is a target
            return -1
        index[literal] = len(literals)
        literals.append(literal)
        values.append(value)
    return index[literal]


def draw_examples(lines: TableLines, kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Draws examples with replacement, int32[count, k]: the number of a cell, or numbers of a line in random order.

    The probability of a line is proportional to its count of numbers.

    Raises:
      DataError: no line has enough numbers.
    """
    size = 1 + KINDS.index(kind)
    if size == 1:
        if not len(lines.cells):
            raise DataError("the tables hold no number in a cell of its own")
        return rng.choice(lines.cells, count)[:, None].astype(np.int32)
    lengths = np.diff(lines.starts)
    long_enough = np.flatnonzero(lengths >= size)
    if not len(long_enough):
        raise DataError(f"no row or column of the tables holds {size} different numbers")
    line_ids = rng.choice(long_enough, count, p=lengths[long_enough] / lengths[long_enough].sum())
    # k different positions of a line, one after the other.
    offsets = np.full((count, size), -1, np.int64)
    for column in range(size):
        offset = np.floor(rng.random(count) * (lengths[line_ids] - column)).astype(np.int64)
        # Skip the earlier positions, in ascending order.
        for earlier in np.sort(offsets[:, :column], axis=1).T:
            offset += offset >= earlier
        offsets[:, column] = offset
    return lines.items[lines.starts[line_ids][:, None] + offsets]


def split_as_published(
    sources: Sequence[TableLines], count: int, rng: np.random.Generator
) -> tuple[ExamplesByKind, ExamplesByKind]:
    """Splits into (training, test) as the released code does.

    It draws the same count from each source, one source after the other. The first 80% are for training. So all test
    examples are from the last source, and an example that is drawn twice may be in both.
    """
    parts = [
        np.concatenate([draw_examples(lines, kind, count // len(sources), rng) for lines in sources])
        for kind in KINDS
    ]
    sizes = [int(0.8 * len(part)) for part in parts]
    return (
        ExamplesByKind(*(part[:size] for part, size in zip(parts, sizes, strict=True))),
        ExamplesByKind(*(part[size:] for part, size in zip(parts, sizes, strict=True))),
    )


def split_by_value(
    sources: Sequence[TableLines], count: int, rng: np.random.Generator
) -> tuple[ExamplesByKind, ExamplesByKind, ExamplesByKind]:
    """Splits into (training, validation, test) by value, without repetition.

    Each value, however it is written ("30", "30.0"), is for training, validation or test. An example with a test
    value is a test example. Else an example with a validation value is a validation example. So each held-out example
    has a number that training does not have. Single numbers are `count` of all strings, whatever their frequency.
    Pairs and triples are drawn `count` times; repetitions, in any order, count once.
    """
    last = sources[-1]  # has the strings of all sources
    values, value_of = np.unique(last.values, return_inverse=True)
    split = np.searchsorted([1 - 2 * HELD_OUT, 1 - HELD_OUT], rng.random(len(values)), side="right")[value_of]
    parts: list[list[np.ndarray]] = [[], [], []]
    for kind in KINDS:
        if kind == "single":
            draws = rng.permutation(len(last.literals))[:count, None].astype(np.int32)
        else:
            draws = np.concatenate([draw_examples(lines, kind, count // len(sources), rng) for lines in sources])
        _, first = np.unique(np.sort(draws, axis=1), axis=0, return_index=True)
        distinct = draws[rng.permutation(first)]
        part_index = split[distinct].max(axis=1)
        for index, part in enumerate(parts):
            part.append(distinct[part_index == index])
    return ExamplesByKind(*parts[0]), ExamplesByKind(*parts[1]), ExamplesByKind(*parts[2])


def make_target(values: np.ndarray) -> Target:
    """Makes significand and exponent of float64[N], from seven written digits, not from a logarithm."""
    digits = [f"{value:.6e}".split("e") for value in values.tolist()]
    significand = np.asarray([float(mantissa) for mantissa, _ in digits], np.float32)
    exponent = np.asarray([int(power) for _, power in digits], np.int32)
    return Target(significand, np.clip(exponent, LOW, HIGH) - LOW)


def make_targets(values: np.ndarray, examples: ExamplesByKind) -> dict[str, Target | np.ndarray]:
    """Makes `Target`s for "decode", "add" and "subtract"; for "max" the index of the largest, int32[N]."""
    a, b = values[examples.pair].T
    return {
        "decode": make_target(values[examples.single[:, 0]]),
        "add": make_target(a + b),
        "subtract": make_target(a - b),
        "max": values[examples.triple].argmax(axis=1).astype(np.int32),
    }
