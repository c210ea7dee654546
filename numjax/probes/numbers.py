"""Numbers of tables, singly, in pairs and in triples, with what is asked of them: the data of LUNA's probes.

A pair or a triple comes from one row or column of a table; its numbers differ in value and are all per cent or none.

Legend: V distinct number strings, N examples, k numbers an example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from numjax.errors import DataError
from numjax.types import Span

LOW, HIGH = -2, 7  # exponents beyond count as these
KINDS = ("single", "pair", "triple")
# What is asked, and the place in `KINDS` of what it is asked of.
KIND_OF = {"decode": 0, "add": 1, "subtract": 1, "max": 2}
HELD = 0.1  # of the number strings, for validation and for test each
Grid = Sequence[Sequence[str]]


class Lines(NamedTuple):
    """Rows and columns of tables, those with per cent apart.

    Attributes:
      literals: V distinct number strings; values: float64[V].
      items: int32[...], numbers line after line, no value twice in a line. starts: int64[L + 1], where each begins.
      cells: int32[...], the number of every cell that has one, as often as it is there.
    """

    literals: list[str]
    values: np.ndarray
    items: np.ndarray
    starts: np.ndarray
    cells: np.ndarray


class Asked(NamedTuple):
    """Examples of one split by kind, int32[N, k]."""

    single: np.ndarray
    pair: np.ndarray
    triple: np.ndarray


class Target(NamedTuple):
    """significand: float32[N], signed, as d.dddddd; exponent: int32[N], class 0 … 9."""

    significand: np.ndarray
    exponent: np.ndarray


def lines_of(
    tables: Iterable[Grid], find: Callable[[str], list[Span]], longest: int, known: Lines | None = None
) -> Lines:
    """The numbers of cells that hold exactly one, as `find` (a rule of `numjax.numeral`) reads them.

    Args:
      longest: characters; longer numbers are left out.
      known: lines read before, whose numbering is gone on with.
    """
    literals = list(known.literals) if known else []
    place = {literal: at for at, literal in enumerate(literals)}
    values = list(known.values) if known else []
    items: list[int] = []
    starts, cells = [0], []
    for grid in tables:
        found = [[_number(cell, find, longest, place, literals, values) for cell in row] for row in grid]
        cells += [number for row in found for number in row if number >= 0]
        width = max(map(len, found), default=0)
        columns = [[row[at] for row in found if at < len(row)] for at in range(width)]
        for line in (*found, *columns):
            for percent in (False, True):
                seen = {
                    values[number]: number
                    for number in line
                    if number >= 0 and literals[number].endswith("%") == percent
                }
                if len(seen) > 1:
                    items += seen.values()
                    starts.append(len(items))
    return Lines(
        literals, np.asarray(values, np.float64), np.asarray(items, np.int32), np.asarray(starts), np.asarray(cells)
    )


def _number(cell, find, longest, place, literals, values) -> int:
    if not any(map(str.isdigit, cell)):
        return -1
    found = find(cell)
    if len(found) != 1 or len(found[0].text) > longest:
        return -1
    literal = found[0].text
    if literal not in place:
        place[literal] = len(literals)
        literals.append(literal)
        values.append(float(found[0].value))
    return place[literal]


def draw(lines: Lines, kind: str, count: int, rng: np.random.Generator) -> np.ndarray:
    """Examples with replacement, int32[count, k]: a cell with a number, or numbers of a line, in random order.

    A line is drawn as often as it has numbers.

    Raises:
      DataError: no line has enough of them.
    """
    size = 1 + KINDS.index(kind)
    if size == 1:
        if not len(lines.cells):
            raise DataError("the tables hold no number in a cell of its own")
        return rng.choice(lines.cells, count)[:, None].astype(np.int32)
    many = np.diff(lines.starts)
    able = np.flatnonzero(many >= size)
    if not len(able):
        raise DataError(f"no row or column of the tables holds {size} different numbers")
    chosen = rng.choice(able, count, p=many[able] / many[able].sum())
    # The first k of a random order of a line: the k least of as many random keys as it has numbers.
    out = np.full((count, size), -1, np.int64)
    for at in range(size):
        drawn = np.floor(rng.random(count) * (many[chosen] - at)).astype(np.int64)
        # Skip what is taken, in ascending order.
        for taken in np.sort(out[:, :at], axis=1).T:
            drawn += drawn >= taken
        out[:, at] = drawn
    return lines.items[lines.starts[chosen][:, None] + out]


def published(sources: Sequence[Lines], count: int, rng: np.random.Generator) -> tuple[Asked, Asked]:
    """(training, test) as released: as many of each source, one source after the other, the first 80% for training.

    The test examples are therefore all of the last source, and what is drawn twice may lie in both.
    """
    parts = [np.concatenate([draw(lines, kind, count // len(sources), rng) for lines in sources]) for kind in KINDS]
    cut = [int(0.8 * len(part)) for part in parts]
    return (
        Asked(*(part[:at] for part, at in zip(parts, cut, strict=True))),
        Asked(*(part[at:] for part, at in zip(parts, cut, strict=True))),
    )


def parted(sources: Sequence[Lines], count: int, rng: np.random.Generator) -> tuple[Asked, Asked, Asked]:
    """(training, validation, test) without repetition: values are parted, and an example goes with them.

    Each value, however it is spelled ("30", "30.0"), is for training, validation or test. An example with a test
    value is a test example, else one with a validation value a validation example: all that is held out has a number
    never seen. Single numbers are `count` of all strings, whatever their frequency; pairs and triples are drawn so
    often and kept once, in whatever order.
    """
    last = sources[-1]  # knows the strings of those before it
    values, value_of = np.unique(last.values, return_inverse=True)
    split = np.searchsorted([1 - 2 * HELD, 1 - HELD], rng.random(len(values)), side="right")[value_of]
    made: list[list[np.ndarray]] = [[], [], []]
    for kind in KINDS:
        if kind == "single":
            drawn = rng.permutation(len(last.literals))[:count, None].astype(np.int32)
        else:
            drawn = np.concatenate([draw(lines, kind, count // len(sources), rng) for lines in sources])
        _, first = np.unique(np.sort(drawn, axis=1), axis=0, return_index=True)
        once = drawn[rng.permutation(first)]
        worst = split[once].max(axis=1)
        for place, found in enumerate(made):
            found.append(once[worst == place])
    return Asked(*made[0]), Asked(*made[1]), Asked(*made[2])


def answer(values: np.ndarray) -> Target:
    """Significand and exponent of float64[N], from seven digits as written: never from a logarithm."""
    written = [f"{value:.6e}".split("e") for value in values.tolist()]
    significand = np.asarray([float(mantissa) for mantissa, _ in written], np.float32)
    exponent = np.asarray([int(power) for _, power in written], np.int32)
    return Target(significand, np.clip(exponent, LOW, HIGH) - LOW)


def targets(values: np.ndarray, asked: Asked) -> dict[str, Target | np.ndarray]:
    """What is asked: "decode", "add" and "subtract" are `Target`s, "max" the place of the largest, int32[N]."""
    a, b = values[asked.pair].T
    return {
        "decode": answer(values[asked.single[:, 0]]),
        "add": answer(a + b),
        "subtract": answer(a - b),
        "max": values[asked.triple].argmax(axis=1).astype(np.int32),
    }
