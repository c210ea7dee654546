"""MWPAS in many wordings: is a candidate the answer to a composed problem (`data/problems`)?"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..problems import expression
from ..problems.expression import Node
from ..problems.generate import of_size
from ..problems.numbers import decimal
from .generate import KINDS, NAME

_POOL = 500  # right answers that a wrong one is drawn from
_FIRST = ("2", "12")  # of which the first wrong ones are drawn


def records(size: int, seed: int, negatives: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(split, record): half of the candidates are right; a wrong one is made as in `generate`. Test has the streams
    of `problems`.

    Args:
      size: candidates in all, a problem each. seed: of everything random. negatives: a key of `KINDS`.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    pool = list(_FIRST)
    for place, (split, problem) in enumerate(of_size(size, seed)):
        said, kind = problem["ans"], "positive"
        if rng.integers(2):
            said, kind = _wrong(rng, _one(rng, KINDS[negatives]), problem, pool)
        pool = [*pool[-_POOL:], problem["ans"]]
        yield (
            split,
            dict(
                id=f"{NAME}-{place:06d}",
                question=problem["text_en"],
                answer=said,
                label=int(kind == "positive"),
                kind=kind,
                operation=problem["situation"],
                stream=problem["stream"],
                steps=problem["steps"],
            ),
        )


def _wrong(rng: np.random.Generator, kind: str, problem: Mapping[str, Any], pool: Sequence[str]) -> tuple[str, str]:
    """(a wrong answer, its kind): of the kind that is asked for, or "random" where there is none."""
    answer = problem["ans"]
    found = {
        "wrong_operation": lambda: _other_operations(problem["equation"]),
        "near_miss": lambda: [Fraction(answer) + step for step in range(-10, 11)],
        "digit_edit": lambda: _other_digits(answer),
        "random": list,
    }[kind]()
    known = [decimal(value) for value in found if value > 0 and value != Fraction(answer)]
    if known:
        return _one(rng, known), kind
    return _one(rng, [other for other in pool if other != answer]), "random"


def _one(rng: np.random.Generator, of: Sequence[str]) -> str:
    return of[int(rng.integers(len(of)))]


def _other_operations(equation: str) -> list[Fraction]:
    """What comes out with another operation in one place, where that has an end as a decimal."""
    node = expression.of_equation(equation)
    values = []
    for place, sign in itertools.product(range(len(list(expression.parts(node)))), "+-*/"):
        with contextlib.suppress(ZeroDivisionError):
            values.append(expression.evaluate(_with(node, place, sign), {}))
    return [value for value in values if "/" not in decimal(value)]


def _other_digits(answer: str) -> list[Fraction]:
    """All numbers that differ from it in one digit, the first never 0."""
    if "/" in answer:
        return []
    places = [place for place, character in enumerate(answer) if character.isdigit()]
    edits = [answer[:i] + digit + answer[i + 1 :] for i in places for digit in "0123456789"]
    # 007 and 13.0 are written with fewer digits.
    return [Fraction(edit) for edit in edits if decimal(Fraction(edit)) == edit]


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
