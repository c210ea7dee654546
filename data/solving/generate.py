"""Seeded stand-ins for GSM8K and MATH: problems of our own in the files' forms, solved step by step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from numjax.errors import UsageError

_PATIENCE = 200  # draws for one problem before the templates are taken to be used up

Made = dict[str, Any]
Draw = Callable[..., int]


def problems(form: str, size: int, seed: int) -> Iterator[Made]:
    """Raw objects in the form of the published files, no two with the same problem.

    Args:
      form: "gsm8k" or "math". size: how many. seed: of everything random.

    Raises:
      UsageError: the templates do not hold that many problems.
    """
    rng = np.random.default_rng(seed)
    templates = {"gsm8k": GSM8K, "math": MATH}[form]

    def draw(low: int, high: int) -> int:
        return int(rng.integers(low, high + 1))

    seen: set[str] = set()
    for _ in range(size):
        for _ in range(_PATIENCE):
            made = templates[draw(0, len(templates) - 1)](draw)
            text = made.get("question") or made["problem"]
            if text not in seen:
                break
        else:
            raise UsageError(f"{form}: the stand-in does not hold {size} different problems; choose a smaller size")
        seen.add(text)
        yield made


# --- GSM8K: a question, and an answer with the calculator's marks.


def _word_problem(question: str, steps: list[str], answer: int | Fraction) -> Made:
    return {"question": question, "answer": "\n".join([*steps, f"#### {answer}"])}


def _calls(left: str, value: int) -> str:
    """A calculation as GSM8K writes it: "3*4=<<3*4=12>>12"."""
    return f"{left}=<<{left}={value}>>{value}"


def _bakery(draw: Draw) -> Made:
    boxes, rolls, sold, price = draw(3, 30), draw(6, 24), draw(5, 60), draw(2, 6)
    total = boxes * rolls
    left = max(total - sold, 0)
    return _word_problem(
        f"A baker fills {boxes} boxes with {rolls} rolls each. She gives away {total - left} rolls and sells the "
        f"rest for ${price} each. How much money does she make?",
        [
            f"She bakes {_calls(f'{boxes}*{rolls}', total)} rolls.",
            f"After giving some away she has {_calls(f'{total}-{total - left}', left)} rolls.",
            f"She makes {_calls(f'{left}*{price}', left * price)} dollars.",
        ],
        left * price,
    )


def _trip(draw: Draw) -> Made:
    first, hours, second, more = draw(20, 90), draw(2, 6), draw(20, 90), draw(2, 6)
    one, two = first * hours, second * more
    return _word_problem(
        f"Mara drives {hours} hours at {first} miles per hour and then {more} hours at {second} miles per hour. "
        "How many miles does she drive?",
        [
            f"First she drives {_calls(f'{first}*{hours}', one)} miles.",
            f"Then she drives {_calls(f'{second}*{more}', two)} miles.",
            f"In total she drives {_calls(f'{one}+{two}', one + two)} miles.",
        ],
        one + two,
    )


def _savings(draw: Draw) -> Made:
    start, weekly, weeks = draw(10, 400), draw(5, 40), draw(3, 20)
    saved = weekly * weeks
    return _word_problem(
        f"Tom has ${start} and saves ${weekly} every week. How many dollars does he have after {weeks} weeks?",
        [
            f"He saves {_calls(f'{weekly}*{weeks}', saved)} dollars.",
            f"Now he has {_calls(f'{start}+{saved}', start + saved)} dollars.",
        ],
        start + saved,
    )


def _class(draw: Draw) -> Made:
    groups, size, away = draw(3, 12), draw(3, 9), draw(1, 8)
    pupils = groups * size
    return _word_problem(
        f"A class makes {groups} groups of {size} pupils. Then {away} pupils leave. If each of the others needs 2 "
        "pencils, how many pencils are needed?",
        [
            f"There are {_calls(f'{groups}*{size}', pupils)} pupils.",
            f"After some leave there are {_calls(f'{pupils}-{away}', pupils - away)} pupils.",
            f"They need {_calls(f'{pupils - away}*2', (pupils - away) * 2)} pencils.",
        ],
        (pupils - away) * 2,
    )


def _half(draw: Draw) -> Made:
    half, more = draw(5, 400), draw(2, 60)
    return _word_problem(
        f"Lena picked {2 * half} apples on Monday, half as many on Tuesday, and {more} more than on Tuesday on "
        "Wednesday. How many apples did she pick in the three days?",
        [
            f"On Tuesday she picked {_calls(f'{2 * half}/2', half)} apples.",
            f"On Wednesday she picked {_calls(f'{half}+{more}', half + more)} apples.",
            f"In all she picked {_calls(f'{2 * half}+{half}+{half + more}', 4 * half + more)} apples.",
        ],
        4 * half + more,
    )


def _share(draw: Draw) -> Made:
    people, each, tip = draw(2, 9), draw(6, 60), draw(1, 20)
    bill = people * each
    return _word_problem(
        f"{people} friends eat for ${bill} and leave a tip of ${tip * people}. They share everything equally. "
        "How many dollars does each of them pay?",
        [
            f"Together they pay {_calls(f'{bill}+{tip * people}', bill + tip * people)} dollars.",
            f"Each pays {_calls(f'{bill + tip * people}/{people}', each + tip)} dollars.",
        ],
        each + tip,
    )


GSM8K = (_bakery, _trip, _savings, _class, _half, _share)


# --- MATH: LaTeX in the problem and the solution, the answer in a box.


def _competition(problem: str, solution: str, level: int, subject: str) -> Made:
    return {"problem": problem, "level": f"Level {level}", "type": subject, "solution": solution}


def _tex(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _linear(draw: Draw) -> Made:
    a, b, c = draw(2, 30), draw(1, 90), draw(1, 200)
    answer = Fraction(c - b, a)
    return _competition(
        f"Solve for $x$: ${a}x + {b} = {c}$.",
        f"Subtracting ${b}$ from both sides gives \\[{a}x = {c - b}.\\] Dividing by ${a}$, we find $x = "
        f"\\boxed{{{_tex(answer)}}}$.",
        1,
        "Algebra",
    )


def _roots(draw: Draw) -> Made:
    p, q = draw(1, 40), draw(1, 40)
    return _competition(
        f"Find the sum of the squares of the roots of $x^2 - {p + q}x + {p * q} = 0$.",
        f"By Vieta, the roots have sum ${p + q}$ and product ${p * q}$, so the sum of their squares is "
        f"\\begin{{align*}}{p + q}^2 - 2 \\cdot {p * q} &= {(p + q) ** 2} - {2 * p * q} \\\\ &= "
        f"{p * p + q * q}.\\end{{align*}} The answer is $\\boxed{{{p * p + q * q}}}$.",
        3,
        "Intermediate Algebra",
    )


def _radical(draw: Draw) -> Made:
    k, n = draw(2, 30), draw(2, 40)
    while any(n % (i * i) == 0 for i in range(2, n + 1)):
        n = draw(2, 40)
    return _competition(
        f"Simplify $\\sqrt{{{k * k * n}}}$.",
        f"Since ${k * k * n} = {k}^2 \\cdot {n}$, we have $\\sqrt{{{k * k * n}}} = \\boxed{{{k}\\sqrt{{{n}}}}}$.",
        2,
        "Prealgebra",
    )


def _greatest(draw: Draw) -> Made:
    common, a, b = draw(2, 24), draw(2, 20), draw(2, 20)
    left, right = common * a, common * b
    found = math.gcd(left, right)
    return _competition(
        f"What is the greatest common divisor of ${left}$ and ${right}$?",
        f"We have ${left} = {found} \\cdot {left // found}$ and ${right} = {found} \\cdot {right // found}$, and "
        f"the other factors share no divisor. The greatest common divisor is $\\boxed{{{found}}}$.",
        2,
        "Number Theory",
    )


def _midpoint(draw: Draw) -> Made:
    a, b, c, d = (draw(-20, 20) for _ in range(4))
    x, y = Fraction(a + c, 2), Fraction(b + d, 2)
    return _competition(
        f"What is the midpoint of the segment from $({a}, {b})$ to $({c}, {d})$? Express your answer as an ordered "
        "pair.",
        f"The midpoint is \\[\\left(\\frac{{{a} + ({c})}}{{2}}, \\frac{{{b} + ({d})}}{{2}}\\right) = "
        f"\\boxed{{\\left({_tex(x)}, {_tex(y)}\\right)}}.\\]",
        3,
        "Geometry",
    )


def _chance(draw: Draw) -> Made:
    red, blue = draw(1, 40), draw(1, 40)
    answer = Fraction(red, red + blue)
    return _competition(
        f"A bag holds ${red}$ red and ${blue}$ blue balls. What is the probability that a ball drawn at random "
        "is red? Express your answer as a common fraction.",
        f"There are ${red + blue}$ balls, so the probability is $\\dfrac{{{red}}}{{{red + blue}}} = "
        f"\\boxed{{{_tex(answer)}}}$.",
        2,
        "Counting & Probability",
    )


MATH = (_linear, _roots, _radical, _greatest, _midpoint, _chance)
