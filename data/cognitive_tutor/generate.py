"""A seeded stand-in for the Cognitive Tutor's log: simulated students solve linear equations step by step.

A student has a chance of each misconception, which falls when the tutor names it, a habit of choosing among right
moves, and a chance of asking for hints. The tutor judges by solving (`moves.is_right`).
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError

from . import algebra, moves
from .algebra import Equation, Side, Term
from .moves import Move

COLUMNS = ("Anon Student Id", "Problem Name", "Step Name", "Action", "Input", "Outcome", "Feedback Text")
# DataShop's names: BUG is an error that the tutor can explain.
OK, ERROR, BUG, HINT = "OK", "ERROR", "BUG", "INITIAL_HINT"
PROBLEMS_PER_STUDENT = 20
_MOST_TRIES = 5  # wrong entries at one step; the next entry is right
_PATIENCE = 200


class Student(NamedTuple):
    """Chances of a simulated student.

    Attributes:
      name: as in the log.
      faults: misconception → its chance where it applies. usual: chance of the usual move among right moves.
      hints: chance of asking for a hint. learning: factor on a fault's chance after the tutor has named it.
    """

    name: str
    faults: dict[str, float]
    usual: float
    hints: float
    learning: float


class LogEntry(NamedTuple):
    """One line of the log: the equation, the student's entry, the tutor's verdict and feedback."""

    equation: Equation
    move: Move
    outcome: str
    feedback: str


def generate_rows(problems: int, seed: int) -> Iterator[dict[str, str]]:
    """Yields lines of a log in the columns of DataShop's export, by student and problem.

    Args:
      problems: pairs of a student and a problem. seed: of everything random.

    Raises:
      UsageError: there are too few different problems for a student.
    """
    rng = np.random.default_rng(seed)
    n_done = 0
    while n_done < problems:
        student = draw_student(rng, n_done // PROBLEMS_PER_STUDENT)
        seen: set[str] = set()
        for _ in range(min(PROBLEMS_PER_STUDENT, problems - n_done)):
            equation = draw_new_problem(rng, seen)
            for entry in solve(rng, student, equation):
                values = (student.name, algebra.format_equation(equation), algebra.format_equation(entry.equation))
                values += (entry.move.action, entry.move.input, entry.outcome, entry.feedback)
                yield dict(zip(COLUMNS, values, strict=True))
            n_done += 1


def draw_student(rng: np.random.Generator, number: int) -> Student:
    """Draws a student with random faults: most have few, some have many."""
    level = rng.beta(1.5, 4.0)
    faults = {name: float(min(0.9, level * rng.gamma(1.0, 1.5))) for name in moves.MISCONCEPTIONS}
    usual = float(rng.uniform(0.5, 1.0))
    return Student(f"Stu_{number:04d}", faults, usual, float(rng.beta(1, 12)), float(rng.uniform(0.3, 0.9)))


def solve(rng: np.random.Generator, student: Student, problem: Equation) -> Iterator[LogEntry]:
    """Yields a student's entries until the problem is solved; `student.faults` change as the student learns."""
    equation, tried, has_asked = problem, set(), False
    while True:
        if not has_asked and rng.random() < student.hints * (3 if tried else 1):
            has_asked = True
            yield LogEntry(equation, Move("hint", "", equation), HINT, moves.hint(equation))
            continue
        move = choose_move(rng, student, equation, tried)
        if moves.is_right(equation, move):
            yield LogEntry(equation, move, OK, "")
            if move.action == moves.FINAL:
                return
            equation, tried, has_asked = move.claim, set(), False
            continue
        tried.add(move)
        student.faults[move.misconception] *= student.learning
        yield LogEntry(equation, move, ERROR if move.misconception == "slip" else BUG, move.feedback)


def choose_move(rng: np.random.Generator, student: Student, equation: Equation, tried: set[Move]) -> Move:
    """The next move: a wrong one where a fault strikes, else a right one by habit."""
    # After a correction a student is more careful, but may still make another fault.
    care = 0.7 if tried else 1.0
    struck = {name for name, chance in student.faults.items() if rng.random() < care * chance}
    if struck and len(tried) < _MOST_TRIES:
        wrong = [m for m in moves.find_wrong_moves(equation) if m.misconception in struck and m not in tried]
        if wrong:
            return wrong[int(rng.integers(len(wrong)))]
    right = moves.find_right_moves(equation)
    return right[0] if len(right) == 1 or rng.random() < student.usual else right[1]


def draw_new_problem(rng: np.random.Generator, used_names: set[str]) -> Equation:
    """Draws a problem whose written form is not in `used_names`, and adds it there.

    Raises:
      UsageError: the families seem used up.
    """
    for _ in range(_PATIENCE):
        equation = draw_problem(rng)
        name = algebra.format_equation(equation)
        if name not in used_names and algebra.solution(equation) is not None:
            used_names.add(name)
            return equation
    raise UsageError("the families of equations do not hold so many different problems; choose a smaller size")


def draw_problem(rng: np.random.Generator) -> Equation:
    """Draws an equation of one of the families, with a whole number or a simple fraction as its solution."""
    family = FAMILIES[int(rng.integers(len(FAMILIES)))]
    return family(rng)


def _draw_nonzero(rng: np.random.Generator, low: int, high: int) -> Fraction:
    """Draws a whole number whose absolute value is from low to high, of either sign."""
    return Fraction(int(rng.integers(low, high + 1)) * (1 if rng.random() < 0.7 else -1))


def _add_right_side(rng: np.random.Generator, left: Side, right: Side = ()) -> Equation:
    """The equation of a left side and `right` plus a constant, such that it has a solution that is drawn here."""
    x = Fraction(int(rng.integers(-12, 13)), int(rng.choice([1, 1, 1, 1, 2, 3])))
    (a, b), (c, d) = algebra.linear_coefficients(left), algebra.linear_coefficients(right)
    rest = a * x + b - c * x - d
    return Equation(left, algebra.collect_terms((*right, Term(rest))))


def _draw_one_step(rng: np.random.Generator) -> Equation:
    if rng.random() < 0.5:
        return _add_right_side(rng, (Term(_draw_nonzero(rng, 2, 12), 1),))
    return _add_right_side(rng, (Term(Fraction(1), 1), Term(_draw_nonzero(rng, 1, 20))))


def _draw_quotient(rng: np.random.Generator) -> Equation:
    first = Term(Fraction(1, int(rng.integers(2, 10))) * (1 if rng.random() < 0.8 else -1), 1)
    return _add_right_side(rng, (first, Term(_draw_nonzero(rng, 1, 15))) if rng.random() < 0.7 else (first,))


def _draw_two_steps(rng: np.random.Generator) -> Equation:
    terms = (Term(_draw_nonzero(rng, 2, 12), 1), Term(_draw_nonzero(rng, 1, 20)))
    return _add_right_side(rng, terms if rng.random() < 0.8 else terms[::-1])


def _draw_both_sides(rng: np.random.Generator) -> Equation:
    a, c = _draw_nonzero(rng, 2, 12), _draw_nonzero(rng, 1, 12)
    left = (Term(a, 1), Term(_draw_nonzero(rng, 1, 20)))
    return _add_right_side(rng, left, (Term(c if c != a else c + 1, 1),))


def _draw_brackets(rng: np.random.Generator) -> Equation:
    inner = (Term(_draw_nonzero(rng, 1, 4), 1), Term(_draw_nonzero(rng, 1, 9)))
    group = Term(_draw_nonzero(rng, 2, 6), 0, inner)
    return _add_right_side(rng, (group,) if rng.random() < 0.6 else (group, Term(_draw_nonzero(rng, 1, 12))))


def _draw_fraction(rng: np.random.Generator) -> Equation:
    inner = (Term(_draw_nonzero(rng, 1, 6), 1), Term(_draw_nonzero(rng, 1, 12)))
    return _add_right_side(rng, (Term(Fraction(1, int(rng.integers(2, 8))), 0, inner),))


def _draw_like_terms(rng: np.random.Generator) -> Equation:
    first, second = Term(_draw_nonzero(rng, 2, 9), 1), Term(_draw_nonzero(rng, 2, 9), 1)
    if first.coefficient + second.coefficient == 0:
        second = second._replace(coefficient=second.coefficient + 1)
    middle = (Term(_draw_nonzero(rng, 1, 12)),) if rng.random() < 0.5 else ()
    return _add_right_side(rng, (first, *middle, second))


FAMILIES = (
    _draw_one_step,
    _draw_quotient,
    _draw_two_steps,
    _draw_two_steps,
    _draw_both_sides,
    _draw_brackets,
    _draw_fraction,
    _draw_like_terms,
)
