"""Statements that compare two numbers, true or false (NumGPT, GNC task)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ..sampling import compute_split_sizes, count_per_group, draw_unique_rows, log_uniform

NAME = "gnc"


class ComparisonTemplate(NamedTuple):
    """A statement about {a} and {b}; it is true if `relation` holds. Numbers are in [low, high]."""

    text: str
    relation: str  # "less": a < b; "more": a > b
    low: int
    high: int


TEMPLATES = (
    ComparisonTemplate("Someone aged {a} is younger than someone aged {b}.", "less", 15, 104),
    ComparisonTemplate("Someone aged {a} is older than someone aged {b}.", "more", 15, 104),
    ComparisonTemplate("A rope of {a} centimetres is shorter than a rope of {b} centimetres.", "less", 1, 10_000),
    ComparisonTemplate("A rope of {a} centimetres is longer than a rope of {b} centimetres.", "more", 1, 10_000),
    ComparisonTemplate("A hill of {a} metres stands lower than a hill of {b} metres.", "less", 20, 8_800),
    ComparisonTemplate("A hill of {a} metres stands higher than a hill of {b} metres.", "more", 20, 8_800),
    ComparisonTemplate("A parcel weighing {a} grams is lighter than one weighing {b} grams.", "less", 1, 100_000),
    ComparisonTemplate("A parcel weighing {a} grams is heavier than one weighing {b} grams.", "more", 1, 100_000),
    ComparisonTemplate(
        "A town of {a} people has fewer inhabitants than a town of {b} people.", "less", 100, 10_000_000
    ),
    ComparisonTemplate(
        "A town of {a} people has more inhabitants than a town of {b} people.", "more", 100, 10_000_000
    ),
    ComparisonTemplate("At {a} dollars, it is cheaper than at {b} dollars.", "less", 1, 1_000_000),
    ComparisonTemplate("At {a} dollars, it is dearer than at {b} dollars.", "more", 1, 1_000_000),
    ComparisonTemplate("A harbour {a} kilometres away is nearer than one {b} kilometres away.", "less", 1, 20_000),
    ComparisonTemplate("A harbour {a} kilometres away is farther than one {b} kilometres away.", "more", 1, 20_000),
    ComparisonTemplate("A vehicle going {a} kilometres an hour is slower than one going {b}.", "less", 5, 30_000),
    ComparisonTemplate("A vehicle going {a} kilometres an hour is faster than one going {b}.", "more", 5, 30_000),
    ComparisonTemplate("A task of {a} seconds is done sooner than a task of {b} seconds.", "less", 1, 100_000),
    ComparisonTemplate("A task of {a} seconds takes longer than a task of {b} seconds.", "more", 1, 100_000),
    ComparisonTemplate("A tank of {a} litres holds less than a tank of {b} litres.", "less", 1, 1_000_000),
    ComparisonTemplate("A tank of {a} litres holds more than a tank of {b} litres.", "more", 1, 1_000_000),
)


def generate_records(size: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields all statements as (split, record), shuffled: train, then validation, then test.

    The two numbers may be equal; then no relation holds.

    Args:
      size: statements in all, a multiple of 40 (20 templates, true and false).
      seed: of everything random.

    Raises:
      UsageError: the size is no such multiple, or a range has too few different pairs.
    """
    count = count_per_group(NAME, size, len(TEMPLATES))
    rng = np.random.default_rng(seed)
    parts = []
    for index, template in enumerate(TEMPLATES):

        def draw(n: int, template: ComparisonTemplate = template) -> np.ndarray:
            a, b = log_uniform(rng, template.low, template.high, 2 * n).reshape(2, n)
            return np.stack([a < b if template.relation == "less" else a > b, a, b], axis=1)

        samples = draw_unique_rows(draw, {0: count, 1: count}, f"{NAME} ({template.text})")
        parts += [np.insert(samples[label], 0, [[index], [label]], axis=1) for label in (0, 1)]
    rows = np.concatenate(parts)[rng.permutation(size)].tolist()
    number = 0
    for split, length in compute_split_sizes(size).items():
        for index, label, a, b in rows[number : number + length]:
            question = TEMPLATES[index].text.format(a=a, b=b)
            record = dict(id=f"{NAME}-{number:06d}", question=question, label=label, template=index, a=a, b=b)
            yield split, record
            number += 1
