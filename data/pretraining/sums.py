"""Sums, differences, products and quotients in signs and in words, with their exact answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from numjax.numeral.surface import format_trimmed

LONGEST = 10  # characters of an answer
TWO_STEPS = 0.25  # probability of two operations

# Kind of number → its probability, probabilities of 1, 2, … digits before the point, digits behind it. Word problems
# have small numbers, and small models learn to add these first.
KINDS = {
    "small": (0.75, (0.35, 0.45, 0.2), 0),
    "large": (0.07, (0.0, 0.0, 0.0, 0.5, 0.3, 0.2), 0),
    "tenths": (0.1, (0.5, 0.4, 0.1), 1),
    "hundredths": (0.08, (0.5, 0.4, 0.1), 2),
}
SIGNS = (
    "{a} {s} {b}",
    "{a} {s} {b} =",
    "What is {a} {s} {b} ?",
    "Compute {a} {s} {b} .",
    "x = {a} {s} {b} . Find x .",
)
WORDS = {
    "+": (
        "What is {a} plus {b} ?",
        "Add {a} and {b} .",
        "Add {b} to {a} .",
        "What is the sum of {a} and {b} ?",
        "{a} and {b} more make how many ?",
        "How many are {a} and {b} together ?",
        "What is {b} more than {a} ?",
        "{a} increased by {b}",
    ),
    "-": (
        "What is {a} minus {b} ?",
        "Subtract {b} from {a} .",
        "What is the difference between {a} and {b} ?",
        "Take {b} away from {a} . What is left ?",
        "What is {b} less than {a} ?",
        "How much larger is {a} than {b} ?",
        "{a} decreased by {b}",
        "What must be added to {b} to make {a} ?",
    ),
    "*": (
        "What is {a} times {b} ?",
        "Multiply {a} by {b} .",
        "What is the product of {a} and {b} ?",
        "How many are {b} groups of {a} ?",
        "{b} times {a}",
    ),
    "/": (
        "What is {a} divided by {b} ?",
        "Divide {a} by {b} .",
        "How many times does {b} go into {a} ?",
        "Share {a} equally among {b} . How many does each get ?",
        "What is the quotient of {a} and {b} ?",
    ),
}
# A second operation on the result of the first, in signs and in words.
SECOND = ("( {first} ) {s} {c}", "( {first} ) {s} {c} =", "What is ( {first} ) {s} {c} ?")
THEN = {
    "+": "{first} then add {c} .",
    "-": "{first} then subtract {c} .",
    "*": "{first} then multiply by {c} .",
    "/": "{first} then divide by {c} .",
}
ORDERS = {"+": "Add {a} and {b} ,", "-": "Subtract {b} from {a} ,", "*": "Multiply {a} by {b} ,"}
ORDERS |= {"/": "Divide {a} by {b} ,"}


class Sum(NamedTuple):
    """A question and its answer, a plain decimal above 0."""

    question: str
    answer: str


def generate_sums(rng: np.random.Generator, without: Collection[str] = ()) -> Iterator[Sum]:
    """Yields questions without end. Short ones come again and again, as a model has to meet 7 + 5 more than once.

    Args:
      without: questions that are left out, such as those of validation.
    """
    while True:
        drawn = _draw_two_steps(rng) if rng.random() < TWO_STEPS else _draw_one_step(rng)
        if drawn is not None and drawn.question not in without:
            yield drawn


def _draw_one_step(rng: np.random.Generator) -> Sum | None:
    sign = str(rng.choice(list(WORDS)))
    a, b = _draw_operands(rng, sign)
    pattern = str(rng.choice(SIGNS if rng.random() < 0.4 else WORDS[sign]))
    return _make_sum(pattern.format(a=_write(a), b=_write(b), s=sign), _apply(a, sign, b))


def _draw_two_steps(rng: np.random.Generator) -> Sum | None:
    """A sum whose first result is an operand of the second; numbers are small."""
    first_sign, sign = (str(word) for word in rng.choice(list(WORDS), 2))
    a, b = _draw_operands(rng, first_sign, "small")
    c = Decimal(int(rng.integers(2, 100 if sign in "+-" else 10)))
    operands = dict(a=_write(a), b=_write(b), s=first_sign)
    if rng.random() < 0.6:
        text = str(rng.choice(SECOND)).format(first="{a} {s} {b}".format(**operands), s=sign, c=_write(c))
    else:
        text = THEN[sign].format(first=ORDERS[first_sign].format(**operands), c=_write(c))
    return _make_sum(text, _apply(_apply(a, first_sign, b), sign, c))


def _draw_operands(rng: np.random.Generator, sign: str, kind: str = "") -> tuple[Decimal, Decimal]:
    """(left, right): a difference is not negative, and the right factor or divisor has at most two digits."""
    names, chances = list(KINDS), [chance for chance, _, _ in KINDS.values()]
    a, b = (_draw_number(rng, kind or str(rng.choice(names, p=chances))) for _ in range(2))
    if sign in "*/":
        b = Decimal(int(rng.integers(2, 100 if rng.random() < 0.5 else 10)))
        return (a * b, b) if sign == "/" else (a, b)
    return (max(a, b), min(a, b)) if sign == "-" else (a, b)


def _draw_number(rng: np.random.Generator, kind: str) -> Decimal:
    """A number above 0; first its number of digits is drawn, then the digits."""
    _, chances, places = KINDS[kind]
    length = int(rng.choice(len(chances), p=chances)) + 1 + places
    return Decimal(int(rng.integers(10 ** (length - 1), 10**length))).scaleb(-places)


def _apply(a: Decimal, sign: str, b: Decimal) -> Decimal:
    return {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[sign]


def _write(value: Decimal) -> str:
    return format_trimmed(value)


def _make_sum(question: str, answer: Decimal) -> Sum | None:
    """None if the answer is not above 0, or too long: a quotient without end is 28 digits."""
    text = _write(answer)
    return Sum(question, text) if answer > 0 and len(text) <= LONGEST else None
