"""The operations: each draws a problem from operands of a number of digits. All answers are exact.

Rounding is half up, on exact decimals. Numbers are plain digits unless the operation is about how they are written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

import numpy as np

EXACT = Context(prec=400, rounding=ROUND_HALF_UP, Emin=-10_000, Emax=10_000)
MODULI = (7, 11, 97)
CHAIN_SHARE = 0.1  # of additions, those in which a carry runs through all places
SIGNIFICANT = 7  # digits of the products and quotients of decimals


class Problem(NamedTuple):
    """A question and its answer as texts.

    Attributes:
      key: equal for questions with the same values (a + b and b + a). accepted: further right answers.
    """

    question: str
    answer: str
    key: str
    accepted: tuple[str, ...] = ()


Operation = Callable[[np.random.Generator, int], Problem]


def draw_whole(rng: np.random.Generator, digits: int) -> int:
    """A whole number of exactly so many digits; 0 counts as one digit."""
    if digits == 1:
        return int(rng.integers(0, 10))
    text = str(rng.integers(1, 10)) + "".join(map(str, rng.integers(0, 10, digits - 1)))
    return int(text)


def draw_length(rng: np.random.Generator, most: int) -> int:
    return int(rng.integers(1, most + 1))


def draw_decimal(rng: np.random.Generator, digits: int, places: int = 4) -> Decimal:
    """A whole number of exactly so many digits with up to `places` further digits, the last of them not 0."""
    whole, count = draw_whole(rng, digits), int(rng.integers(0, places + 1))
    fraction = "".join(map(str, rng.integers(0, 10, max(count - 1, 0))))
    return Decimal(f"{whole}.{fraction}{rng.integers(1, 10)}") if count else Decimal(whole)


def spell(value: Decimal) -> str:
    """A decimal in plain digits, without zeros at the end of its fraction."""
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def round_half_up(value: Decimal, digits: int) -> str:
    """A positive number with so many significant digits, in plain digits: 9.9999 with three is 10.0."""
    for place in (value.adjusted() - digits + 1, value.adjusted() - digits + 2):
        rounded = EXACT.quantize(value, Decimal((0, (1,), place)))
        if len(rounded.as_tuple().digits) == digits:
            break
    return f"{rounded:f}"


def add(rng: np.random.Generator, length: int) -> Problem:
    """a + b; in a tenth a carry runs through all places."""
    a = draw_whole(rng, length)
    b = draw_whole(rng, draw_length(rng, length))
    if rng.random() < CHAIN_SHARE:
        a, b = (10**length - b, b) if b and rng.random() < 0.5 else (10**length - 1, 1)
    if rng.random() < 0.5:
        a, b = b, a
    return Problem(f"{a} + {b} =", str(a + b), f"{min(a, b)} + {max(a, b)}")


def sub(rng: np.random.Generator, length: int) -> Problem:
    """a − b, in half of the problems negative."""
    a, b = draw_whole(rng, length), draw_whole(rng, draw_length(rng, length))
    if rng.random() < 0.5:
        a, b = b, a
    return Problem(f"{a} - {b} =", str(a - b), f"{a} - {b}")


def _make_product(digits: int) -> Operation:
    def mul(rng: np.random.Generator, length: int) -> Problem:
        a, b = draw_whole(rng, length), draw_whole(rng, digits)
        if rng.random() < 0.5:
            a, b = b, a
        return Problem(f"{a} * {b} =", str(a * b), f"{min(a, b)} * {max(a, b)}")

    return mul


def mul(rng: np.random.Generator, length: int) -> Problem:
    """a · b of the same length, at most four digits each."""
    return _make_product(min(length, 4))(rng, min(length, 4))


def decadd(rng: np.random.Generator, length: int) -> Problem:
    """a + b with up to four digits behind the point, not as many in both."""
    a, b = draw_decimal(rng, length), draw_decimal(rng, draw_length(rng, length))
    total = EXACT.add(a, b)
    low, high = sorted((a, b))
    return Problem(f"{spell(a)} + {spell(b)} =", spell(total), f"{spell(low)} + {spell(high)}")


def _draw_rivals(rng: np.random.Generator, length: int, count: int) -> list[Decimal]:
    """Different numbers that are hard to compare: with the same first half, or of other lengths (9.9 and 9.11)."""
    kind = rng.random()
    numbers: set[Decimal] = set()
    first = draw_whole(rng, length)
    while len(numbers) < count:
        if kind < 0.4 and length > 1:
            head = str(first)[: math.ceil(length / 2)]
            rest = "".join(map(str, rng.integers(0, 10, length - len(head))))
            numbers.add(Decimal(head + rest))
        elif kind < 0.6:
            places = int(rng.integers(1, 4))
            fraction = "".join(map(str, rng.integers(1, 10, places)))
            numbers.add(Decimal(f"{first}.{fraction}"))
        else:
            numbers.add(draw_decimal(rng, draw_length(rng, length), 2))
    return [list(numbers)[i] for i in rng.permutation(count)]


def largest(rng: np.random.Generator, length: int) -> Problem:
    """The largest of two to five numbers."""
    numbers = _draw_rivals(rng, length, int(rng.integers(2, 6)))
    texts = [spell(number) for number in numbers]
    return Problem(f"max {' , '.join(texts)} =", spell(max(numbers)), f"max {sorted(texts)}")


def sort(rng: np.random.Generator, length: int) -> Problem:
    """Three to five numbers, the smallest first."""
    numbers = _draw_rivals(rng, length, int(rng.integers(3, 6)))
    texts = [spell(number) for number in numbers]
    return Problem(f"sort {' , '.join(texts)} =", " , ".join(map(spell, sorted(numbers))), f"sort {sorted(texts)}")


def mod(rng: np.random.Generator, length: int) -> Problem:
    """a + b or a · b modulo 7, 11 or 97, of at most four digits."""
    a, b = (draw_whole(rng, draw_length(rng, min(length, 4))) for _ in range(2))
    p, is_sum = int(rng.choice(MODULI)), rng.random() < 0.5
    sign, value = ("+", a + b) if is_sum else ("*", a * b)
    return Problem(f"{a} {sign} {b} mod {p} =", str(value % p), f"{min(a, b)} {sign} {max(a, b)} mod {p}")


def digit_at(rng: np.random.Generator, length: int) -> Problem:
    """The digit at a place, counted from the right, from 1."""
    number = draw_whole(rng, length)
    place = int(rng.integers(1, length + 1))
    question = f"digit {place} of {number} ="
    return Problem(question, str(number)[-place], question)


def count(rng: np.random.Generator, length: int) -> Problem:
    """How many digits a number has, or how often one of them occurs."""
    number = draw_whole(rng, length)
    if rng.random() < 0.5:
        question, answer = f"length of {number} =", len(str(number))
    else:
        digit = str(rng.choice(list(str(number)))) if rng.random() < 0.7 else str(rng.integers(0, 10))
        question, answer = f"count {digit} in {number} =", str(number).count(digit)
    return Problem(question, str(answer), question)


def round_off(rng: np.random.Generator, length: int) -> Problem:
    """A number with so many significant digits; a fifth of the numbers has a run of nines where it is rounded."""
    number = draw_decimal(rng, length)
    digits = int(rng.integers(1, 5))
    if rng.random() < 0.2:
        number = Decimal(f"{number:f}"[:digits].rstrip(".") + "9" * 3) if digits <= length else number
    if not number:
        number = Decimal(1)
    question = f"round {spell(number)} to {digits} ="
    return Problem(question, round_half_up(number, digits), question)


def convert(rng: np.random.Generator, length: int) -> Problem:
    """A number written plainly as d.ddd…e±k, or the other way."""
    digits = str(rng.integers(1, 10)) + "".join(map(str, rng.integers(0, 10, max(int(rng.integers(0, length)), 0))))
    digits = digits.rstrip("0")
    power = int(rng.integers(-4, length + 1))
    scientific = digits[0] + (f".{digits[1:]}" if digits[1:] else "") + f"e{power}"
    plain = spell(Decimal(scientific))
    source, target = (plain, scientific) if rng.random() < 0.5 else (scientific, plain)
    way = "as power" if target == scientific else "plainly"
    question = f"write {source} {way} ="
    return Problem(question, target, question)


def frac(rng: np.random.Generator, length: int) -> Problem:
    """A fraction in lowest terms, or the sum of two: terms of two digits, of three beyond length 6."""
    size = 100 if length <= 6 else 1000

    def draw() -> tuple[int, int]:
        return int(rng.integers(1, size)), int(rng.integers(2, size))

    (a, b), (c, d) = draw(), draw()
    if rng.random() < 0.5:
        factor = int(rng.integers(2, 10))
        question, value = f"reduce {a * factor} / {b * factor} =", Fraction(a, b)
    else:
        question, value = f"{a} / {b} + {c} / {d} =", Fraction(a, b) + Fraction(c, d)
    answer = str(value.numerator) if value.denominator == 1 else f"{value.numerator} / {value.denominator}"
    return Problem(question, answer, question)


def _draw_scaled(rng: np.random.Generator, length: int) -> Decimal:
    digits = draw_whole(rng, draw_length(rng, min(length, SIGNIFICANT))) or 1
    return Decimal(digits).scaleb(int(rng.integers(-7, 8)), context=EXACT)


def fmul(rng: np.random.Generator, length: int) -> Problem:
    """The product of two decimals of any magnitude, to seven significant digits."""
    a, b = _draw_scaled(rng, length), _draw_scaled(rng, length)
    low, high = sorted((a, b))
    answer = spell(Decimal(round_half_up(EXACT.multiply(a, b), SIGNIFICANT)))
    return Problem(f"{spell(a)} * {spell(b)} =", answer, f"{spell(low)} * {spell(high)}")


def fdiv(rng: np.random.Generator, length: int) -> Problem:
    """The quotient of two decimals of any magnitude, to seven significant digits."""
    a, b = _draw_scaled(rng, length), _draw_scaled(rng, length)
    question = f"{spell(a)} / {spell(b)} ="
    return Problem(question, spell(Decimal(round_half_up(EXACT.divide(a, b), SIGNIFICANT))), question)


def copy(rng: np.random.Generator, length: int) -> Problem:
    """A number as it is written: whole, decimal, negative, grouped, with zeros at either end, or with an exponent."""
    whole = draw_whole(rng, length)
    forms = [str(whole), str(-whole), spell(draw_decimal(rng, length)), f"{whole:,}", f"{whole}.50", f"00{whole}"]
    forms.append(f"{spell(draw_decimal(rng, 1))}e{rng.integers(-9, 10)}")
    text = str(rng.choice(forms))
    return Problem(f"copy {text} =", text, f"copy {text}")


def pick(rng: np.random.Generator, length: int) -> Problem:
    """One of two numbers, at random: both are right."""
    a, b = draw_whole(rng, length), draw_whole(rng, length)
    while a == b:
        b = draw_whole(rng, length)
    answer, other = (a, b) if rng.random() < 0.5 else (b, a)
    return Problem(f"pick {a} or {b} =", str(answer), f"pick {min(a, b)} {max(a, b)}", (str(other),))


OPERATIONS: Mapping[str, Operation] = {
    "add": add,
    "sub": sub,
    "mul1": _make_product(1),
    "mul2": _make_product(2),
    "mul": mul,
    "decadd": decadd,
    "max": largest,
    "sort": sort,
    "mod": mod,
    "digit_at": digit_at,
    "count": count,
    "round": round_off,
    "convert": convert,
    "frac": frac,
    "fmul": fmul,
    "fdiv": fdiv,
    "copy": copy,
    "pick": pick,
}


def list_edges(name: str, length: int) -> list[Problem]:
    """Problems at the ends of an operation: zeros, carries and borrows through all places, equal operands."""
    nines, power = 10**length - 1, 10**length
    if name == "add":
        pairs = [(0, 0), (0, nines), (nines, 1), (nines, nines), (power // 2, power // 2), (power // 10, nines)]
        return [Problem(f"{a} + {b} =", str(a + b), f"{min(a, b)} + {max(a, b)}") for a, b in pairs]
    if name == "sub":
        pairs = [(0, 0), (nines, nines), (power // 10, 1), (1, power // 10), (nines, 0), (0, nines)]
        return [Problem(f"{a} - {b} =", str(a - b), f"{a} - {b}") for a, b in pairs]
    if name in ("mul1", "mul2", "mul"):
        largest_b = {"mul1": 9, "mul2": 99}.get(name, 10 ** min(length, 4) - 1)
        largest_a = nines if name != "mul" else largest_b
        products = [(largest_a, largest_b), (0, largest_a), (largest_a, 1)]
        return [Problem(f"{a} * {b} =", str(a * b), f"{min(a, b)} * {max(a, b)}") for a, b in products]
    if name == "decadd":
        texts = [("0.5", "0.5"), ("0.0001", str(nines)), ("0.0001", "0.9999")]
        return [
            Problem(f"{low} + {high} =", spell(EXACT.add(Decimal(low), Decimal(high))), f"{low} + {high}")
            for low, high in texts
        ]
    return []
