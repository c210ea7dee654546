"""Does an answer fit a question about the measure of several things? The data of `mme` in many wordings."""

from __future__ import annotations

import functools
from decimal import Decimal

import numpy as np

from ..mme import wordings
from ..mme.generate import BEYOND, COUNTS, THINGS, Thing
from ..sampling import log_uniform
from .problem import Operation, Problem

FITS, FITS_NOT = "1", "0"
BEYOND_COUNTS = (COUNTS[1] + 1, 100 * COUNTS[1])  # of the stream "magnitude"


def make_fit(thing: Thing, count: int, text: str, answer: str) -> Problem:
    """Whether an answer fits, "1" or "0".

    The thing and its count decide the split, not the answer: else one split would tell which answers fit in another.

    Args:
      text: a question of the measure of so many things. answer: with or without its unit, which is the thing's.
    """
    value = Decimal(answer.split()[0].replace(",", ""))
    right = count * thing.low <= value <= count * thing.high
    group = f"mme {count} {thing.name}"
    return Problem(
        f"fits {answer} : {text} =", FITS if right else FITS_NOT, f"{group} {value}", (answer, str(count)), "fits",
        group=group,
    )  # fmt: skip


def _draw_fit(
    rng: np.random.Generator,
    length: int,
    uses: tuple[str, ...] = ("train",),
    counts: tuple[int, int] = COUNTS,
) -> Problem:
    """A right or a wrong answer, as often."""
    thing = THINGS[int(rng.integers(len(THINGS)))]
    count = int(log_uniform(rng, *counts, 1)[0])
    question = wordings.draw_question(rng, thing.name, thing.unit, count, uses[int(rng.integers(len(uses)))])
    low, high = count * thing.low, count * thing.high
    answer = wordings.draw_answer(rng, low, high, BEYOND, thing.unit, bool(rng.random() < 0.5))
    return make_fit(thing, count, question.text, answer)


MME = Operation(
    _draw_fit,
    most=1,
    streams={
        "wordings": functools.partial(_draw_fit, uses=("wordings", "sentences")),
        "magnitude": functools.partial(_draw_fit, counts=BEYOND_COUNTS),
    },
)
