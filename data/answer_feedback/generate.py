"""A seeded stand-in for common wrong answers and feedback: each misconception leads to a wrong value of x."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..answer_scoring.generate import add_spaces
from ..cognitive_tutor import algebra, moves
from ..cognitive_tutor import generate as students
from ..cognitive_tutor.algebra import Equation
from ..cognitive_tutor.moves import Move

ANSWERS = ("cwa_1", "cwa_2", "cwa_3")
COLUMNS = (
    "problem_id", "problem_code", "problem_part", "body",
    *(column for answer in ANSWERS for column in (answer, f"{answer}_feedback")),
)  # fmt: skip
MOST_PARTS = 3

HEADS = (
    "<p>Solve each equation for <i>x</i>.</p>",
    "<p>Lin writes down equations for a friend to solve.&nbsp;Help the friend.</p>",
    "<p>Find the number that makes the equation true.</p>",
)
OPENINGS = ("", "", "Not quite. ", "Good try. ", "Check your work. ")
SLIPPED = ("You are close. Check your arithmetic when you {}.", "Look again at what you get when you {}.")
DOING = {
    "add": "add {}", "subtract": "subtract {}", "multiply": "multiply by {}", "divide": "divide by {}",
    "distribute": "multiply out the brackets", "clt": "combine like terms",
}  # fmt: skip


def generate_rows(count: int, seed: int) -> Iterator[dict[str, str]]:
    """Yields lines of the raw table, one for each part of a problem, with at least `count` wrong answers in all.

    Args:
      count: wrong answers. seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    seen: set[str] = set()
    n_answers = part_id = code = 0
    while n_answers < count:
        code += 1
        head = HEADS[int(rng.integers(len(HEADS)))]
        for part in range(int(rng.integers(1, MOST_PARTS + 1))):
            problem = students.draw_new_problem(rng, seen)
            part_id += 1
            question = f"<p>{add_spaces(algebra.format_equation(problem))}</p>"
            row = dict.fromkeys(COLUMNS, "") | {
                "problem_id": str(part_id),
                "problem_code": f"PRA{code:04d}",
                "problem_part": str(part + 1),
                # The first part has the head that all parts share.
                "body": head + question if part == 0 else question,
            }
            for name, (answer, feedback) in zip(ANSWERS, draw_wrong_answers(rng, problem), strict=False):
                row |= {name: f"<p>{answer}</p>", f"{name}_feedback": f"<p>{feedback}</p>"}
                n_answers += 1
            yield row


def draw_wrong_answers(rng: np.random.Generator, problem: Equation) -> list[tuple[str, str]]:
    """(answer, feedback) pairs: different wrong values of x, each the result of a wrong move on the usual way."""
    feedbacks: dict[str, str] = {}
    for equation, move in _find_wrong_moves(problem):
        value = algebra.solution(move.claim)
        if value is None or value == algebra.solution(problem) or move.action == moves.FINAL:
            continue
        feedbacks.setdefault(algebra.format_number(value), _choose_feedback(rng, equation, move))
    names = [list(feedbacks)[i] for i in rng.permutation(len(feedbacks))[: len(ANSWERS)]]
    return [(f"x = {name}" if rng.random() < 0.5 else name, feedbacks[name]) for name in names]


def _find_wrong_moves(equation: Equation) -> Iterator[tuple[Equation, Move]]:
    while not algebra.is_solved(equation):
        for move in moves.find_wrong_moves(equation):
            yield equation, move
        equation = moves.find_right_moves(equation)[0].claim


def _choose_feedback(rng: np.random.Generator, equation: Equation, move: Move) -> str:
    opening = OPENINGS[int(rng.integers(len(OPENINGS)))]
    if move.misconception != "slip":
        return opening + move.feedback
    right = moves.find_right_moves(equation)[0]
    return SLIPPED[int(rng.integers(len(SLIPPED)))].format(DOING[right.action].format(right.input))
