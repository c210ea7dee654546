"""What a problem and an operation are, and what operations share: drawing operands, spelling and rounding.

All answers are exact decimals. Rounding is half up.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import NamedTuple

import numpy as np

EXACT = Context(prec=400, rounding=ROUND_HALF_UP, Emin=-10_000, Emax=10_000)
SHIFTS = (3, 6)  # of the stream "magnitude": operands are multiplied by 10 to a power in this range


class Problem(NamedTuple):
    """A question and its answer as texts, with the parse of the question.

    Attributes:
      key: equal for questions with the same values (a + b and b + a; 0017 and 17), of which only one is kept.
      operands: the numbers of the question as they are written there, in its order. operator: what is asked of them.
      accepted: further right answers.
      group: problems of the same group belong to the same split; "" for the key.
    """

    question: str
    answer: str
    key: str
    operands: tuple[str, ...]
    operator: str
    accepted: tuple[str, ...] = ()
    group: str = ""


Draw = Callable[[np.random.Generator, int], Problem]


@dataclasses.dataclass(frozen=True)
class Operation:
    """How an operation draws its problems; calling it draws one.

    Attributes:
      draw: (rng, length) → a problem whose longest operand has so many digits.
      most: the longest operands in training, if fewer digits than the option `length`; 1 if it has no lengths.
      is_pair: there are two operands of independent lengths, so that length n has 2n − 1 pairs of lengths.
      longer: lengths of its longer test streams; None for those of the option `longer`, up to `most`.
      streams: further test streams, each with a way to draw its problems.
    """

    draw: Draw
    most: int = 100
    is_pair: bool = False
    longer: tuple[int, ...] | None = None
    streams: Mapping[str, Draw] = dataclasses.field(default_factory=dict)

    def __call__(self, rng: np.random.Generator, length: int) -> Problem:
        return self.draw(rng, length)


def draw_whole(rng: np.random.Generator, digits: int) -> int:
    """A whole number of exactly so many digits; 0 counts as one digit."""
    if digits == 1:
        return int(rng.integers(0, 10))
    text = str(rng.integers(1, 10)) + "".join(map(str, rng.integers(0, 10, digits - 1)))
    return int(text)


def draw_length(rng: np.random.Generator, most: int) -> int:
    return int(rng.integers(1, most + 1))


def draw_lengths(rng: np.random.Generator, most: int) -> tuple[int, int]:
    """Two lengths, each pair of which the longer one is `most` with the same chance."""
    index = int(rng.integers(0, 2 * most - 1))
    return (most, index + 1) if index < most else (index + 1 - most, most)


def draw_decimal(rng: np.random.Generator, digits: int, places: int | None = None) -> Decimal:
    """A whole number of exactly so many digits with so many further digits, by default up to four, the last of them
    not 0."""
    whole, count = draw_whole(rng, digits), int(rng.integers(0, 5)) if places is None else places
    fraction = "".join(map(str, rng.integers(0, 10, max(count - 1, 0))))
    return Decimal(f"{whole}.{fraction}{rng.integers(1, 10)}") if count else Decimal(whole)


def draw_shift(rng: np.random.Generator, is_shifted: bool) -> int:
    """The power of ten of the operands: 0, or one of `SHIFTS`."""
    return int(rng.integers(SHIFTS[0], SHIFTS[1] + 1)) if is_shifted else 0


def shift(value: Decimal, power: int) -> Decimal:
    """value · 10^power, exact."""
    return value.scaleb(power, context=EXACT)


def spell(value: Decimal) -> str:
    """A decimal in plain digits, without zeros at the end of its fraction."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def round_half_up(value: Decimal, digits: int) -> str:
    """A number with so many significant digits, in plain digits: 9.9999 with three is 10.0; ties go away from 0."""
    for place in (value.adjusted() - digits + 1, value.adjusted() - digits + 2):
        rounded = EXACT.quantize(value, Decimal((0, (1,), place)))
        if len(rounded.as_tuple().digits) == digits:
            break
    return f"{rounded:f}"


def count_digits(problem: Problem) -> int:
    """The digits of the longest number of its key, so problems of one key have one count: 2 of 0017, 1 of 2 / 4."""
    numbers = re.findall(r"[0-9.]+", problem.key)
    return max(sum(character.isdigit() for character in text) for text in numbers)
