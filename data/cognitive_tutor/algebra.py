"""Linear equations in x, exact: formatted, solved, and changed as a student changes them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class Term(NamedTuple):
    """coefficient · x^power, or coefficient · (inner) if there are brackets: 3x, -5, x/4, 2(x + 3), (2x + 1)/5."""

    coefficient: Fraction
    power: int = 0
    inner: tuple[Term, ...] = ()


Side = tuple[Term, ...]


class Equation(NamedTuple):
    """left = right."""

    left: Side
    right: Side


def linear_coefficients(side: Sequence[Term]) -> tuple[Fraction, Fraction]:
    """(a, b) with side = a·x + b."""
    a = b = Fraction(0)
    for term in side:
        if term.inner:
            inner_a, inner_b = linear_coefficients(term.inner)
            a, b = a + term.coefficient * inner_a, b + term.coefficient * inner_b
        elif term.power:
            a += term.coefficient
        else:
            b += term.coefficient
    return a, b


def solution(equation: Equation) -> Fraction | None:
    """The solution x, or None if no number or every number solves the equation."""
    (a, b), (c, d) = linear_coefficients(equation.left), linear_coefficients(equation.right)
    return None if a == c else (d - b) / (a - c)


def collect_terms(side: Sequence[Term]) -> Side:
    """The side with like terms combined, x first, brackets unchanged; never empty."""
    free = [term for term in side if not term.inner]
    a = sum((t.coefficient for t in free if t.power), Fraction(0))
    b = sum((t.coefficient for t in free if not t.power), Fraction(0))
    out = [*(t for t in side if t.inner), *([Term(a, 1)] if a else []), *([Term(b)] if b else [])]
    return tuple(out) or (Term(Fraction(0)),)


def expand(side: Sequence[Term]) -> Side:
    """The side with brackets multiplied out and like terms not combined."""
    out: list[Term] = []
    for term in side:
        if term.inner:
            out += [Term(term.coefficient * t.coefficient, t.power) for t in expand(term.inner)]
        else:
            out.append(term)
    return tuple(out)


def add_to_sides(equation: Equation, term: Term) -> Equation:
    """The equation with a term added to both sides and like terms combined."""
    return Equation(collect_terms((*equation.left, term)), collect_terms((*equation.right, term)))


def scale_sides(equation: Equation, factor: Fraction) -> Equation:
    """The equation with both sides multiplied; a bracket whose factor becomes 1 is opened."""
    return Equation(_multiply_side(equation.left, factor), _multiply_side(equation.right, factor))


def _multiply_side(side: Side, factor: Fraction) -> Side:
    out: list[Term] = []
    for term in side:
        coefficient = term.coefficient * factor
        out += term.inner if term.inner and coefficient == 1 else [term._replace(coefficient=coefficient)]
    return collect_terms(out)


def is_solved(equation: Equation) -> bool:
    """Whether the equation is x = number, or number = x."""
    for variable, constant in (equation, equation[::-1]):
        if (
            variable == (Term(Fraction(1), 1),)
            and linear_coefficients(constant)[0] == 0
            and len(constant) == 1
            and not constant[0].inner
        ):
            return True
    return False


def format_number(value: Fraction) -> str:
    """5, -5/3."""
    return str(value)


def format_term(term: Term) -> str:
    """3x, -x, 3x/4, 2(x+3), (x+3)/4, -5/3."""
    p, q = term.coefficient.numerator, term.coefficient.denominator
    if not term.inner and not term.power:
        return format_number(term.coefficient)
    base = f"({format_side(term.inner)})" if term.inner else "x"
    factor = {1: "", -1: "-"}.get(p, str(p))
    return factor + base + (f"/{q}" if q != 1 else "")


def format_side(terms: Sequence[Term]) -> str:
    """2x+3, -(x-1)/2+4."""
    out = ""
    for item in terms:
        text = format_term(item)
        out += text if not out or text.startswith("-") else f"+{text}"
    return out


def format_equation(equation: Equation) -> str:
    """2x+3=7."""
    return f"{format_side(equation.left)}={format_side(equation.right)}"
