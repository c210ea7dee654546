"""A seeded stand-in for Math23K: word problems of our own with equations in its form, numbers in every role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import UsageError

_PATIENCE = 200  # draws for one problem before the templates count as used up


class EquationTemplate(NamedTuple):
    """A problem with numbers {a} to {d}, its equation, and the condition on its numbers.

    Attributes:
      ranges: inclusive, of a, b, …. fits: (a, b, …) → whether the numbers fit the problem.
    """

    text: str
    equation: str
    ranges: tuple[tuple[int, int], ...]
    fits: Callable[..., bool] = lambda *numbers: True


TEMPLATES = (
    EquationTemplate(
        "A grocer sells {a} melons in the morning and {b} in the afternoon . How many melons does she sell ?",
        "x = {a} + {b}",
        ((10, 999), (10, 999)),
    ),
    EquationTemplate(
        "A reservoir holds {a} tons of water . After {b} tons are pumped out , how many tons are left ?",
        "x = {a} - {b}",
        ((100, 9999), (10, 999)),
        lambda a, b: a > b,
    ),
    EquationTemplate(
        "Each crate holds {a} bottles . How many bottles do {b} crates hold ?",
        "x = {a} * {b}",
        ((6, 60), (3, 99)),
    ),
    EquationTemplate(
        "{a} pupils are put into {b} groups of the same size . How many pupils are in a group ?",
        "x = {a} / {b}",
        ((20, 900), (2, 30)),
        lambda a, b: a % b == 0,
    ),
    EquationTemplate(
        "Trees stand every {b} meters along a straight road , {a} in all and one at each end . "
        "How many meters long is the road ?",
        "x = ( {a} - 1 ) * {b}",
        ((5, 90), (2, 12)),
    ),
    EquationTemplate(
        "A coat costs {a} yuan . In the sale its price falls by {b} % . How many yuan does it cost then ?",
        "x = {a} * ( 1 - {b} % )",
        ((50, 900), (5, 60)),
    ),
    EquationTemplate(
        "A factory makes {a} lamps this month , {b} % more than last month . How many lamps did it make last month ?",
        "x = {a} / ( 1 + {b} % )",
        ((110, 5000), (5, 80)),
        lambda a, b: a * 100 % (100 + b) == 0,
    ),
    EquationTemplate(
        "Of a rope of {a} meters ( {b} / {c} ) is cut off . How many meters are cut off ?",
        "x = {a} * ( {b} / {c} )",
        ((12, 400), (1, 8), (2, 9)),
        lambda a, b, c: b < c and a % c == 0,
    ),
    EquationTemplate(
        "Ming has read {a} pages of a book , which is ( {b} / {c} ) of it . How many pages does the book have ?",
        "x = {a} / ( {b} / {c} )",
        ((12, 400), (1, 8), (2, 9)),
        lambda a, b, c: b < c and a * c % b == 0,
    ),
    EquationTemplate(
        "A train goes {a} kilometers in {b} hours . How many kilometers does it go in {c} hours at the same speed ?",
        "x = {a} / {b} * {c}",
        ((100, 900), (2, 9), (2, 15)),
        lambda a, b, c: a % b == 0 and b != c,
    ),
    EquationTemplate(
        "Two towns are {a} kilometers apart . Two cars set out towards each other , one at {b} and the other at {c} "
        "kilometers an hour . After how many hours do they meet ?",
        "x = {a} / ( {b} + {c} )",
        ((100, 1500), (30, 120), (30, 120)),
        lambda a, b, c: a % (b + c) == 0 and b != c,
    ),
    EquationTemplate(
        "A school buys {a} balls at {b} yuan each and {c} ropes at {d} yuan each . How many yuan does it pay ?",
        "x = {a} * {b} + {c} * {d}",
        ((3, 60), (4, 40), (3, 60), (2, 20)),
    ),
    EquationTemplate(
        "A team has to mend {a} meters of road and mends {b} meters a day for {c} days . "
        "How many meters a day must it mend to be done in {d} more days ?",
        "x = ( {a} - {b} * {c} ) / {d}",
        ((200, 3000), (20, 120), (2, 9), (2, 12)),
        lambda a, b, c, d: a > b * c and (a - b * c) % d == 0,
    ),
    EquationTemplate(
        "The radius of a round pond is {a} meters . How many square meters does it cover ? ( take 3.14 for pi )",
        "x = 3.14 * {a} ^ 2",
        ((2, 99),),
    ),
    EquationTemplate(
        "A round lawn has a radius of {a} meters . A path of {b} meters is laid around it . "
        "How many square meters does the path cover ? ( take 3.14 for pi )",
        "x = 3.14 * [ ( {a} + {b} ) ^ 2 - {a} ^ 2 ]",
        ((3, 60), (1, 9)),
        lambda a, b: a > b,
    ),
    EquationTemplate(
        "A worker can do a job in {a} days and another in {b} days . In how many days do they do it together ?",
        "x = 1 / ( ( 1 / {a} ) + ( 1 / {b} ) )",
        ((3, 60), (3, 60)),
        lambda a, b: a != b,
    ),
    EquationTemplate(
        "A bank pays {b} % interest a year . How many yuan of interest do {a} yuan bring in {c} years ?",
        "x = {a} * {b} % * {c}",
        ((100, 9000), (2, 6), (2, 8)),
    ),
    EquationTemplate(
        "Salt water of {a} grams holds {b} grams of salt . How many grams of salt are in {c} grams of it ?",
        "x = {b} / {a} * {c}",
        ((50, 500), (5, 60), (20, 900)),
        lambda a, b, c: b < a and b * c % a == 0 and c != a,
    ),
)
# The answers from the numbers of a template, as fractions: independent of how equations are parsed.
ANSWERS: tuple[Callable[..., Fraction], ...] = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: a / b,
    lambda a, b: (a - 1) * b,
    lambda a, b: a * (100 - b) / 100,
    lambda a, b: a * 100 / (100 + b),
    lambda a, b, c: a * b / c,
    lambda a, b, c: a * c / b,
    lambda a, b, c: a * c / b,
    lambda a, b, c: a / (b + c),
    lambda a, b, c, d: a * b + c * d,
    lambda a, b, c, d: (a - b * c) / d,
    lambda a: Fraction(157, 50) * a * a,
    lambda a, b: Fraction(157, 50) * (2 * a * b + b * b),
    lambda a, b: a * b / (a + b),
    lambda a, b, c: a * b * c / 100,
    lambda a, b, c: b * c / a,
)


def generate_records(size: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yields raw records in the published file's form, with `template`; no two with the same numbers and template.

    Args:
      size: how many. seed: of everything random.

    Raises:
      UsageError: the templates have too few different problems.
    """
    rng = np.random.default_rng(seed)
    seen: set[tuple[int, ...]] = set()
    for number in range(size):
        for _ in range(_PATIENCE):
            index = int(rng.integers(len(TEMPLATES)))
            template = TEMPLATES[index]
            numbers = _draw_numbers(rng, template)
            if (index, *numbers) not in seen:
                break
        else:
            raise UsageError(f"math23k: the stand-in does not hold {size} different problems; choose a smaller size")
        seen.add((index, *numbers))
        values = dict(zip("abcd", numbers, strict=False))
        answer = Fraction(ANSWERS[index](*map(Fraction, numbers)))
        yield {
            "id": f"{number:06d}",
            "text_en": template.text.format(**values),
            "equation": template.equation.format(**values),
            "ans": answer.numerator if answer.denominator == 1 else float(answer),
            "template": index,
        }


def _draw_numbers(rng: np.random.Generator, template: EquationTemplate) -> tuple[int, ...]:
    """Draws numbers that fit the template, each fitting combination with the same chance."""
    low, high = np.array(template.ranges).T
    while True:
        for row in rng.integers(low, high + 1, size=(64, len(low))).tolist():
            if template.fits(*row):
                return tuple(row)
