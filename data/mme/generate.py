"""Questions about measures of several things, with a right and a wrong answer each (NumGPT, MME task)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import UsageError

from ..sampling import compute_split_sizes, count_per_group, draw_unique_rows, log_uniform
from . import wordings

NAME = "mme"
MULTIPLIERS = (2, 200)
BEYOND = 100  # a wrong answer is off by at most this factor
COUNTS = (1, 1000)  # multipliers for many wordings

TEMPLATES = (
    "How many {unit} are {k} {thing}?",
    "What do {k} {thing} come to in {unit}?",
    "Put {k} {thing} together: how many {unit} is that?",
    "About how many {unit} would you count for {k} {thing}?",
)


class Thing(NamedTuple):
    """A thing, with the least and the greatest measure of one of them in its unit."""

    name: str
    unit: str
    low: int
    high: int


THINGS = (
    Thing("eggs", "grams", 35, 70),
    Thing("bananas", "grams", 90, 180),
    Thing("tennis balls", "grams", 56, 60),
    Thing("house bricks", "grams", 1800, 3500),
    Thing("laptops", "grams", 900, 2800),
    Thing("house cats", "grams", 2500, 6500),
    Thing("dairy cows", "kilograms", 450, 900),
    Thing("small cars", "kilograms", 800, 1300),
    Thing("pianos", "kilograms", 180, 480),
    Thing("grown elephants", "kilograms", 2700, 6500),
    Thing("new pencils", "centimetres", 15, 20),
    Thing("single beds", "centimetres", 185, 215),
    Thing("guitars", "centimetres", 90, 110),
    Thing("articulated buses", "metres", 16, 20),
    Thing("teacups", "millilitres", 120, 250),
    Thing("soup plates", "millilitres", 200, 400),
    Thing("bathtubs", "litres", 120, 300),
    Thing("pop songs", "minutes", 2, 5),
    Thing("football matches", "minutes", 90, 125),
    Thing("feature films", "minutes", 75, 180),
)


def _draw_wrong_answers(rng: np.random.Generator, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Draws log-uniform values in [0.01·low, low) or, with the same chance, in (high, 100·high]; int64[n]."""
    below = log_uniform(rng, np.maximum(1, -(-low // BEYOND)), low - 1, len(low))
    above = log_uniform(rng, high + 1, BEYOND * high, len(high))
    return np.where(rng.random(len(low)) < 0.5, below, above)


def _draw_pairs(rng: np.random.Generator, index: int, count: int) -> np.ndarray:
    """Draws samples of one thing, int64[2·count, 4]: template, multiplier, answer, label.

    The wrong answers belong to the same questions as the right ones. So neither a question alone nor a small
    multiplier, which has few right answers, tells anything about the label.
    """
    thing = THINGS[index]

    def draw(size: int) -> np.ndarray:
        k = log_uniform(rng, *MULTIPLIERS, size)
        answer = log_uniform(rng, k * thing.low, k * thing.high, size)
        return np.stack([np.zeros_like(k), k, answer], axis=1)

    k, right = draw_unique_rows(draw, {0: count}, f"{NAME} ({thing.name})")[0].T
    wrong = _draw_wrong_answers(rng, k * thing.low, k * thing.high)
    for _ in range(1000):
        first = np.unique(np.stack([k, wrong], axis=1), axis=0, return_index=True)[1]
        repeated = np.setdiff1d(np.arange(count), first)
        if not len(repeated):
            break
        wrong[repeated] = _draw_wrong_answers(rng, k[repeated] * thing.low, k[repeated] * thing.high)
    else:
        raise UsageError(f"{NAME} ({thing.name}): too few different wrong answers; choose a smaller size")
    template = rng.integers(len(TEMPLATES), size=count)
    ones = np.ones_like(k)
    return np.concatenate(
        [np.stack([template, k, right, ones], axis=1), np.stack([template, k, wrong, 0 * ones], axis=1)]
    )


def generate_records(size: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields all samples as (split, record), shuffled: train, then validation, then test.

    Args:
      size: samples in all, a multiple of 40 (20 things, right and wrong).
      seed: of everything random.

    Raises:
      UsageError: the size is no such multiple, or the ranges have too few different samples.
    """
    count = count_per_group(NAME, size, len(THINGS))
    rng = np.random.default_rng(seed)
    rows = np.concatenate([np.insert(_draw_pairs(rng, i, count), 0, i, axis=1) for i in range(len(THINGS))])
    rows = rows[rng.permutation(size)].tolist()
    number = 0
    for split, length in compute_split_sizes(size).items():
        for index, template, k, answer, label in rows[number : number + length]:
            thing = THINGS[index]
            yield (
                split,
                dict(
                    id=f"{NAME}-{number:06d}",
                    question=TEMPLATES[template].format(k=k, thing=thing.name, unit=thing.unit),
                    answer=str(answer),
                    label=label,
                    template=template,
                    object=thing.name,
                    unit=thing.unit,
                    multiplier=k,
                    answer_min=k * thing.low,
                    answer_max=k * thing.high,
                ),
            )
            number += 1


def generate_many_records(size: int, seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """As `generate_records`, in many wordings: no two splits share wordings, except the half of test that is "seen".

    Each question is asked twice, with a right and with a wrong answer, both in the same split.

    Args, raises: see `generate_records`.
    """
    count = count_per_group(NAME, size, len(THINGS))
    rng = np.random.default_rng(seed)
    things = rng.permutation(np.repeat(np.arange(len(THINGS)), count))
    used_texts: set[str] = set()
    number = start = 0
    for split, length in compute_split_sizes(len(things)).items():
        samples = []
        for nth, index in enumerate(things[start : start + length].tolist()):
            stream = "seen" if split == "train" or (split == "test" and nth % 2) else "unseen"
            samples += _ask_twice(rng, THINGS[index], _draw_use(rng, split, stream), used_texts, stream)
        start += length
        for i in rng.permutation(len(samples)).tolist():
            yield split, dict(id=f"{NAME}-{number:06d}") | samples[i]
            number += 1


def _draw_use(rng: np.random.Generator, split: str, stream: str) -> str:
    """The use of a question's wording, one of `wordings.USES`; drawn for test."""
    if stream == "seen":
        return "train"
    return "validation" if split == "validation" else ("wordings", "sentences")[int(rng.integers(2))]


def _ask_twice(
    rng: np.random.Generator, thing: Thing, use: str, used_texts: set[str], stream: str
) -> list[dict[str, Any]]:
    """Draws a question that is not in `used_texts`, with a right and a wrong answer, and adds it there."""
    for _ in range(1000):
        k = int(log_uniform(rng, *COUNTS, 1)[0])
        question = wordings.draw_question(rng, thing.name, thing.unit, k, use)
        if question.text not in used_texts:
            break
    else:
        raise UsageError(f"{NAME} ({thing.name}): too few different questions; choose a smaller size")
    used_texts.add(question.text)
    low, high = k * thing.low, k * thing.high
    return [
        dict(
            question=question.text,
            answer=wordings.draw_answer(rng, low, high, BEYOND, thing.unit, right),
            label=int(right),
            template=question.sentence,
            object=thing.name,
            unit=thing.unit,
            multiplier=k,
            answer_min=low,
            answer_max=high,
            wording=question.wording,
            stream=stream,
        )
        for right in (True, False)
    ]
