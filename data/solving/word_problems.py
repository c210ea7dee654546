"""Composed word problems (`data/problems`) in GSM8K's form: solved step by step, with the calculator's marks."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from ..problems import expression
from ..problems.expression import Node
from ..problems.generate import of_size
from ..problems.numbers import decimal

FIRST = ("First, {}.", "Start with {}.", "{}", "To begin, {}.", "We have {}.")
NEXT = ("Then {}.", "Next, {}.", "That makes {}.", "{}", "Now {}.", "So {}.")
ONLY = ("{}", "The answer is {}.", "We have {}.", "It is {}.", "That is {}.")


def problems(size: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(split, raw object), no two with the same problem.

    Args:
      size: how many in all. seed: of everything random.
    """
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(1,)))
    for split, record in of_size(size, seed):
        lines = [*solved(record["equation"], rng), f"#### {record['ans']}"]
        yield split, {"question": record["text_en"], "answer": "\n".join(lines)}


def solved(equation: str, rng: np.random.Generator) -> list[str]:
    """An equation "x = …" worked out, an operation a line.

    A fraction of something, and what has no end as a decimal, stand within the next line.
    """
    calls: list[str] = []
    whole = expression.of_equation(equation)

    def work_out(node: Node, above: str) -> tuple[str, Fraction]:
        if isinstance(node, str):
            return node, Fraction(node)
        sign = node[0]
        (left, a), (right, b) = (work_out(child, sign) for child in node[1:])
        value = expression.evaluate((sign, "a", "b"), {"a": a, "b": b})
        written = decimal(value)
        is_share = sign == "/" and isinstance(node[1], str) and isinstance(node[2], str) and value < 1
        if above and ("/" in written or (is_share and above in "*/")):
            return f"({left}{sign}{right})", value
        calls.append(f"{left}{sign}{right}=<<{left}{sign}{right}={written}>>{written}")
        return written, value

    work_out(whole, "")
    leads = [ONLY] if len(calls) == 1 else [FIRST, *[NEXT] * (len(calls) - 1)]
    return [lead[int(rng.integers(len(lead)))].format(call) for lead, call in zip(leads, calls, strict=True)]
