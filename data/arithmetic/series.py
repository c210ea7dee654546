"""The next value of a series: a trend, a season and noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from .floats import round_places, sine
from .problem import Problem, spell

VALUES = 24
SHIFT = 2  # in the stream "magnitude" all values are a hundred times larger


def make_series(values: Sequence[Decimal]) -> Problem:
    """The question of the last value, behind the others."""
    texts = tuple(spell(value) for value in values)
    question = f"next {' '.join(texts[:-1])} ="
    return Problem(question, texts[-1], question, texts[:-1], "next")


def draw_series(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """Values with one digit behind the point, all above 0."""
    level, slope, height = 30 + 40 * rng.random(), rng.random() - 0.5, 2 + 8 * rng.random()
    period, phase, noise = 4 + 8 * rng.random(), rng.random(), rng.random()
    values = []
    # The sum of three uniform numbers: a bell without a library's logarithm.
    for n, (first, second, third) in enumerate(rng.random((VALUES + 1, 3)).tolist()):
        error = 2 * noise * (first + second + third - 1.5)
        value = level + slope * n + height * sine(2 * math.pi * (n / period + phase)) + error
        values.append(round_places(value * (10**SHIFT if is_shifted else 1), 1))
    return make_series(values)
