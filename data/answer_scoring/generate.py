"""A seeded stand-in for graded answers: simulated students write down how they solve an equation, without a tutor.

A wrong move is not corrected: the student continues from the equation that they believe follows. The grade counts
the right steps and the right answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from ..cognitive_tutor import algebra, moves
from ..cognitive_tutor import generate as students
from ..cognitive_tutor.algebra import Equation
from ..cognitive_tutor.moves import Move

COLUMNS = ("problem_id", "raw_full_problem", "problem_log_id", "raw_answer_text", "grade")
ANSWERS_PER_PROBLEM = 60
_FIRST_LOG = 100_000
_LONGEST = 12
_CARE = 0.25  # factor on the chances of a fault: students try more with a tutor than on paper

TASKS = (
    "<p>Solve {} for x. Explain your steps.</p>",
    "<p>What value of <i>x</i> makes {} true?</p><p>Show how you know.</p>",
    "<p>Find the solution of the equation {}.&nbsp;Write down what you do in each step.</p>",
)
NOTHING = ("<p>idk</p>", "<p>I do not know how to do this</p>", "<p>because that is the answer</p>", "<p>?</p>")
STEPS = {
    "add": ("I added {} to both sides", "I did plus {} on both sides"),
    "subtract": ("I subtracted {} from both sides", "I took away {} from each side"),
    "multiply": ("I multiplied both sides by {}", "I did times {} on both sides"),
    "divide": ("I divided both sides by {}", "I did divided by {}"),
    "distribute": ("I used the distributive property", "I multiplied out the brackets"),
    "clt": ("I combined like terms", "I put like terms together"),
}


class Work(NamedTuple):
    """What a student wrote: the moves in order, the equations that they show, and the answer if there is one."""

    moves: tuple[Move, ...]
    shown: tuple[Equation, ...]
    answer: Fraction | None


def generate_rows(count: int, seed: int) -> Iterator[dict[str, str]]:
    """Yields lines of the raw table, grades from 1 to 5.

    Args:
      count: answers. seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    seen: set[str] = set()
    problem, text = None, ""
    for index in range(count):
        if problem is None or index % ANSWERS_PER_PROBLEM == 0:
            problem = students.draw_new_problem(rng, seen)
            text = TASKS[int(rng.integers(len(TASKS)))].format(add_spaces(algebra.format_equation(problem)))
        student = students.draw_student(rng, index)
        student = student._replace(faults={name: _CARE * chance for name, chance in student.faults.items()})
        work = solve_on_paper(rng, student, problem)
        values = (str(1 + index // ANSWERS_PER_PROBLEM), text, str(_FIRST_LOG + index))
        values += (write_html(rng, work), str(1 + grade(problem, work)))
        yield dict(zip(COLUMNS, values, strict=True))


def solve_on_paper(rng: np.random.Generator, student: students.Student, problem: Equation) -> Work:
    """Solves a problem as a student does on paper; returns the moves and the part of them that the student shows."""
    if rng.random() < 0.05:
        return Work((), (), None)
    equation, taken = problem, []
    while len(taken) < _LONGEST:
        move = students.choose_move(rng, student, equation, set())
        taken.append(move)
        equation = move.claim
        if move.action == moves.FINAL or algebra.solution(equation) is None:
            break
    steps = [move for move in taken if move.action != moves.FINAL]
    habit = rng.random()
    # Most students show all their work, some leave a line out, some give only the answer.
    shown = steps if habit < 0.65 else [m for m in steps if rng.random() < 0.5] if habit < 0.85 else []
    answer = algebra.solution(equation) if taken[-1].action == moves.FINAL else None
    return Work(tuple(taken), tuple(move.claim for move in shown), answer)


def grade(problem: Equation, work: Work) -> int:
    """A grade from 0 to 4: two points for the right answer; two for showing every step that the problem takes, all of
    them right, or one for a single right step. A step is right if it has the solution of the line before it."""
    lines = [problem, *work.shown]
    are_right = [algebra.solution(a) == algebra.solution(b) for a, b in zip(lines, work.shown, strict=False)]
    step_points = 2 if all(are_right) and len(are_right) >= count_steps(problem) else int(any(are_right))
    return 2 * (work.answer is not None and work.answer == algebra.solution(problem)) + step_points


def count_steps(problem: Equation) -> int:
    """The number of steps of the usual way to the solution."""
    count = 0
    while not algebra.is_solved(problem):
        problem = moves.find_right_moves(problem)[0].claim
        count += 1
    return count


def write_html(rng: np.random.Generator, work: Work) -> str:
    """The answer as HTML."""
    if not work.moves:
        return NOTHING[int(rng.integers(len(NOTHING)))]
    answer = "" if work.answer is None else f"x = {algebra.format_number(work.answer)}"
    shown = [move for move in work.moves if move.claim in work.shown and move.action != moves.FINAL]
    if rng.random() < 0.3:
        return _join_paragraphs([*(add_spaces(algebra.format_equation(move.claim)) for move in shown), answer])
    sentences = []
    for i, move in enumerate(shown):
        first = ("First", "Then", "Next")[0 if i == 0 else 1 + int(rng.integers(2))]
        action = STEPS[move.action][int(rng.integers(2))].format(move.input)
        sentences.append(f"{first} {action} and got {add_spaces(algebra.format_equation(move.claim))}.")
    if answer:
        sentences.append((f"So {answer}.", f"The answer is {answer}.", answer)[int(rng.integers(3))])
    return _join_paragraphs([" ".join(sentences)])


def add_spaces(equation: str) -> str:
    """The equation with blanks around its equals sign."""
    return equation.replace("=", " = ")


def _join_paragraphs(lines: Sequence[str]) -> str:
    return "".join(f"<p>{line}</p>" for line in lines if line) or NOTHING[0]
