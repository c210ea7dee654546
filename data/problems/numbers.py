"""The numbers of a problem: what kinds there are, how large they are, how they are written in text and equation.

| kind | values | written |
|---|---|---|
| `small` `count` `many` | whole, 2–12, 2–999, 20–50,000 | 1234, 1,234, twelve |
| `measure` | whole, or with one or two decimals | 4.5, 12 |
| `money` | whole, or with cents | $3.75, 3.75 dollars |
| `percent` | 1–95 | 15%, 15 percent; `15 %` in the equation |
| `fraction` | proper, denominators 2–10 | 3/4, three quarters, half; `( 3 / 4 )` in the equation |
| `multiple` | 2–9 | 3 times, three times, twice |
| `times b` | a multiple of the number b | as `count` |
| `age` `speed` | 3–80, 2–120 | as `count` |

"count 10 500" sets other bounds; "times b 2 40" those of the factor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.numeral.words import spelled

BOUNDS = {
    "small": (2, 12),
    "count": (2, 999),
    "many": (20, 50_000),
    "measure": (2, 400),
    "money": (1, 400),
    "percent": (1, 95),
    "fraction": (2, 10),
    "multiple": (2, 9),
    "times": (2, 60),
    "age": (3, 80),
    "speed": (2, 120),
}
# What grows where larger numbers are asked for.
GROWS = ("count", "many", "measure", "money")
_PARTS = ("halves thirds quarters fifths sixths sevenths eighths ninths tenths").split()
_PART = ("half third quarter fifth sixth seventh eighth ninth tenth").split()
SIGNS = {"$": "dollars", "£": "pounds", "€": "euros"}


class Kind(NamedTuple):
    """What a number of a plan is: `name` of `BOUNDS`, inclusive bounds, and for `times` the number it is a multiple
    of."""

    name: str
    low: int
    high: int
    of: str = ""


class Surface(NamedTuple):
    """A number as the text has it, and as the equation has it."""

    text: str
    equation: str


class Style(NamedTuple):
    """How a problem writes its numbers, drawn once a problem.

    Attributes:
      words: small whole numbers are spelled. grouped: thousands have commas. sign: of money. sign_first: "$5", else
        "5 dollars". percent: "%", " percent" or " per cent". slash: "3/4", else "three quarters".
    """

    words: bool
    grouped: bool
    sign: str
    sign_first: bool
    percent: str
    slash: bool


def read_kind(text: str) -> Kind:
    """The kind that a plan names.

    Raises:
      UsageError: there is none of this form.
    """
    name, *rest = text.split()
    of = rest.pop(0) if name == "times" and rest else ""
    if name not in BOUNDS or (name == "times") != bool(of) or len(rest) not in (0, 2):
        raise UsageError(f"{text!r} is no kind of number: give one of {', '.join(BOUNDS)}, and two bounds if need be")
    low, high = (int(word) for word in rest) if rest else BOUNDS[name]
    return Kind(name, low, high, of)


def draw_style(rng: np.random.Generator) -> Style:
    """How a problem writes its numbers."""
    return Style(
        words=bool(rng.random() < 0.12),
        grouped=bool(rng.random() < 0.5),
        sign=str(rng.choice(list(SIGNS), p=[0.7, 0.2, 0.1])),
        sign_first=bool(rng.random() < 0.6),
        percent=str(rng.choice(["%", " percent", " per cent"], p=[0.75, 0.2, 0.05])),
        slash=bool(rng.random() < 0.5),
    )


def draw(rng: np.random.Generator, kind: Kind, known: Mapping[str, Fraction], factor: int = 1) -> Fraction:
    """A value of a kind; those of a wide range are log-uniform.

    Args:
      known: values drawn before. factor: by which the bounds of what `GROWS` are multiplied.
    """
    low, high = kind.low, kind.high
    if kind.name == "times":
        return known[kind.of] * _log_uniform(rng, low, high)
    if kind.name == "fraction":
        below = int(rng.integers(low, high + 1))
        return Fraction(int(rng.integers(1, below)), below)
    if kind.name == "percent":
        # Round ones are as frequent as all others.
        round_ = [p for p in range(5, 100, 5) if low <= p <= high]
        percent = rng.choice(round_) if round_ and rng.random() < 0.6 else rng.integers(low, high + 1)
        return Fraction(int(percent), 100)
    if kind.name in GROWS:
        low, high = (low, high) if factor == 1 else (high * factor // 10, high * factor)
    whole = _log_uniform(rng, low, high)
    if kind.name == "money" and rng.random() < 0.4:
        return whole + Fraction(int(rng.integers(1, 20)) * 5, 100)
    if kind.name == "measure" and rng.random() < 0.35:
        return whole + Fraction(int(rng.integers(1, 10)), 10)
    return Fraction(whole)


def write(value: Fraction, kind: Kind, style: Style) -> Surface:
    """A value as text and equation have it."""
    if kind.name == "percent":
        plain = decimal(value * 100)
        return Surface(plain + style.percent, f"{plain} %")
    if kind.name == "fraction":
        above, below = value.numerator, value.denominator
        written = f"{above}/{below}" if style.slash else _in_words(above, below)
        return Surface(written, f"( {above} / {below} )")
    if kind.name == "multiple":
        plain = decimal(value)
        word = "twice" if value == 2 else f"{spelled(int(value)) if style.words else plain} times"
        return Surface(word, plain)
    plain = decimal(value)
    text = plain
    if style.grouped and value >= 1000:
        whole, point, part = plain.partition(".")
        text = f"{int(whole):,}{point}{part}"
    if kind.name == "money":
        if "." in plain:
            text = re.sub(r"\.(\d)$", r".\g<1>0", text)
        text = f"{style.sign}{text}" if style.sign_first else f"{text} {SIGNS[style.sign]}"
    elif style.words and value.denominator == 1 and (value <= 20 or (value <= 100 and value % 10 == 0)):
        text = spelled(int(value))
    return Surface(text, plain)


def decimal(value: Fraction) -> str:
    """An exact decimal without trailing zeros, or p/q where there is none."""
    if value.denominator == 1:
        return str(value.numerator)
    twos = fives = 0
    rest = value.denominator
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest > 1:
        return f"{value.numerator}/{value.denominator}"
    places = max(twos, fives)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{'-' * (value < 0)}{digits[:-places]}.{digits[-places:]}"


def _in_words(above: int, below: int) -> str:
    if above == 1:
        return "half" if below == 2 else f"{'an' if below == 8 else 'a'} {_PART[below - 2]}"
    return f"{spelled(above)} {_PARTS[below - 2]}"


def _log_uniform(rng: np.random.Generator, low: int, high: int) -> int:
    return min(high, int(low * (((high + 1) / low) ** rng.random())))
