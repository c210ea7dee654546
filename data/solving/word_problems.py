"""Composed word problems (`data/problems`) in GSM8K's form, solved step by step, with the calculator's marks."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ..problems import expression
from ..problems.expression import Node
from ..problems.generate import generate_total
from ..problems.numbers import format_decimal

FIRST_STEPS = ("First, {}.", "Start with {}.", "{}", "To begin, {}.", "We have {}.")
NEXT_STEPS = ("Then {}.", "Next, {}.", "That makes {}.", "{}", "Now {}.", "So {}.")
ONLY_STEPS = ("{}", "The answer is {}.", "We have {}.", "It is {}.", "That is {}.")


def make_problems(size: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (split, raw object), no two with the same problem.

    Args:
      size: how many objects in all. seed: of everything random.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    for split, record in generate_total(size, seed):
        lines = [*solve(record["equation"], rng), f"#### {record['ans']}"]
        yield split, {"question": record["text_en"], "answer": "\n".join(lines)}


def solve(equation: str, rng: np.random.Generator) -> list[str]:
    """Returns the solution of an equation "x = …", one operation a line.

    A fraction of something, and a result without a finite decimal, stay unevaluated within the next line.
    """
    steps: list[str] = []
    tree = expression.parse_equation(equation)

    def work_out(node: Node, parent_sign: str) -> tuple[str, Fraction]:
        if isinstance(node, str):
            return node, Fraction(node)
        sign = node[0]
        (left, a), (right, b) = (work_out(child, sign) for child in node[1:])
        value = expression.evaluate((sign, "a", "b"), {"a": a, "b": b})
        result = format_decimal(value)
        is_share = sign == "/" and isinstance(node[1], str) and isinstance(node[2], str) and value < 1
        if parent_sign and ("/" in result or (is_share and parent_sign in "*/")):
            return f"({left}{sign}{right})", value
        steps.append(f"{left}{sign}{right}=<<{left}{sign}{right}={result}>>{result}")
        return result, value

    work_out(tree, "")
    leads = [ONLY_STEPS] if len(steps) == 1 else [FIRST_STEPS, *[NEXT_STEPS] * (len(steps) - 1)]
    return [lead[int(rng.integers(len(lead)))].format(call) for lead, call in zip(leads, steps, strict=True)]
