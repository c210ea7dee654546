"""The moves of a student on a linear equation: the right next moves, and the wrong ones that misconceptions cause.

A move is an entry (action, input) and the equation that the student believes follows. The move is right if that
equation has the solution of the equation before: the verdict comes from solving both, not from the kind of move.
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
    """An action and its input, the equation that the student believes follows, and why it is wrong (empty: right)."""

    action: str
    input: str
    claim: Equation
    misconception: str = ""
    feedback: str = ""


def is_right(equation: Equation, move: Move) -> bool:
    """Whether the equation that the student believes follows has the same solution."""
    return algebra.solution(move.claim) == algebra.solution(equation)


def find_right_moves(equation: Equation) -> list[Move]:
    """Moves towards the solution, the usual one first."""
    return list(_generate_right_moves(equation))


def find_wrong_moves(equation: Equation) -> list[Move]:
    """Wrong moves that misconceptions cause on this equation; moves that are right by chance are left out."""
    return [move for move in _generate_wrong_moves(equation) if not is_right(equation, move)]


def hint(equation: Equation) -> str:
    """The tutor's hint."""
    move = find_right_moves(equation)[0]
    hints = {
        "add": f"To undo subtracting, add {move.input} to both sides.",
        "subtract": f"To undo adding, subtract {move.input} from both sides.",
        "multiply": f"To undo dividing, multiply both sides by {move.input}.",
        "divide": f"To undo multiplying, divide both sides by {move.input}.",
        "distribute": "Multiply every term in the brackets by the factor before them.",
        "clt": "Combine the like terms on one side: add up their coefficients.",
        FINAL: "The variable stands alone: enter what it is equal to.",
    }
    return hints[move.action]


def move_term(equation: Equation, term: Term) -> Move:
    """The move that takes a term to the other side: adds it if it is negative, else subtracts it."""
    size = algebra.format_term(term._replace(coefficient=abs(term.coefficient)))
    action = "add" if term.coefficient < 0 else "subtract"
    return Move(action, size, algebra.add_to_sides(equation, term._replace(coefficient=-term.coefficient)))


def _generate_right_moves(equation: Equation) -> Iterator[Move]:
    sides = list(equation)
    grouped = [i for i, side in enumerate(sides) if any(t.inner for t in side)]
    if grouped:
        yield from _open_brackets(equation, grouped[0])
        return
    unlike = [i for i, side in enumerate(sides) if len(algebra.collect_terms(side)) < len(side)]
    if unlike:
        for i in unlike:
            new_side = algebra.collect_terms(sides[i])
            yield Move("clt", algebra.format_side(new_side), _replace_side(equation, i, new_side))
        return
    if algebra.is_solved(equation):
        yield Move(FINAL, f"x={algebra.format_number(_require_solution(equation))}", equation)
        return
    (a, b), (c, d) = algebra.linear_coefficients(equation.left), algebra.linear_coefficients(equation.right)
    if a and c:
        yield move_term(equation, Term(c, 1))
        yield move_term(equation, Term(a, 1))
        return
    factor, constant = (a, b) if a else (c, d)
    if constant:
        yield move_term(equation, Term(constant))
        if factor.denominator == 1 and factor not in (1, -1):
            yield _divide_sides(equation, factor)
        return
    if factor.denominator != 1:
        q = factor.denominator
        yield Move("multiply", str(q), algebra.scale_sides(equation, Fraction(q)))
    else:
        yield _divide_sides(equation, factor)
        if factor == -1:
            yield Move("multiply", "-1", algebra.scale_sides(equation, Fraction(-1)))


def _open_brackets(equation: Equation, i: int) -> Iterator[Move]:
    """Yields moves that remove the brackets on side i."""
    side = equation[i]
    group = next(t for t in side if t.inner)
    p, q = group.coefficient.numerator, group.coefficient.denominator
    is_only_term = len(side) == 1
    if q != 1:
        yield Move("multiply", str(q), algebra.scale_sides(equation, Fraction(q)))
        return
    new_side = algebra.expand(side)
    yield Move("distribute", algebra.format_side(new_side), _replace_side(equation, i, new_side))
    if is_only_term and p not in (1, -1) and not any(t.inner for t in equation[1 - i]):
        yield _divide_sides(equation, Fraction(p))


def _generate_wrong_moves(equation: Equation) -> Iterator[Move]:
    for i, side in enumerate(equation):
        yield from _wrong_brackets(equation, i, side)
        yield from _wrong_terms(equation, i, side)
    if any(t.inner for side in equation for t in side):
        return
    (a, b), (c, d) = algebra.linear_coefficients(equation.left), algebra.linear_coefficients(equation.right)
    if algebra.is_solved(equation):
        yield from _wrong_answers(equation)
    elif any(len(algebra.collect_terms(side)) < len(side) for side in equation):
        return
    elif (a and c) or b * bool(a) or d * bool(c):
        yield from _wrong_transfers(equation, 0 if a else 1)
    else:
        yield from _wrong_factors(equation, 0 if a else 1)


def _wrong_brackets(equation: Equation, i: int, side: Side) -> Iterator[Move]:
    for index, group in enumerate(side):
        p, q = group.coefficient.numerator, group.coefficient.denominator
        if not group.inner or q != 1 or p == 1:
            continue
        first, *rest = group.inner
        inside_terms = (Term(p * first.coefficient, first.power), *rest)
        new = (*side[:index], *inside_terms, *side[index + 1 :])
        inside = algebra.format_side(group.inner)
        yield Move(
            "distribute", algebra.format_side(new), _replace_side(equation, i, new), "first_term",
            f"You multiplied only the first term in ({inside}) by {p}. "
            f"The factor {p} also belongs to {algebra.format_term(rest[0])}.",
        )  # fmt: skip
        if p < 0 or rest[0].coefficient < 0:
            last = Term(-p * rest[0].coefficient, rest[0].power)
            new = (*side[:index], Term(p * first.coefficient, first.power), last, *rest[1:], *side[index + 1 :])
            yield Move(
                "distribute", algebra.format_side(new), _replace_side(equation, i, new), "bracket_sign",
                f"Check the sign of {p} times {algebra.format_term(rest[0])}.",
            )  # fmt: skip


def _wrong_terms(equation: Equation, i: int, side: Side) -> Iterator[Move]:
    plain = [t for t in side if not t.inner]
    if len(plain) < len(side) or len(side) < 2:
        return
    a, b = algebra.linear_coefficients(side)
    like = [t for t in side if t.power]
    if len(like) > 1 and any(t.coefficient < 0 for t in like[1:]):
        wrong_a = like[0].coefficient + sum(abs(t.coefficient) for t in like[1:])
        new = algebra.collect_terms((Term(wrong_a, 1), Term(b)))
        yield Move(
            "clt", algebra.format_side(new), _replace_side(equation, i, new), "like_sign",
            f"Look at the signs when you combine {algebra.format_side(like)}.",
        )  # fmt: skip
    if a and b and a + b:
        new = (Term(a + b, 1),)
        yield Move(
            "clt", algebra.format_side(new), _replace_side(equation, i, new), "unlike",
            f"{algebra.format_term(Term(a, 1))} and {algebra.format_number(b)} are not like terms, "
            "so they cannot be combined.",
        )  # fmt: skip


def _wrong_transfers(equation: Equation, i: int) -> Iterator[Move]:
    """Yields wrong ways of taking a term to the other side."""
    (a, b), (c, _) = algebra.linear_coefficients(equation[i]), algebra.linear_coefficients(equation[1 - i])
    term = Term(c, 1) if c else Term(b)
    term_side = 1 - i if c else i
    size = algebra.format_term(term._replace(coefficient=abs(term.coefficient)))
    operation, undo = ("adding", "subtract") if term.coefficient > 0 else ("subtracting", "add")
    opposite = "add" if undo == "subtract" else "subtract"
    # The student removes the term here and puts it on the other side without changing its sign.
    claim = _replace_side(
        equation,
        term_side,
        algebra.collect_terms((*equation[term_side], term._replace(coefficient=-term.coefficient))),
    )
    claim = _replace_side(claim, 1 - term_side, algebra.collect_terms((*equation[1 - term_side], term)))
    yield Move(
        opposite, size, claim, "sign",
        f"{size} is there by {operation}. To undo {operation}, {undo} {size}.",
    )  # fmt: skip
    for shift in (1, -1):
        wrong_term = term._replace(coefficient=term.coefficient + shift)
        if not wrong_term.coefficient * term.coefficient > 0:
            continue
        claim = _replace_side(
            equation,
            term_side,
            algebra.collect_terms((*equation[term_side], term._replace(coefficient=-term.coefficient))),
        )
        claim = _replace_side(
            claim,
            1 - term_side,
            algebra.collect_terms(
                (*equation[1 - term_side], wrong_term._replace(coefficient=-wrong_term.coefficient))
            ),
        )
        wrong_size = algebra.format_term(wrong_term._replace(coefficient=abs(wrong_term.coefficient)))
        yield Move(undo, wrong_size, claim, "slip", "That is not quite right. Check your numbers and try again.")
    if a.denominator == 1 and abs(a) > 1 and not c:
        # The student divides one side by the factor and forgets the constant.
        left = (Term(Fraction(1), 1), Term(b))
        rest = algebra.collect_terms((Term(algebra.linear_coefficients(equation[1 - i])[1] / a),))
        claim = _replace_side(_replace_side(equation, i, left), 1 - i, rest)
        yield Move(
            "divide", algebra.format_number(a), claim, "first_term",
            f"Dividing by {algebra.format_number(a)} divides every term, {algebra.format_number(b)} too.",
        )  # fmt: skip


def _wrong_factors(equation: Equation, i: int) -> Iterator[Move]:
    """Yields wrong ways of removing the factor of x in a·x = c."""
    a, c = algebra.linear_coefficients(equation[i])[0], algebra.linear_coefficients(equation[1 - i])[1]
    x = (Term(Fraction(1), 1),)

    def claim_value(value: Fraction) -> Equation:
        return _replace_side(_replace_side(equation, i, x), 1 - i, (Term(value),))

    p, q = a.numerator, a.denominator
    if q != 1:
        feedback = f"x is divided by {q}. To undo dividing by {q}, multiply by {q}."
        yield Move("divide", str(q), claim_value(c / q), "inverse", feedback)
        yield Move("subtract", str(q), claim_value(c - q), "inverse", feedback)
    else:
        feedback = f"x is multiplied by {p}. To undo multiplying by {p}, divide by {p}."
        yield Move("multiply", str(p), claim_value(c * p), "inverse", feedback)
        if p > 0:
            yield Move("subtract", str(p), claim_value(c - p), "inverse", feedback)
        if c:
            turned_feedback = (
                f"You divided by {algebra.format_number(c)}. Divide by the number that x is multiplied by."
            )
            yield Move("divide", algebra.format_number(c), claim_value(a / c), "upside_down", turned_feedback)
        if p < 0:
            sign_feedback = f"x is multiplied by {p}, which is negative. Keep its sign when you divide."
            yield Move("divide", str(-p), claim_value(c / -p), "minus", sign_feedback)
        for wrong_factor in (p + 1, p - 1):
            if wrong_factor * p > 0:
                slip_feedback = "That is not quite right. Check your numbers and try again."
                yield Move("divide", str(wrong_factor), claim_value(c / wrong_factor), "slip", slip_feedback)


def _wrong_answers(equation: Equation) -> Iterator[Move]:
    value = _require_solution(equation)
    slip_feedback = "That is not quite right. Check your numbers and try again."
    for wrong_value, misconception in ((-value, "minus"), (value + 1, "slip"), (value - 1, "slip")):
        claim = Equation((Term(Fraction(1), 1),), (Term(wrong_value),))
        feedback = (
            f"Look at the sign: x is equal to {algebra.format_number(value)}."
            if misconception == "minus"
            else slip_feedback
        )
        yield Move(FINAL, f"x={algebra.format_number(wrong_value)}", claim, misconception, feedback)
    if value and value.denominator != 1:
        claim = Equation((Term(Fraction(1), 1),), (Term(1 / value),))
        yield Move(
            FINAL, f"x={algebra.format_number(1 / value)}", claim, "upside_down", "The fraction is upside down."
        )


def _divide_sides(equation: Equation, factor: Fraction) -> Move:
    return Move("divide", algebra.format_number(factor), algebra.scale_sides(equation, 1 / factor))


def _replace_side(equation: Equation, i: int, side: Side) -> Equation:
    return Equation(side, equation.right) if i == 0 else Equation(equation.left, side)


def _require_solution(equation: Equation) -> Fraction:
    value = algebra.solution(equation)
    assert value is not None, "a solved equation has a solution"
    return value
