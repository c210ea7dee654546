"""Linear equations in x as one writes them, exact: printed, solved, and changed as a student changes them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple


class Term(NamedTuple):
    """coefficient · x^power, or coefficient · (inner) where there is one: 3x, -5, x/4, 2(x + 3), (2x + 1)/5."""

    coefficient: Fraction
    power: int = 0
    inner: tuple[Term, ...] = ()


Side = tuple[Term, ...]


class Equation(NamedTuple):
    """left = right."""

    left: Side
    right: Side


def linear(side: Sequence[Term]) -> tuple[Fraction, Fraction]:
    """(a, b) with side = a·x + b."""
    a = b = Fraction(0)
    for term in side:
        if term.inner:
            inner_a, inner_b = linear(term.inner)
            a, b = a + term.coefficient * inner_a, b + term.coefficient * inner_b
        elif term.power:
            a += term.coefficient
        else:
            b += term.coefficient
    return a, b


def solution(equation: Equation) -> Fraction | None:
    """x, or None where none or all numbers solve it."""
    (a, b), (c, d) = linear(equation.left), linear(equation.right)
    return None if a == c else (d - b) / (a - c)


def collected(side: Sequence[Term]) -> Side:
    """Like terms made one, x first, brackets left as they are; never empty."""
    plain = [term for term in side if not term.inner]
    a = sum((t.coefficient for t in plain if t.power), Fraction(0))
    b = sum((t.coefficient for t in plain if not t.power), Fraction(0))
    out = [*(t for t in side if t.inner), *([Term(a, 1)] if a else []), *([Term(b)] if b else [])]
    return tuple(out) or (Term(Fraction(0)),)


def expanded(side: Sequence[Term]) -> Side:
    """Brackets multiplied out, like terms left apart."""
    out: list[Term] = []
    for term in side:
        if term.inner:
            out += [Term(term.coefficient * t.coefficient, t.power) for t in expanded(term.inner)]
        else:
            out.append(term)
    return tuple(out)


def added(equation: Equation, term: Term) -> Equation:
    """A term added to both sides, which are then collected."""
    return Equation(collected((*equation.left, term)), collected((*equation.right, term)))


def scaled(equation: Equation, factor: Fraction) -> Equation:
    """Both sides multiplied; a bracket that is left without a factor is opened."""
    return Equation(_times(equation.left, factor), _times(equation.right, factor))


def _times(side: Side, factor: Fraction) -> Side:
    out: list[Term] = []
    for term in side:
        coefficient = term.coefficient * factor
        out += term.inner if term.inner and coefficient == 1 else [term._replace(coefficient=coefficient)]
    return collected(out)


def is_solved(equation: Equation) -> bool:
    """Whether it says x = number, or number = x."""
    for one, other in (equation, equation[::-1]):
        if one == (Term(Fraction(1), 1),) and linear(other)[0] == 0 and len(other) == 1 and not other[0].inner:
            return True
    return False


def number(value: Fraction) -> str:
    """5, -5/3."""
    return str(value)


def term(term: Term) -> str:
    """3x, -x, 3x/4, 2(x+3), (x+3)/4, -5/3."""
    p, q = term.coefficient.numerator, term.coefficient.denominator
    if not term.inner and not term.power:
        return number(term.coefficient)
    base = f"({side(term.inner)})" if term.inner else "x"
    factor = {1: "", -1: "-"}.get(p, str(p))
    return factor + base + (f"/{q}" if q != 1 else "")


def side(terms: Sequence[Term]) -> str:
    """2x+3, -(x-1)/2+4."""
    out = ""
    for one in terms:
        written = term(one)
        out += written if not out or written.startswith("-") else f"+{written}"
    return out


def written(equation: Equation) -> str:
    """2x+3=7."""
    return f"{side(equation.left)}={side(equation.right)}"
