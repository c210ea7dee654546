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
from ..problems.generate import generate_total
from ..problems.numbers import format_decimal
from .generate import KINDS, NAME

_POOL = 500  # the number of right answers that a wrong one is drawn from
_FIRST = ("2", "12")  # the first wrong answers are drawn from these


def generate_records(size: int, seed: int, negatives: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (split, record): half of the candidates are right; a wrong one is drawn as in `generate`. Test has the
    streams of `problems`.

    Args:
      size: candidates in all, one per problem. seed: of everything random. negatives: a key of `KINDS`.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    pool = list(_FIRST)
    for number, (split, problem) in enumerate(generate_total(size, seed)):
        answer, kind = problem["ans"], "positive"
        if rng.integers(2):
            answer, kind = _draw_wrong_answer(rng, _pick(rng, KINDS[negatives]), problem, pool)
        pool = [*pool[-_POOL:], problem["ans"]]
        yield (
            split,
            dict(
                id=f"{NAME}-{number:06d}",
                question=problem["text_en"],
                answer=answer,
                label=int(kind == "positive"),
                kind=kind,
                operation=problem["situation"],
                stream=problem["stream"],
                steps=problem["steps"],
            ),
        )


def _draw_wrong_answer(
    rng: np.random.Generator, kind: str, problem: Mapping[str, Any], pool: Sequence[str]
) -> tuple[str, str]:
    """Draws (a wrong answer, its kind): of the requested kind, or "random" if there is none."""
    answer = problem["ans"]
    values = {
        "wrong_operation": lambda: _change_operations(problem["equation"]),
        "near_miss": lambda: [Fraction(answer) + step for step in range(-10, 11)],
        "digit_edit": lambda: _change_digits(answer),
        "random": list,
    }[kind]()
    choices = [format_decimal(value) for value in values if value > 0 and value != Fraction(answer)]
    if choices:
        return _pick(rng, choices), kind
    return _pick(rng, [other for other in pool if other != answer]), "random"


def _pick(rng: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(rng.integers(len(options)))]


def _change_operations(equation: str) -> list[Fraction]:
    """The values of the equation with one operation replaced, if they are finite decimals."""
    node = expression.parse_equation(equation)
    values = []
    for position, sign in itertools.product(range(len(list(expression.subexpressions(node)))), "+-*/"):
        with contextlib.suppress(ZeroDivisionError):
            values.append(expression.evaluate(_replace_sign(node, position, sign), {}))
    return [value for value in values if "/" not in format_decimal(value)]


def _change_digits(answer: str) -> list[Fraction]:
    """All numbers that differ from the answer in one digit; the first digit is never 0."""
    if "/" in answer:
        return []
    positions = [i for i, character in enumerate(answer) if character.isdigit()]
    edits = [answer[:i] + digit + answer[i + 1 :] for i in positions for digit in "0123456789"]
    # Numbers such as 007 and 13.0 have a shorter form and are left out.
    return [Fraction(edit) for edit in edits if format_decimal(Fraction(edit)) == edit]


def _replace_sign(node: Node, position: int, sign: str) -> Node:
    """The node with another sign at the operation that `expression.subexpressions` yields at `position`."""
    count = -1

    def walk(part: Node) -> Node:
        nonlocal count
        if isinstance(part, str):
            return part
        count += 1
        part_sign = sign if count == position else part[0]
        return part_sign, walk(part[1]), walk(part[2])

    return walk(node)
