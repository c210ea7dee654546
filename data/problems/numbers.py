"""The numbers of a problem: their kinds, their ranges, and how text and equation write them.

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

"count 10 500" sets other bounds; "times b 2 40" sets the bounds of the factor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError
from numjax.numeral.words import spell

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
# Kinds whose bounds grow with `factor`.
GROWING_KINDS = ("count", "many", "measure", "money")
_PARTS = ("halves thirds quarters fifths sixths sevenths eighths ninths tenths").split()
_PART = ("half third quarter fifth sixth seventh eighth ninth tenth").split()
SIGNS = {"$": "dollars", "£": "pounds", "€": "euros"}


class NumberKind(NamedTuple):
    """The kind of a plan's number: `name` of `BOUNDS`, inclusive bounds, and for `times` the number `base` that it
    multiplies."""

    name: str
    low: int
    high: int
    base: str = ""


class WrittenNumber(NamedTuple):
    """A number as the text writes it, and as the equation writes it."""

    text: str
    equation: str


class NumberStyle(NamedTuple):
    """How a problem writes its numbers, drawn once for each problem.

    Attributes:
      words: small whole numbers are spelled out. grouped: thousands have commas. sign: of money. sign_first: "$5",
        else "5 dollars". percent: "%", " percent" or " per cent". slash: "3/4", else "three quarters".
    """

    words: bool
    grouped: bool
    sign: str
    sign_first: bool
    percent: str
    slash: bool


def parse_kind(text: str) -> NumberKind:
    """Returns the kind that a plan's text describes.

    Raises:
      UsageError: there is no such kind.
    """
    name, *rest = text.split()
    base = rest.pop(0) if name == "times" and rest else ""
    if name not in BOUNDS or (name == "times") != bool(base) or len(rest) not in (0, 2):
        raise UsageError(f"{text!r} is no kind of number: give one of {', '.join(BOUNDS)}, and two bounds if needed")
    low, high = (int(word) for word in rest) if rest else BOUNDS[name]
    return NumberKind(name, low, high, base)


def draw_style(rng: np.random.Generator) -> NumberStyle:
    """Draws how a problem writes its numbers."""
    return NumberStyle(
        words=bool(rng.random() < 0.12),
        grouped=bool(rng.random() < 0.5),
        sign=str(rng.choice(list(SIGNS), p=[0.7, 0.2, 0.1])),
        sign_first=bool(rng.random() < 0.6),
        percent=str(rng.choice(["%", " percent", " per cent"], p=[0.75, 0.2, 0.05])),
        slash=bool(rng.random() < 0.5),
    )


def draw(rng: np.random.Generator, kind: NumberKind, values: Mapping[str, Fraction], factor: int = 1) -> Fraction:
    """Draws a value of a kind; values of wide ranges are log-uniform.

    Args:
      values: drawn before, by name. factor: multiplies the bounds of the kinds in `GROWING_KINDS`.
    """
    low, high = kind.low, kind.high
    if kind.name == "times":
        return values[kind.base] * _log_uniform(rng, low, high)
    if kind.name == "fraction":
        denominator = int(rng.integers(low, high + 1))
        return Fraction(int(rng.integers(1, denominator)), denominator)
    if kind.name == "percent":
        # At least 60% of the percentages are round, if the bounds hold any.
        round_percents = [p for p in range(5, 100, 5) if low <= p <= high]
        percent = rng.choice(round_percents) if round_percents and rng.random() < 0.6 else rng.integers(low, high + 1)
        return Fraction(int(percent), 100)
    if kind.name in GROWING_KINDS:
        low, high = (low, high) if factor == 1 else (high * factor // 10, high * factor)
    integer = _log_uniform(rng, low, high)
    if kind.name == "money" and rng.random() < 0.4:
        return integer + Fraction(int(rng.integers(1, 20)) * 5, 100)
    if kind.name == "measure" and rng.random() < 0.35:
        return integer + Fraction(int(rng.integers(1, 10)), 10)
    return Fraction(integer)


def write(value: Fraction, kind: NumberKind, style: NumberStyle) -> WrittenNumber:
    """Returns a value as text and equation write it."""
    if kind.name == "percent":
        plain = format_decimal(value * 100)
        return WrittenNumber(plain + style.percent, f"{plain} %")
    if kind.name == "fraction":
        numerator, denominator = value.numerator, value.denominator
        words = f"{numerator}/{denominator}" if style.slash else _spell_fraction(numerator, denominator)
        return WrittenNumber(words, f"( {numerator} / {denominator} )")
    if kind.name == "multiple":
        plain = format_decimal(value)
        word = "twice" if value == 2 else f"{spell(int(value)) if style.words else plain} times"
        return WrittenNumber(word, plain)
    plain = format_decimal(value)
    text = plain
    if style.grouped and value >= 1000:
        integer, point, fraction = plain.partition(".")
        text = f"{int(integer):,}{point}{fraction}"
    if kind.name == "money":
        if "." in plain:
            text = re.sub(r"\.(\d)$", r".\g<1>0", text)
        text = f"{style.sign}{text}" if style.sign_first else f"{text} {SIGNS[style.sign]}"
    elif style.words and value.denominator == 1 and (value <= 20 or (value <= 100 and value % 10 == 0)):
        text = spell(int(value))
    return WrittenNumber(text, plain)


def format_decimal(value: Fraction) -> str:
    """Returns the exact decimal without trailing zeros, or p/q if there is no exact decimal."""
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


def _spell_fraction(numerator: int, denominator: int) -> str:
    if numerator == 1:
        return "half" if denominator == 2 else f"{'an' if denominator == 8 else 'a'} {_PART[denominator - 2]}"
    return f"{spell(numerator)} {_PARTS[denominator - 2]}"


def _log_uniform(rng: np.random.Generator, low: int, high: int) -> int:
    return min(high, int(low * (((high + 1) / low) ** rng.random())))
