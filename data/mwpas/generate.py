"""Word problems of addition and subtraction with a candidate answer (NumGPT, MWPAS task)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..sampling import compute_split_sizes, count_per_group, draw_unique_rows, log_uniform

NAME = "mwpas"
NUMBERS = (1, 100_000)

ADDITION = (
    "A depot holds {a} crates. A lorry brings {b} more. How many crates does the depot hold now?",
    "Mina counted {a} cranes on Monday and {b} cranes on Tuesday. How many cranes did she count in all?",
    "One orchard gave {a} pears and another gave {b} pears. How many pears did they give together?",
    "A press made {a} posters before lunch and {b} posters after lunch. How many posters did it make that day?",
    "Tomas saved {a} coins last year. This year he saved {b} coins. How many coins has he saved altogether?",
    "A tanker carries {a} litres of milk. {b} litres are pumped in. How many litres does it carry then?",
    "The north stand seats {a} fans and the south stand {b} fans. How many seats do both stands have in total?",
    "A library owned {a} books and bought {b} new ones. How many books does it own after that?",
    "Lena cycled {a} metres, rested, and cycled {b} metres. How many metres did she cycle overall?",
    "A workshop used {a} screws in March and {b} screws in April. How many screws did it use in both months?",
)
SUBTRACTION = (
    "A baker had {a} rolls and sold {b} of them. How many rolls are left?",
    "Out of {a} seedlings, {b} died in the frost. How many seedlings survived?",
    "Ravi owns {a} stamps and Elsa owns {b} stamps. How many more stamps does Ravi own than Elsa?",
    "A water tower stored {a} litres. Then {b} litres ran out. How many litres stayed in the tower?",
    "A show had {a} tickets and {b} have been handed out. How many tickets remain?",
    "Two villages keep {a} sheep, {b} of them in the first. How many sheep are kept in the second?",
    "A tram line is {a} metres long and {b} metres are repaired. How many metres still need repair?",
    "Hugo needs {a} tiles for a roof and already has {b} tiles. How many tiles does he lack?",
    "A flock of {a} birds sat on a lake until {b} birds flew off. How many birds were on the lake after that?",
    "This week {a} letters came in, last week {b} letters. By how many did the number of letters grow?",
)
TEMPLATES = ADDITION + SUBTRACTION
OPERATIONS = ("addition",) * len(ADDITION) + ("subtraction",) * len(SUBTRACTION)

KINDS = {
    "plain": ("wrong_operation", "random"),
    "hard": ("wrong_operation", "random", "near_miss", "digit_edit"),
}


def _compute_answers(pairs: np.ndarray, addition: bool) -> np.ndarray:
    return pairs[:, 0] + pairs[:, 1] if addition else np.abs(pairs[:, 0] - pairs[:, 1])


def _draw_pairs(rng: np.random.Generator, size: int, addition: bool) -> np.ndarray:
    """Draws pairs of different numbers, int64[size, 2], the larger first for subtraction.

    Equal numbers are drawn again: their difference 0 is no positive answer.
    """
    pairs = log_uniform(rng, *NUMBERS, 2 * size).reshape(size, 2)
    while len(equal := np.flatnonzero(pairs[:, 0] == pairs[:, 1])):
        pairs[equal] = log_uniform(rng, *NUMBERS, 2 * len(equal)).reshape(-1, 2)
    return pairs if addition else -np.sort(-pairs, axis=1)


def _draw_random_answers(rng: np.random.Generator, truth: np.ndarray, pool: np.ndarray, addition: bool) -> np.ndarray:
    """Draws true answers to other questions of the template: they have the distribution of right answers, so that
    their size does not reveal wrong ones."""
    wrong = rng.choice(pool, size=len(truth))
    while len(equal := np.flatnonzero(wrong == truth)):
        wrong[equal] = _compute_answers(_draw_pairs(rng, len(equal), addition), addition)
    return wrong


def _draw_near_misses(rng: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    """The truth plus or minus a drawn step of 1 to 10, at least 1."""
    step = rng.integers(1, 11, size=len(truth)) * rng.choice((-1, 1), size=len(truth))
    return np.where(truth + step < 1, truth - step, truth + step)


def _draw_digit_edits(rng: np.random.Generator, truth: np.ndarray) -> np.ndarray:
    """The truth with one of its digits replaced by another, the first never by 0."""
    lengths = np.array([len(str(value)) for value in truth.tolist()])
    place = rng.integers(lengths)  # counted from the last digit
    unit = 10**place
    old = truth // unit % 10
    first = (place == lengths - 1).astype(np.int64)
    # One of the digits from `first` to 9 without the old one.
    new = rng.integers(first, 9)
    return truth + (new + (new >= old) - old) * unit


def _draw_negatives(rng: np.random.Generator, pairs: np.ndarray, count: int, addition: bool, kinds: tuple[str, ...]):
    """Draws wrong answers int64[n] to the pairs from `count` on, and the index into `kinds` of each; all kinds are
    equally frequent."""
    pool = _compute_answers(pairs, addition)
    pairs, truth = pairs[count:], pool[count:]
    kind = rng.permutation(np.arange(len(pairs)) % len(kinds))
    answers = {
        "wrong_operation": _compute_answers(pairs, not addition),
        "random": _draw_random_answers(rng, truth, pool, addition),
        "near_miss": _draw_near_misses(rng, truth),
        "digit_edit": _draw_digit_edits(rng, truth),
    }
    return np.choose(kind, [answers[name] for name in kinds]), kind


def generate_records(size: int, seed: int, negatives: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields all problems as (split, record), shuffled: train, then validation, then test.

    The questions, the positives and the splits are the same for both mixes of negatives.

    Args:
      size: problems in all, a multiple of 40 (20 templates, right and wrong).
      seed: of everything random.
      negatives: a key of `KINDS`.

    Raises:
      UsageError: the size is no such multiple.
    """
    count = count_per_group(NAME, size, len(TEMPLATES))
    kinds = KINDS[negatives]
    rng, rng_negatives = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(2))
    parts = []
    for index, operation in enumerate(OPERATIONS):
        addition = operation == "addition"

        def draw(n: int, addition: bool = addition) -> np.ndarray:
            return np.insert(_draw_pairs(rng, n, addition), 0, 0, axis=1)

        pairs = draw_unique_rows(draw, {0: 2 * count}, f"{NAME} ({TEMPLATES[index]})")[0]
        wrong, kind = _draw_negatives(rng_negatives, pairs, count, addition, kinds)
        answer = np.concatenate([_compute_answers(pairs[:count], addition), wrong])
        kind = np.concatenate([np.full(count, len(kinds)), kind])
        parts.append(np.column_stack([np.full(2 * count, index), pairs, answer, kind]))
    rows = np.concatenate(parts)[rng.permutation(size)].tolist()
    names = (*kinds, "positive")
    number = 0
    for split, length in compute_split_sizes(size).items():
        for index, a, b, answer, kind in rows[number : number + length]:
            yield (
                split,
                dict(
                    id=f"{NAME}-{number:06d}",
                    question=TEMPLATES[index].format(a=a, b=b),
                    answer=str(answer),
                    label=int(names[kind] == "positive"),
                    kind=names[kind],
                    operation=OPERATIONS[index],
                    template=index,
                    a=a,
                    b=b,
                ),
            )
            number += 1
