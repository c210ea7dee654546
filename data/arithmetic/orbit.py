"""Planets on ellipses around one star: one of them has a semi-major axis or an eccentricity that is not given, and
some of its positions are.

After the planets of xVal (Golkar et al. 2023, arXiv 2310.02989): masses, axes, eccentricities and times have its
ranges and scales. Its samples have the positions of all planets at 30 to 60 times. Here are the first six of these
times, and only the planet that is asked for, so that a question fits a row of text.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from .floats import cosine, round_places, sine
from .problem import Problem, shift, spell

PLACES = 3  # digits behind the point of everything
POSITIONS = 6
SHIFT = 2  # in the stream "magnitude" axes and positions are a hundred times larger
_ROUNDS = 12  # of Newton's method: five suffice for eccentricities up to 0.1
ASKED = ("axis", "eccentricity")


class Planet(NamedTuple):
    """A planet as its question writes it.

    Attributes:
      mass: in 1e-5 of the star's. axis: the semi-major axis. eccentricity: times 20.
    """

    mass: Decimal
    axis: Decimal
    eccentricity: Decimal


def locate(planet: Planet, anomaly: float, time: float) -> tuple[float, float]:
    """The position at a time; 2π is a year at axis 1.

    Args:
      anomaly: the mean anomaly at time 0. The pericentre is on the positive first axis.
    """
    axis, eccentricity = float(planet.axis), float(planet.eccentricity) / 20
    mean = anomaly + time / (axis * math.sqrt(axis))
    eccentric = mean
    for _ in range(_ROUNDS):
        excess = eccentric - eccentricity * sine(eccentric) - mean
        eccentric -= excess / (1 - eccentricity * cosine(eccentric))
    width = math.sqrt(1 - eccentricity * eccentricity)
    return axis * (cosine(eccentric) - eccentricity), axis * width * sine(eccentric)


def make_orbit(planets: list[Planet], index: int, asked: str, anomaly: float, step: float, power: int = 0) -> Problem:
    """The question of one element of planet `index`, at `POSITIONS` times that are a `step` apart.

    Args:
      power: of ten: axes and positions are multiplied by it.
    """
    scaled = [p._replace(axis=shift(p.axis, power)) for p in planets]
    hidden = ASKED.index(asked) + 1
    rows = [[spell(value) for value in planet] for planet in scaled]
    answer, rows[index][hidden] = rows[index][hidden], "?"
    points = [locate(planets[index], anomaly, step * n) for n in range(POSITIONS)]
    positions = [[spell(shift(round_places(x, PLACES), power)) for x in point] for point in points]
    given, seen = (" , ".join(" ".join(row) for row in table) for table in (rows, positions))
    question = f"orbit {asked} : {given} : {seen} ="
    operands = tuple(text for row in (*rows, *positions) for text in row if text != "?")
    return Problem(question, answer, question, operands, f"orbit {asked}")


def draw_orbit(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """Two to five planets at equal distances from 1 to at most 3, in any order.

    The innermost planet's axis is always 1 and never asked for.
    """
    count, outermost = int(rng.integers(2, 6)), 1.5 + 1.5 * rng.random()
    axes = [1 + (outermost - 1) * n / (count - 1) for n in range(count)]
    planets = [
        Planet(*(round_places(x, PLACES) for x in (1 + 4 * rng.random(), axes[i], 2 * rng.random())))
        for i in rng.permutation(count)
    ]
    asked = ASKED[int(rng.integers(2))]
    candidates = [i for i, planet in enumerate(planets) if asked != "axis" or planet.axis != 1]
    index = candidates[int(rng.integers(len(candidates)))]
    anomaly = 0.0 if rng.random() < 0.3 else 2 * math.pi * rng.random()
    revolutions, steps = 15 + 10 * rng.random(), int(rng.integers(30, 61))
    step = 2 * math.pi * revolutions / steps
    return make_orbit(planets, index, asked, anomaly, step, SHIFT if is_shifted else 0)
