"""MWPAS in many wordings: is a candidate the answer to a composed problem (`data/problems`)?"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ..problems import expression
from ..problems.expression import Node
from ..problems.generate import STREAMS
from ..problems.generate import records as problems
from ..problems.numbers import decimal
from .generate import KINDS, NAME

TEST, VALIDATION = 0.2, 0.1  # of all, and of what is left
INVENTED = 0.3
_POOL = 500  # right answers that a wrong one is drawn from


def records(size: int, seed: int, negatives: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(split, record): every other candidate is right; a wrong one is made as in `generate`. Test has the streams of
    `problems`.

    Args:
      size: candidates in all, a problem each. seed: of everything random. negatives: a key of `KINDS`.
    """
    streams = sum(stream.split == "test" for stream in STREAMS.values())
    test = max(1, round(size * TEST / streams))
    validation = max(1, round((size - test * streams) * VALIDATION))
    train = max(1, size - validation - test * streams)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    pool: list[str] = ["12"]
    made = problems(size=train, test=test, validation=validation, seed=seed, invented=INVENTED, wordings=0)
    for place, (split, problem) in enumerate(made):
        answer, label = problem["ans"], int(rng.integers(2))
        kind = "positive" if label else KINDS[negatives][int(rng.integers(len(KINDS[negatives])))]
        said = answer if label else wrong(rng, kind, problem["equation"], answer, pool)
        pool = [*pool[-_POOL:], answer]
        yield (
            split,
            dict(
                id=f"{NAME}-{place:06d}",
                question=problem["text_en"],
                answer=said,
                label=label,
                kind=kind,
                operation=problem["situation"],
                stream=problem["stream"],
                steps=problem["steps"],
            ),
        )


def wrong(rng: np.random.Generator, kind: str, equation: str, answer: str, pool: list[str]) -> str:
    """A wrong answer of a kind; "random" where there is none of it."""
    found = ""
    if kind == "wrong_operation":
        found = _other_operation(rng, equation, Fraction(answer))
    elif kind == "near_miss":
        value, step = Fraction(answer), int(rng.integers(1, 11))
        found = decimal(value - step if rng.random() < 0.5 and value > step else value + step)
    elif kind == "digit_edit":
        found = _other_digit(rng, answer)
    while not found or found == answer:
        found = pool[int(rng.integers(len(pool)))]
        pool = pool if found != answer else [*pool, str(int(rng.integers(1, 1000)))]
    return found


def _other_operation(rng: np.random.Generator, equation: str, answer: Fraction) -> str:
    """What comes out with another operation in one place, above 0; "" where nothing else does."""
    node = expression.of_equation(equation)
    places = len(list(expression.parts(node)))
    values = []
    for place in range(places):
        for sign in "+-*/":
            try:
                value = expression.evaluate(_with(node, place, sign), {})
            except ZeroDivisionError:
                continue
            if value > 0 and value != answer and "/" not in decimal(value):
                values.append(value)
    return decimal(values[int(rng.integers(len(values)))]) if values else ""


def _with(node: Node, place: int, sign: str) -> Node:
    """The same with another sign at the operation that `expression.parts` gives at a place."""
    count = -1

    def walk(found: Node) -> Node:
        nonlocal count
        if isinstance(found, str):
            return found
        count += 1
        mine = sign if count == place else found[0]
        return mine, walk(found[1]), walk(found[2])

    return walk(node)


def _other_digit(rng: np.random.Generator, answer: str) -> str:
    """The answer with one digit replaced by another, the first never by 0."""
    places = [place for place, character in enumerate(answer) if character.isdigit()]
    place = places[int(rng.integers(len(places)))]
    digits = [d for d in "0123456789" if d != answer[place] and not (d == "0" and place == 0)]
    return answer[:place] + digits[int(rng.integers(len(digits)))] + answer[place + 1 :]
