"""What a student can do with a linear equation: the right next moves, and the wrong ones that a misconception makes.

A move is what is entered (action, input) and the equation that the student takes to follow from it. It is right when
that equation has the solution of the one before: the verdict is found by solving both, not by how the move was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from . import algebra
from .algebra import Equation, Side, Term

FINAL = "FinalAnswer"
ACTIONS = ("add", "subtract", "multiply", "divide", "distribute", "clt", FINAL)
MISCONCEPTIONS = (
    "sign", "inverse", "upside_down", "minus", "first_term", "bracket_sign", "unlike", "like_sign", "slip",
)  # fmt: skip


class Move(NamedTuple):
    """An action and its input, what the student takes to follow, and why it is wrong (empty: it is right)."""

    action: str
    input: str
    claim: Equation
    misconception: str = ""
    feedback: str = ""


def is_right(equation: Equation, move: Move) -> bool:
    """Whether what the student takes to follow has the same solution."""
    return algebra.solution(move.claim) == algebra.solution(equation)


def right(equation: Equation) -> list[Move]:
    """Moves that bring the solution nearer, the usual one first."""
    return list(_right(equation))


def wrong(equation: Equation) -> list[Move]:
    """Moves that misconceptions make of this equation; those that come out right by chance are left out."""
    return [move for move in _wrong(equation) if not is_right(equation, move)]


def hint(equation: Equation) -> str:
    """What the tutor says when it is asked."""
    move = right(equation)[0]
    told = {
        "add": f"To undo subtracting, add {move.input} to both sides.",
        "subtract": f"To undo adding, subtract {move.input} from both sides.",
        "multiply": f"To undo dividing, multiply both sides by {move.input}.",
        "divide": f"To undo multiplying, divide both sides by {move.input}.",
        "distribute": "Multiply every term in the brackets by the factor before them.",
        "clt": "Combine the like terms on one side: add up their coefficients.",
        FINAL: "The variable stands alone: enter what it is equal to.",
    }
    return told[move.action]


def moved(equation: Equation, term: Term) -> Move:
    """A term taken to the other side: added where it is negative, else subtracted."""
    size = algebra.term(term._replace(coefficient=abs(term.coefficient)))
    action = "add" if term.coefficient < 0 else "subtract"
    return Move(action, size, algebra.added(equation, term._replace(coefficient=-term.coefficient)))


def _right(equation: Equation) -> Iterator[Move]:
    sides = list(equation)
    grouped = [i for i, side in enumerate(sides) if any(t.inner for t in side)]
    if grouped:
        yield from _open(equation, grouped[0])
        return
    unlike = [i for i, side in enumerate(sides) if len(algebra.collected(side)) < len(side)]
    if unlike:
        for i in unlike:
            new = algebra.collected(sides[i])
            yield Move("clt", algebra.side(new), _with(equation, i, new))
        return
    if algebra.is_solved(equation):
        yield Move(FINAL, f"x={algebra.number(_solved(equation))}", equation)
        return
    (a, b), (c, d) = algebra.linear(equation.left), algebra.linear(equation.right)
    if a and c:
        yield moved(equation, Term(c, 1))
        yield moved(equation, Term(a, 1))
        return
    factor, constant = (a, b) if a else (c, d)
    if constant:
        yield moved(equation, Term(constant))
        if factor.denominator == 1 and factor not in (1, -1):
            yield _divided(equation, factor)
        return
    if factor.denominator != 1:
        q = factor.denominator
        yield Move("multiply", str(q), algebra.scaled(equation, Fraction(q)))
    else:
        yield _divided(equation, factor)
        if factor == -1:
            yield Move("multiply", "-1", algebra.scaled(equation, Fraction(-1)))


def _open(equation: Equation, i: int) -> Iterator[Move]:
    """Moves that get rid of the brackets on side i."""
    side = equation[i]
    group = next(t for t in side if t.inner)
    p, q = group.coefficient.numerator, group.coefficient.denominator
    alone = len(side) == 1
    if q != 1:
        yield Move("multiply", str(q), algebra.scaled(equation, Fraction(q)))
        return
    new = algebra.expanded(side)
    yield Move("distribute", algebra.side(new), _with(equation, i, new))
    if alone and p not in (1, -1) and not any(t.inner for t in equation[1 - i]):
        yield _divided(equation, Fraction(p))


def _wrong(equation: Equation) -> Iterator[Move]:
    for i, side in enumerate(equation):
        yield from _wrong_brackets(equation, i, side)
        yield from _wrong_terms(equation, i, side)
    if any(t.inner for side in equation for t in side):
        return
    (a, b), (c, d) = algebra.linear(equation.left), algebra.linear(equation.right)
    if algebra.is_solved(equation):
        yield from _wrong_answers(equation)
    elif any(len(algebra.collected(side)) < len(side) for side in equation):
        return
    elif (a and c) or b * bool(a) or d * bool(c):
        yield from _wrong_moves(equation, 0 if a else 1)
    else:
        yield from _wrong_factors(equation, 0 if a else 1)


def _wrong_brackets(equation: Equation, i: int, side: Side) -> Iterator[Move]:
    for at, group in enumerate(side):
        p, q = group.coefficient.numerator, group.coefficient.denominator
        if not group.inner or q != 1 or p == 1:
            continue
        first, *rest = group.inner
        half = (Term(p * first.coefficient, first.power), *rest)
        new = (*side[:at], *half, *side[at + 1 :])
        inside = algebra.side(group.inner)
        yield Move(
            "distribute", algebra.side(new), _with(equation, i, new), "first_term",
            f"You multiplied only the first term in ({inside}) by {p}. "
            f"The factor {p} also belongs to {algebra.term(rest[0])}.",
        )  # fmt: skip
        if p < 0 or rest[0].coefficient < 0:
            last = Term(-p * rest[0].coefficient, rest[0].power)
            new = (*side[:at], Term(p * first.coefficient, first.power), last, *rest[1:], *side[at + 1 :])
            yield Move(
                "distribute", algebra.side(new), _with(equation, i, new), "bracket_sign",
                f"Check the sign of {p} times {algebra.term(rest[0])}.",
            )  # fmt: skip


def _wrong_terms(equation: Equation, i: int, side: Side) -> Iterator[Move]:
    plain = [t for t in side if not t.inner]
    if len(plain) < len(side) or len(side) < 2:
        return
    a, b = algebra.linear(side)
    like = [t for t in side if t.power]
    if len(like) > 1 and any(t.coefficient < 0 for t in like[1:]):
        wrong_a = like[0].coefficient + sum(abs(t.coefficient) for t in like[1:])
        new = algebra.collected((Term(wrong_a, 1), Term(b)))
        yield Move(
            "clt", algebra.side(new), _with(equation, i, new), "like_sign",
            f"Look at the signs when you combine {algebra.side(like)}.",
        )  # fmt: skip
    if a and b and a + b:
        new = (Term(a + b, 1),)
        yield Move(
            "clt", algebra.side(new), _with(equation, i, new), "unlike",
            f"{algebra.term(Term(a, 1))} and {algebra.number(b)} are not like terms, so they cannot be combined.",
        )  # fmt: skip


def _wrong_moves(equation: Equation, i: int) -> Iterator[Move]:
    """Wrong ways of taking a term to the other side."""
    (a, b), (c, _) = algebra.linear(equation[i]), algebra.linear(equation[1 - i])
    term = Term(c, 1) if c else Term(b)
    at = 1 - i if c else i
    size = algebra.term(term._replace(coefficient=abs(term.coefficient)))
    did, undo = ("adding", "subtract") if term.coefficient > 0 else ("subtracting", "add")
    opposite = "add" if undo == "subtract" else "subtract"
    # The student sees the term go away here and puts it on the other side with the sign it has.
    claim = _with(equation, at, algebra.collected((*equation[at], term._replace(coefficient=-term.coefficient))))
    claim = _with(claim, 1 - at, algebra.collected((*equation[1 - at], term)))
    yield Move(
        opposite, size, claim, "sign",
        f"{size} is there by {did}. To undo {did}, {undo} {size}.",
    )  # fmt: skip
    for shift in (1, -1):
        other = term._replace(coefficient=term.coefficient + shift)
        if not other.coefficient * term.coefficient > 0:
            continue
        claim = _with(equation, at, algebra.collected((*equation[at], term._replace(coefficient=-term.coefficient))))
        claim = _with(
            claim, 1 - at, algebra.collected((*equation[1 - at], other._replace(coefficient=-other.coefficient)))
        )
        size_other = algebra.term(other._replace(coefficient=abs(other.coefficient)))
        yield Move(undo, size_other, claim, "slip", "That is not quite right. Check your numbers and try again.")
    if a.denominator == 1 and abs(a) > 1 and not c:
        # Divides one side by the factor and forgets the constant beside it.
        left = (Term(Fraction(1), 1), Term(b))
        rest = algebra.collected((Term(algebra.linear(equation[1 - i])[1] / a),))
        claim = _with(_with(equation, i, left), 1 - i, rest)
        yield Move(
            "divide", algebra.number(a), claim, "first_term",
            f"Dividing by {algebra.number(a)} divides every term, {algebra.number(b)} too.",
        )  # fmt: skip


def _wrong_factors(equation: Equation, i: int) -> Iterator[Move]:
    """Wrong ways of getting rid of the factor before x in a·x = c."""
    a, c = algebra.linear(equation[i])[0], algebra.linear(equation[1 - i])[1]
    x = (Term(Fraction(1), 1),)

    def claims(value: Fraction) -> Equation:
        return _with(_with(equation, i, x), 1 - i, (Term(value),))

    p, q = a.numerator, a.denominator
    if q != 1:
        told = f"x is divided by {q}. To undo dividing by {q}, multiply by {q}."
        yield Move("divide", str(q), claims(c / q), "inverse", told)
        yield Move("subtract", str(q), claims(c - q), "inverse", told)
    else:
        told = f"x is multiplied by {p}. To undo multiplying by {p}, divide by {p}."
        yield Move("multiply", str(p), claims(c * p), "inverse", told)
        if p > 0:
            yield Move("subtract", str(p), claims(c - p), "inverse", told)
        if c:
            turned = f"You divided by {algebra.number(c)}. Divide by the number that x is multiplied by."
            yield Move("divide", algebra.number(c), claims(a / c), "upside_down", turned)
        if p < 0:
            dropped = f"x is multiplied by {p}, which is negative. Keep its sign when you divide."
            yield Move("divide", str(-p), claims(c / -p), "minus", dropped)
        for other in (p + 1, p - 1):
            if other * p > 0:
                slipped = "That is not quite right. Check your numbers and try again."
                yield Move("divide", str(other), claims(c / other), "slip", slipped)


def _wrong_answers(equation: Equation) -> Iterator[Move]:
    value = _solved(equation)
    told = "That is not quite right. Check your numbers and try again."
    for other, why in ((-value, "minus"), (value + 1, "slip"), (value - 1, "slip")):
        claim = Equation((Term(Fraction(1), 1),), (Term(other),))
        says = f"Look at the sign: x is equal to {algebra.number(value)}." if why == "minus" else told
        yield Move(FINAL, f"x={algebra.number(other)}", claim, why, says)
    if value and value.denominator != 1:
        claim = Equation((Term(Fraction(1), 1),), (Term(1 / value),))
        yield Move(FINAL, f"x={algebra.number(1 / value)}", claim, "upside_down", "The fraction is upside down.")


def _divided(equation: Equation, factor: Fraction) -> Move:
    return Move("divide", algebra.number(factor), algebra.scaled(equation, 1 / factor))


def _with(equation: Equation, i: int, side: Side) -> Equation:
    return Equation(side, equation.right) if i == 0 else Equation(equation.left, side)


def _solved(equation: Equation) -> Fraction:
    value = algebra.solution(equation)
    assert value is not None, "a solved equation has a solution"
    return value
