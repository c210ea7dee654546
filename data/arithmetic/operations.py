"""The operations: each draws a problem from operands of a number of digits.

Numbers are plain digits unless the operation is about how they are written. Lengths are drawn first, then digits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from . import make, measures, orbit, series, tabular
from .problem import (
    Operation,
    Problem,
    draw_decimal,
    draw_length,
    draw_lengths,
    draw_shift,
    draw_whole,
    shift,
    spell,
)

MODULI = (7, 11, 97)
CHAIN_SHARE = 0.1  # of additions, those in which a carry runs through all places
HEAD_SHARE, LENGTH_SHARE = 0.4, 0.2  # of lists, those with the same first half, and those that differ in length
LARGEST_POWER = 7  # of ten, in numbers of any magnitude


def add(rng: np.random.Generator, length: int, chains: float = CHAIN_SHARE, is_shifted: bool = False) -> Problem:
    """a + b; in a share `chains` a carry runs through all places."""
    if rng.random() < chains:
        a, b = _draw_chain(rng, length)
    else:
        a, b = (draw_whole(rng, n) for n in draw_lengths(rng, length))
    factor = 10 ** draw_shift(rng, is_shifted)
    return make.make_sum(a * factor, b * factor)


def _draw_chain(rng: np.random.Generator, length: int) -> tuple[int, int]:
    """Two numbers with the sum 10^length and a carry in each place; in a tenth they are 99…9 and 1."""
    b = 1
    if rng.random() < 0.9:
        n = draw_length(rng, length)
        b = 10 * (draw_whole(rng, n - 1) if n > 1 else 0) + int(rng.integers(1, 10))
    a = 10**length - b
    return (a, b) if rng.random() < 0.5 else (b, a)


def sub(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """a − b, in half of the problems negative."""
    a, b = (draw_whole(rng, n) for n in draw_lengths(rng, length))
    factor = 10 ** draw_shift(rng, is_shifted)
    return make.make_difference(a * factor, b * factor)


def mul(rng: np.random.Generator, length: int, digits: int = 0, is_shifted: bool = False) -> Problem:
    """a · b of the same length, or by a number of so many digits."""
    a, b = draw_whole(rng, length), draw_whole(rng, digits or length)
    factor = 10 ** draw_shift(rng, is_shifted)
    return make.make_product(*((a * factor, b) if rng.random() < 0.5 else (b, a * factor)))


def decadd(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """a + b with up to four digits behind the point, and never as many in both."""
    places = rng.permutation(5)[:2]
    a, b = (draw_decimal(rng, n, int(p)) for n, p in zip(draw_lengths(rng, length), places, strict=True))
    power = draw_shift(rng, is_shifted)
    return make.make_decimal_sum(shift(a, power), shift(b, power))


def _draw_rivals(rng: np.random.Generator, length: int, count: int, is_shifted: bool) -> list[Decimal]:
    """Different numbers, many hard to compare: with the same first half, or of other lengths (9.9 and 9.11)."""
    kind, power = rng.random(), draw_shift(rng, is_shifted)
    first = draw_whole(rng, length)
    numbers: dict[Decimal, None] = {}
    if kind < HEAD_SHARE and length > 1:
        head = str(first)[: math.ceil(length / 2)]
        while len(numbers) < count:
            numbers[Decimal(head + "".join(map(str, rng.integers(0, 10, length - len(head)))))] = None
    elif kind < HEAD_SHARE + LENGTH_SHARE:
        # The same whole part with another number of digits behind it, the last of them not 0.
        for places in rng.permutation(5)[:count]:
            digits = "".join(map(str, rng.integers(0, 10, int(places)))) + str(rng.integers(1, 10))
            numbers[Decimal(f"{first}.{digits}")] = None
    else:
        numbers[Decimal(first)] = None
        while len(numbers) < count:
            numbers[draw_decimal(rng, draw_length(rng, length), int(rng.integers(0, 3)))] = None
    drawn = list(numbers)
    return [shift(drawn[i], power) for i in rng.permutation(count)]


def largest(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """The largest of two to five numbers."""
    return make.make_largest(_draw_rivals(rng, length, int(rng.integers(2, 6)), is_shifted))


def sort(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """Three to five numbers, the smallest first."""
    return make.make_sorted(_draw_rivals(rng, length, int(rng.integers(3, 6)), is_shifted))


def mod(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """a + b or a · b modulo 7, 11 or 97; shifted: with four more digits in both operands."""
    a, b = (draw_whole(rng, n + 4 * is_shifted) for n in draw_lengths(rng, length))
    return make.make_residue(a, "+" if rng.random() < 0.5 else "*", b, int(rng.choice(MODULI)))


def digit_at(rng: np.random.Generator, length: int) -> Problem:
    """The digit at a place, counted from the right, from 1."""
    return make.make_digit(draw_length(rng, length), draw_whole(rng, length))


def count(rng: np.random.Generator, length: int) -> Problem:
    """How many digits a number has, or how often one of them occurs."""
    number = draw_whole(rng, length)
    if rng.random() < 0.5:
        return make.make_length(number)
    digit = int(rng.choice(list(str(number)))) if rng.random() < 0.7 else int(rng.integers(0, 10))
    return make.make_count(digit, number)


def round_off(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """A number with so many significant digits; a fifth of the numbers has a run of nines where it is rounded, and a
    fifth is a tie."""
    number, digits, kind = draw_decimal(rng, length), int(rng.integers(1, 5)), rng.random()
    if kind < 0.4 and number and digits < len(text := "".join(map(str, number.as_tuple().digits))):
        # The digits stay where they are; the run or the tie begins at the last one that is kept.
        text = text[: digits - 1] + "9999" if kind < 0.2 else text[:digits] + "5"
        number = Decimal((0, tuple(map(int, text)), number.adjusted() - len(text) + 1))
    return make.make_rounded(shift(number or Decimal(1), draw_shift(rng, is_shifted)), digits)


def convert(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """A number written plainly as d.ddd…e±k, or the other way; shifted: of at least 10^(length + 3)."""
    digits = str(rng.integers(1, 10)) if length == 1 else f"{draw_whole(rng, length - 1) or 1}{rng.integers(1, 10)}"
    power = length + draw_shift(rng, True) if is_shifted else int(rng.integers(-4, length + 1))
    return make.make_converted(digits, power, rng.random() < 0.5)


def frac(rng: np.random.Generator, length: int) -> Problem:
    """A fraction in lowest terms, or the sum of two, with terms of so many digits."""
    if rng.random() < 0.5:
        factor = int(rng.integers(2, 10)) if rng.random() < 0.8 else 1
        a, b = (_make_multiple(draw_whole(rng, n), factor) for n in draw_lengths(rng, length))
        return make.make_reduced(a, max(b, 2))
    terms = [max(draw_whole(rng, n), 1) for n in (*draw_lengths(rng, length), *draw_lengths(rng, length))]
    return make.make_fraction_sum(terms[0], max(terms[1], 2), terms[2], max(terms[3], 2))


def _make_multiple(number: int, factor: int) -> int:
    """A multiple of a digit near a number, above 0 and with as many digits."""
    below = number - number % factor
    return below if below and len(str(below)) == len(str(number)) else below + factor


def _draw_scaled(rng: np.random.Generator, is_shifted: bool) -> Decimal:
    """A number of up to seven digits times a power of ten; shifted: larger or smaller than all those of training."""
    number = draw_whole(rng, draw_length(rng, make.SIGNIFICANT)) or 1
    power = int(rng.integers(-LARGEST_POWER, LARGEST_POWER + 1))
    if is_shifted:
        least = LARGEST_POWER + make.SIGNIFICANT
        power = least + int(rng.integers(0, 2)) if rng.random() < 0.5 else -least - int(rng.integers(1, 3))
    return shift(Decimal(number), power)


def fmul(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """The product of two decimals of any magnitude, to seven significant digits."""
    return make.make_scaled_product(_draw_scaled(rng, is_shifted), _draw_scaled(rng, is_shifted))


def fdiv(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """The quotient of two decimals of any magnitude, to seven significant digits."""
    return make.make_scaled_quotient(_draw_scaled(rng, is_shifted), _draw_scaled(rng, is_shifted))


def copy(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """A number as it is written: whole, decimal, negative, grouped, with zeros at either end, or with an exponent."""
    whole = draw_whole(rng, length) * 10 ** draw_shift(rng, is_shifted)
    number = shift(draw_decimal(rng, length), draw_shift(rng, is_shifted))
    forms = [str(whole), str(-whole), spell(number), f"{whole:,}", f"{whole}.50", f"00{whole}"]
    power = int(rng.integers(10, 20)) if is_shifted else int(rng.integers(-LARGEST_POWER, LARGEST_POWER + 1))
    forms.append(f"{spell(draw_decimal(rng, 1))}e{power}")
    return make.make_copy(forms[int(rng.integers(len(forms)))])


def pick(rng: np.random.Generator, length: int, is_shifted: bool = False) -> Problem:
    """One of two numbers, at random: both are right."""
    a = b = draw_whole(rng, length)
    while a == b:
        b = draw_whole(rng, length)
    factor = 10 ** draw_shift(rng, is_shifted)
    return make.make_pick(a * factor, b * factor, rng.random() < 0.5)


def _with_magnitude(draw: Callable[..., Problem], **changes: Any) -> Operation:
    """The operation with a test stream of larger numbers."""
    streams = {"magnitude": functools.partial(draw, is_shifted=True), **changes.pop("streams", {})}
    return Operation(draw, streams=streams, **changes)


OPERATIONS: Mapping[str, Operation] = {
    "add": _with_magnitude(add, is_pair=True, streams={"carries": functools.partial(add, chains=1.0)}),
    "sub": _with_magnitude(sub, is_pair=True),
    "mul1": _with_magnitude(functools.partial(mul, digits=1)),
    "mul2": _with_magnitude(functools.partial(mul, digits=2)),
    "mul": _with_magnitude(mul, most=4),
    "mul6": _with_magnitude(mul, most=6),
    "decadd": _with_magnitude(decadd, is_pair=True),
    "max": _with_magnitude(largest),
    "sort": _with_magnitude(sort),
    "mod": _with_magnitude(mod, most=4, is_pair=True),
    "digit_at": Operation(digit_at),
    "count": Operation(count),
    "round": _with_magnitude(round_off),
    "convert": _with_magnitude(convert),
    "frac": Operation(frac, most=2, longer=(3,)),
    "fmul": _with_magnitude(fmul, most=1),
    "fdiv": _with_magnitude(fdiv, most=1),
    "copy": _with_magnitude(copy),
    "pick": _with_magnitude(pick),
    "mme": measures.MME,
    "tabular": _with_magnitude(tabular.draw_table, most=1),
    "orbit": _with_magnitude(orbit.draw_orbit, most=1),
    "series": _with_magnitude(series.draw_series, most=1),
}
