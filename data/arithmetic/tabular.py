"""Six columns with units from 1e-6 to 1e6, and a target: of a formula, or of a fixed random network.

Stands for a table of measurements that a model must learn to predict from, without any download.
"""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from .floats import round_float, sine
from .problem import Problem, shift, spell

UNITS = (-6, 6, -1, 1, -4, 4)  # powers of ten, one a column
SHIFT = 2  # in the stream "magnitude" all units are a hundred times larger
DIGITS = 4  # significant digits of columns and targets
PERIOD = 5e-4  # of the fifth column
HIDDEN = 8


def _draw_network() -> tuple[list[list[float]], list[float]]:
    """(weights [hidden, columns + 1], weights [hidden]): hundredths, the same in every dataset."""
    rng = np.random.default_rng(15)
    first = rng.integers(-200, 201, (HIDDEN, len(UNITS) + 1)) / 100
    return first.tolist(), (rng.integers(-100, 101, HIDDEN) / 100).tolist()


_FIRST, _LAST = _draw_network()


def predict_law(columns: list[float]) -> float:
    """x₁x₂/x₃ + (x₄x₆/10⁴) sin(2πx₅/P): a law of products, and a season whose height varies."""
    x1, x2, x3, x4, x5, x6 = columns
    return x1 * x2 / x3 + x4 * x6 / 1e4 * sine(2 * np.pi * (x5 / PERIOD))


def predict_network(columns: list[float]) -> float:
    """10 Σ v h(w·z + b) with h(t) = t / (1 + |t|), of the columns in their units, z = x / (5 units) − 1."""
    inputs = [x / (5 * float(f"1e{unit}")) - 1 for x, unit in zip(columns, UNITS, strict=True)] + [1.0]
    total = 0.0
    for weights, last in zip(_FIRST, _LAST, strict=True):
        activation = sum(w * z for w, z in zip(weights, inputs, strict=True))
        total += last * activation / (1 + abs(activation))
    return 10 * total


TARGETS = {"law": predict_law, "network": predict_network}


def make_table(target: str, columns: list[Decimal]) -> Problem:
    """The question of a target's value, which has four significant digits."""
    texts = tuple(spell(value) for value in columns)
    question = f"{target} {' '.join(texts)} ="
    return Problem(
        question, round_float(TARGETS[target]([float(value) for value in columns]), DIGITS), question, texts, target
    )


def draw_table(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """A question of a law or of the network, as often; each column is one to ten times its unit."""
    power = SHIFT if is_shifted else 0
    columns = [
        shift(Decimal(int(rng.integers(10 ** (DIGITS - 1), 10**DIGITS))), unit + power - DIGITS + 1) for unit in UNITS
    ]
    return make_table("law" if rng.random() < 0.5 else "network", columns)
