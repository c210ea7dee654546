"""A slow second way to the answers of data/arithmetic: from the text of a question, with integers and fractions."""

from __future__ import annotations

import functools
import itertools
import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

NUMBER = r"-?[0-9][0-9,]*(?:\.[0-9]+)?(?:e-?[0-9]+)?"
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")


def find_numbers(question: str) -> list[str]:
    return re.findall(NUMBER, question.replace(" , ", " ; "))


def solve(question: str) -> list[str]:
    """The right answers of a question that is answered by computation."""
    texts = find_numbers(question)
    numbers = [Fraction(text.replace(",", "")) for text in texts]
    solvers = {
        "copy": lambda: question.removeprefix("copy ").removesuffix(" ="),
        "max": lambda: spell(max(numbers)),
        "sort": lambda: " , ".join(map(spell, sorted(numbers))),
        "digit": lambda: texts[1][len(texts[1]) - int(texts[0])],
        "length": lambda: str(len(texts[0])),
        "count": lambda: str(texts[1].count(texts[0])),
        "round": lambda: round_slowly(numbers[0], int(numbers[1])),
        "write": lambda: spell(numbers[0]) if question.endswith("plainly =") else write_power(numbers[0]),
        "reduce": lambda: spell_fraction(numbers[0] / numbers[1]),
        "law": lambda: spell(Fraction(round_slowly(compute_law(numbers), 4))),
        "network": lambda: spell(Fraction(round_slowly(compute_network(numbers), 4))),
    }
    word = question.split()[0]
    if word == "pick":
        return [str(number) for number in numbers]
    return [solvers[word]() if word in solvers else compute(question, numbers)]


def compute(question: str, numbers: list[Fraction]) -> str:
    """The answer of a question that is a formula."""
    if " mod " in question:
        a, b, p = numbers
        return str((a + b if "+" in question else a * b) % p)
    if question.count("/") == 2:
        return spell_fraction(numbers[0] / numbers[1] + numbers[2] / numbers[3])
    sign = question.split()[1]
    a, b = numbers[:2]
    value = {"+": a.__add__, "-": a.__sub__, "*": a.__mul__, "/": a.__truediv__}[sign](b)
    return spell(Fraction(round_slowly(value, int(numbers[2])))) if " to " in question else spell(value)


def spell(value: Fraction) -> str:
    places = next(n for n in range(400) if (value * 10**n).denominator == 1)
    digits = str(abs((value * 10**places).numerator)).zfill(places + 1)
    text = f"{digits[:-places]}.{digits[-places:]}" if places else digits
    return f"-{text}" if value < 0 else text


def spell_fraction(value: Fraction) -> str:
    return str(value).replace("/", " / ")


def find_exponent(value: Fraction) -> int:
    exponent = len(str(value.numerator)) - len(str(value.denominator)) - 1
    while Fraction(10) ** (exponent + 1) <= value:
        exponent += 1
    return exponent


def round_slowly(value: Fraction, digits: int) -> str:
    if value < 0:
        return f"-{round_slowly(-value, digits)}"
    if not value:
        return "0"
    exponent = find_exponent(value)
    for place in (exponent - digits + 1, exponent - digits + 2):
        steps = math.floor(value / Fraction(10) ** place + Fraction(1, 2))
        if len(str(steps)) == digits:
            break
    text = str(steps) + "0" * max(place, 0)
    return text if place >= 0 else f"{text.zfill(1 - place)[:place]}.{text.zfill(1 - place)[place:]}"


def write_power(value: Fraction) -> str:
    digits = spell(value).replace(".", "").lstrip("0").rstrip("0")
    return digits[0] + (f".{digits[1:]}" if digits[1:] else "") + f"e{find_exponent(value)}"


def compute_sine(turns: Fraction) -> Fraction:
    """sin(2π turns), to forty digits."""
    with localcontext(prec=60):
        rest = turns - math.floor(turns)
        angle = 2 * PI * Decimal(rest.numerator) / Decimal(rest.denominator)
        term = total = angle
        for n in range(3, 90, 2):
            term *= -angle * angle / (n * (n - 1))
            total += term
        return Fraction(total)


def compute_law(x: list[Fraction]) -> Fraction:
    return x[0] * x[1] / x[2] + x[3] * x[5] / 10_000 * compute_sine(x[4] * 2000)


def compute_network(x: list[Fraction]) -> Fraction:
    rng = np.random.default_rng(15)
    first, last = rng.integers(-200, 201, (8, 7)), rng.integers(-100, 101, 8)
    units = [Fraction(10) ** power for power in (-6, 6, -1, 1, -4, 4)]
    z = [value / (5 * unit) - 1 for value, unit in zip(x, units, strict=True)] + [Fraction(1)]
    total = Fraction(0)
    for row, weight in zip(first.tolist(), last.tolist(), strict=True):
        activation = sum(Fraction(w, 100) * value for w, value in zip(row, z, strict=True))
        total += Fraction(weight, 100) * activation / (1 + abs(activation))
    return 10 * total


def check_orbit(question: str, answer: str) -> None:
    """The positions are on the ellipse of the hidden planet, and their mean anomalies are equally spaced."""
    asked, planets, positions = question.removeprefix("orbit ").removesuffix(" =").split(" : ")
    (hidden,) = [row.split() for row in planets.split(" , ") if "?" in row]
    assert hidden.index("?") == {"axis": 1, "eccentricity": 2}[asked]
    hidden[hidden.index("?")] = answer
    axis, eccentricity = float(hidden[1]), float(hidden[2]) / 20
    anomalies = []
    for row in positions.split(" , "):
        x, y = (float(text) for text in row.split())
        cos, sin = x / axis + eccentricity, y / (axis * math.sqrt(1 - eccentricity**2))
        assert abs(math.hypot(cos, sin) - 1) < 0.002, question
        eccentric = math.atan2(sin, cos)
        anomalies.append(eccentric - eccentricity * math.sin(eccentric))
    steps = [after - before for before, after in itertools.pairwise(anomalies)]
    assert len(steps) == 5
    assert all(abs(math.remainder(step - steps[0], 2 * math.pi)) < 0.01 for step in steps), question


def check_series(question: str, answer: str) -> None:
    """A line, one sine and noise of at most 3 describe all 25 values, up to their rounding."""
    values = np.array([float(text) for text in (*find_numbers(question), answer)])
    values /= 100 if values.max() > 200 else 1
    assert len(values) == 25 and values.min() >= 0
    # The noise has a standard deviation of at most 1; a sine of another period would leave more.
    assert np.sqrt(((make_residual_maps() @ values) ** 2).mean(-1)).min() < 1.6, question


@functools.cache
def make_residual_maps() -> np.ndarray:
    """For each of many periods the matrix that leaves what no line and sine of this period explain."""
    n, maps = np.arange(25.0), []
    for period in np.arange(4, 12.01, 0.05):
        columns = np.stack([np.ones(25), n, np.sin(2 * np.pi * n / period), np.cos(2 * np.pi * n / period)], 1)
        maps.append(np.eye(25) - columns @ np.linalg.pinv(columns))
    return np.stack(maps)
