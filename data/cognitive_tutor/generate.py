"""A seeded stand-in for the Cognitive Tutor's log: simulated students solve linear equations step by step.

A student has a chance of each misconception, which falls when the tutor names it, habits in choosing among right
moves, and a readiness to ask for hints. The tutor judges by solving (`moves.is_right`).
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
_MOST_TRIES = 5  # wrong entries at one step; then the student does it right
_PATIENCE = 200


class Student(NamedTuple):
    """Chances of a simulated student.

    Attributes:
      name: as in the log.
      faults: misconception → chance where it applies. usual: of the usual one among right moves.
      hints: of asking for a hint. learning: factor on a fault's chance once the tutor has named it.
    """

    name: str
    faults: dict[str, float]
    usual: float
    hints: float
    learning: float


class Entry(NamedTuple):
    """One line of the log: the equation, what was entered, the tutor's verdict and words."""

    equation: Equation
    move: Move
    outcome: str
    feedback: str


def rows(problems: int, seed: int) -> Iterator[dict[str, str]]:
    """Lines of a log in the columns of DataShop's export, by student and problem.

    Args:
      problems: pairs of a student and a problem. seed: of everything random.

    Raises:
      UsageError: there are not so many different problems for a student.
    """
    rng = np.random.default_rng(seed)
    done = 0
    while done < problems:
        student = a_student(rng, done // PROBLEMS_PER_STUDENT)
        seen: set[str] = set()
        for _ in range(min(PROBLEMS_PER_STUDENT, problems - done)):
            equation = new_problem(rng, seen)
            for entry in solve(rng, student, equation):
                values = (student.name, algebra.written(equation), algebra.written(entry.equation))
                values += (entry.move.action, entry.move.input, entry.outcome, entry.feedback)
                yield dict(zip(COLUMNS, values, strict=True))
            done += 1


def a_student(rng: np.random.Generator, place: int) -> Student:
    """A student with faults of their own: most few, some many."""
    level = rng.beta(1.5, 4.0)
    faults = {name: float(min(0.9, level * rng.gamma(1.0, 1.5))) for name in moves.MISCONCEPTIONS}
    usual = float(rng.uniform(0.5, 1.0))
    return Student(f"Stu_{place:04d}", faults, usual, float(rng.beta(1, 12)), float(rng.uniform(0.3, 0.9)))


def solve(rng: np.random.Generator, student: Student, problem: Equation) -> Iterator[Entry]:
    """What a student enters until the problem is solved; `student.faults` change as they learn."""
    equation, tried, asked = problem, set(), False
    while True:
        if not asked and rng.random() < student.hints * (3 if tried else 1):
            asked = True
            yield Entry(equation, Move("hint", "", equation), HINT, moves.hint(equation))
            continue
        move = chosen(rng, student, equation, tried)
        if moves.is_right(equation, move):
            yield Entry(equation, move, OK, "")
            if move.action == moves.FINAL:
                return
            equation, tried, asked = move.claim, set(), False
            continue
        tried.add(move)
        student.faults[move.misconception] *= student.learning
        yield Entry(equation, move, ERROR if move.misconception == "slip" else BUG, move.feedback)


def chosen(rng: np.random.Generator, student: Student, equation: Equation, tried: set[Move]) -> Move:
    """The next move: a wrong one where a fault strikes, else a right one by habit."""
    # Who has just been told is more careful, but may fall into the next fault.
    care = 0.7 if tried else 1.0
    struck = {name for name, chance in student.faults.items() if rng.random() < care * chance}
    if struck and len(tried) < _MOST_TRIES:
        wrong = [m for m in moves.wrong(equation) if m.misconception in struck and m not in tried]
        if wrong:
            return wrong[int(rng.integers(len(wrong)))]
    right = moves.right(equation)
    return right[0] if len(right) == 1 or rng.random() < student.usual else right[1]


def new_problem(rng: np.random.Generator, seen: set[str]) -> Equation:
    """A problem whose writing is not in `seen`, which it joins.

    Raises:
      UsageError: the families seem used up.
    """
    for _ in range(_PATIENCE):
        equation = a_problem(rng)
        name = algebra.written(equation)
        if name not in seen and algebra.solution(equation) is not None:
            seen.add(name)
            return equation
    raise UsageError("the families of equations do not hold so many different problems; choose a smaller size")


def a_problem(rng: np.random.Generator) -> Equation:
    """An equation of one of the families, with a whole solution or a simple fraction."""
    family = FAMILIES[int(rng.integers(len(FAMILIES)))]
    return family(rng)


def _nonzero(rng: np.random.Generator, low: int, high: int) -> Fraction:
    """A whole number from low to high in size, either sign."""
    return Fraction(int(rng.integers(low, high + 1)) * (1 if rng.random() < 0.7 else -1))


def _right_side(rng: np.random.Generator, left: Side, more: Side = ()) -> Equation:
    """The equation that a drawn solution makes of a left side, with `more` on the right."""
    x = Fraction(int(rng.integers(-12, 13)), int(rng.choice([1, 1, 1, 1, 2, 3])))
    (a, b), (c, d) = algebra.linear(left), algebra.linear(more)
    rest = a * x + b - c * x - d
    return Equation(left, algebra.collected((*more, Term(rest))))


def _one_step(rng: np.random.Generator) -> Equation:
    if rng.random() < 0.5:
        return _right_side(rng, (Term(_nonzero(rng, 2, 12), 1),))
    return _right_side(rng, (Term(Fraction(1), 1), Term(_nonzero(rng, 1, 20))))


def _quotient(rng: np.random.Generator) -> Equation:
    first = Term(Fraction(1, int(rng.integers(2, 10))) * (1 if rng.random() < 0.8 else -1), 1)
    return _right_side(rng, (first, Term(_nonzero(rng, 1, 15))) if rng.random() < 0.7 else (first,))


def _two_steps(rng: np.random.Generator) -> Equation:
    terms = (Term(_nonzero(rng, 2, 12), 1), Term(_nonzero(rng, 1, 20)))
    return _right_side(rng, terms if rng.random() < 0.8 else terms[::-1])


def _both_sides(rng: np.random.Generator) -> Equation:
    a, c = _nonzero(rng, 2, 12), _nonzero(rng, 1, 12)
    left = (Term(a, 1), Term(_nonzero(rng, 1, 20)))
    return _right_side(rng, left, (Term(c if c != a else c + 1, 1),))


def _brackets(rng: np.random.Generator) -> Equation:
    inner = (Term(_nonzero(rng, 1, 4), 1), Term(_nonzero(rng, 1, 9)))
    group = Term(_nonzero(rng, 2, 6), 0, inner)
    return _right_side(rng, (group,) if rng.random() < 0.6 else (group, Term(_nonzero(rng, 1, 12))))


def _over(rng: np.random.Generator) -> Equation:
    inner = (Term(_nonzero(rng, 1, 6), 1), Term(_nonzero(rng, 1, 12)))
    return _right_side(rng, (Term(Fraction(1, int(rng.integers(2, 8))), 0, inner),))


def _like_terms(rng: np.random.Generator) -> Equation:
    first, second = Term(_nonzero(rng, 2, 9), 1), Term(_nonzero(rng, 2, 9), 1)
    if first.coefficient + second.coefficient == 0:
        second = second._replace(coefficient=second.coefficient + 1)
    between = (Term(_nonzero(rng, 1, 12)),) if rng.random() < 0.5 else ()
    return _right_side(rng, (first, *between, second))


FAMILIES = (_one_step, _quotient, _two_steps, _two_steps, _both_sides, _brackets, _over, _like_terms)
