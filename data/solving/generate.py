"""A seeded stand-in for MATH: generated problems in the files' form, solved step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from numjax.errors import UsageError

_PATIENCE = 200  # draws for one problem before the templates count as exhausted

RawProblem = dict[str, Any]
Draw = Callable[..., int]


def make_problems(size: int, seed: int) -> Iterator[RawProblem]:
    """Yields raw objects in the form of the published files, no two with the same problem.

    Args:
      size: how many objects. seed: of everything random.

    Raises:
      UsageError: the templates do not hold that many problems.
    """
    rng = np.random.default_rng(seed)

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    texts: set[str] = set()
    for _ in range(size):
        for _ in range(_PATIENCE):
            problem = MATH[draw(0, len(MATH) - 1)](draw)
            text = problem["problem"]
            if text not in texts:
                break
        else:
            raise UsageError(f"math: the stand-in does not hold {size} different problems; choose a smaller size")
        texts.add(text)
        yield problem


# --- MATH: LaTeX in the problem and the solution, the answer in a box.


def _make_problem(problem: str, solution: str, level: int, subject: str) -> RawProblem:
    return {"problem": problem, "level": f"Level {level}", "type": subject, "solution": solution}


def _write_fraction(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _make_linear(draw: Draw) -> RawProblem:
    a, b, c = draw(2, 30), draw(1, 90), draw(1, 200)
    answer = Fraction(c - b, a)
    return _make_problem(
        f"Solve for $x$: ${a}x + {b} = {c}$.",
        f"Subtracting ${b}$ from both sides gives \\[{a}x = {c - b}.\\] Dividing by ${a}$, we find $x = "
        f"\\boxed{{{_write_fraction(answer)}}}$.",
        1,
        "Algebra",
    )


def _make_roots(draw: Draw) -> RawProblem:
    p, q = draw(1, 40), draw(1, 40)
    return _make_problem(
        f"Find the sum of the squares of the roots of $x^2 - {p + q}x + {p * q} = 0$.",
        f"By Vieta, the roots have sum ${p + q}$ and product ${p * q}$, so the sum of their squares is "
        f"\\begin{{align*}}{p + q}^2 - 2 \\cdot {p * q} &= {(p + q) ** 2} - {2 * p * q} \\\\ &= "
        f"{p * p + q * q}.\\end{{align*}} The answer is $\\boxed{{{p * p + q * q}}}$.",
        3,
        "Intermediate Algebra",
    )


def _make_radical(draw: Draw) -> RawProblem:
    k, n = draw(2, 30), draw(2, 40)
    while any(n % (i * i) == 0 for i in range(2, n + 1)):
        n = draw(2, 40)
    return _make_problem(
        f"Simplify $\\sqrt{{{k * k * n}}}$.",
        f"Since ${k * k * n} = {k}^2 \\cdot {n}$, we have $\\sqrt{{{k * k * n}}} = \\boxed{{{k}\\sqrt{{{n}}}}}$.",
        2,
        "Prealgebra",
    )


def _make_divisor(draw: Draw) -> RawProblem:
    common, a, b = draw(2, 24), draw(2, 20), draw(2, 20)
    left, right = common * a, common * b
    gcd = math.gcd(left, right)
    return _make_problem(
        f"What is the greatest common divisor of ${left}$ and ${right}$?",
        f"We have ${left} = {gcd} \\cdot {left // gcd}$ and ${right} = {gcd} \\cdot {right // gcd}$, and "
        f"the other factors share no divisor. The greatest common divisor is $\\boxed{{{gcd}}}$.",
        2,
        "Number Theory",
    )


def _make_midpoint(draw: Draw) -> RawProblem:
    a, b, c, d = (draw(-20, 20) for _ in range(4))
    x, y = Fraction(a + c, 2), Fraction(b + d, 2)
    return _make_problem(
        f"What is the midpoint of the segment from $({a}, {b})$ to $({c}, {d})$? Express your answer as an ordered "
        "pair.",
        f"The midpoint is \\[\\left(\\frac{{{a} + ({c})}}{{2}}, \\frac{{{b} + ({d})}}{{2}}\\right) = "
        f"\\boxed{{\\left({_write_fraction(x)}, {_write_fraction(y)}\\right)}}.\\]",
        3,
        "Geometry",
    )


def _make_chance(draw: Draw) -> RawProblem:
    red, blue = draw(1, 40), draw(1, 40)
    answer = Fraction(red, red + blue)
    return _make_problem(
        f"A bag holds ${red}$ red and ${blue}$ blue balls. What is the probability that a ball drawn at random "
        "is red? Express your answer as a common fraction.",
        f"There are ${red + blue}$ balls, so the probability is $\\dfrac{{{red}}}{{{red + blue}}} = "
        f"\\boxed{{{_write_fraction(answer)}}}$.",
        2,
        "Counting & Probability",
    )


MATH = (_make_linear, _make_roots, _make_radical, _make_divisor, _make_midpoint, _make_chance)
