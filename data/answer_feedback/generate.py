"""A seeded stand-in for common wrong answers and what teachers say to them: each misconception carried to its end."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..answer_scoring.generate import spaced
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


def rows(count: int, seed: int) -> Iterator[dict[str, str]]:
    """Lines of the raw table, one a part of a problem, with at least `count` wrong answers in all.

    Args:
      count: wrong answers. seed: of everything random.
    """
    rng = np.random.default_rng(seed)
    seen: set[str] = set()
    done = part_id = code = 0
    while done < count:
        code += 1
        head = HEADS[int(rng.integers(len(HEADS)))]
        for part in range(int(rng.integers(1, MOST_PARTS + 1))):
            problem = students.new_problem(rng, seen)
            part_id += 1
            asked = f"<p>{spaced(algebra.written(problem))}</p>"
            row = dict.fromkeys(COLUMNS, "") | {
                "problem_id": str(part_id),
                "problem_code": f"PRA{code:04d}",
                "problem_part": str(part + 1),
                # The first part carries the head for all.
                "body": head + asked if part == 0 else asked,
            }
            for name, (answer, feedback) in zip(ANSWERS, wrong_answers(rng, problem), strict=False):
                row |= {name: f"<p>{answer}</p>", f"{name}_feedback": f"<p>{feedback}</p>"}
                done += 1
            yield row


def wrong_answers(rng: np.random.Generator, problem: Equation) -> list[tuple[str, str]]:
    """(answer, feedback): different wrong values of x, each what a wrong move on the usual way comes to."""
    found: dict[str, str] = {}
    for equation, move in _wrong_moves(problem):
        value = algebra.solution(move.claim)
        if value is None or value == algebra.solution(problem) or move.action == moves.FINAL:
            continue
        found.setdefault(algebra.number(value), _feedback(rng, equation, move))
    names = [list(found)[i] for i in rng.permutation(len(found))[: len(ANSWERS)]]
    return [(f"x = {name}" if rng.random() < 0.5 else name, found[name]) for name in names]


def _wrong_moves(equation: Equation) -> Iterator[tuple[Equation, Move]]:
    while not algebra.is_solved(equation):
        for move in moves.wrong(equation):
            yield equation, move
        equation = moves.right(equation)[0].claim


def _feedback(rng: np.random.Generator, equation: Equation, move: Move) -> str:
    opening = OPENINGS[int(rng.integers(len(OPENINGS)))]
    if move.misconception != "slip":
        return opening + move.feedback
    right = moves.right(equation)[0]
    return SLIPPED[int(rng.integers(len(SLIPPED)))].format(DOING[right.action].format(right.input))
