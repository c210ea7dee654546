"""Draws problems and decides their splits."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from numjax.errors import UsageError

from .operations import OPERATIONS, Problem, list_edges

PATIENCE = 400  # draws for one new problem of a length before the length counts as exhausted
TINY = 2  # lengths up to this have so few problems that all are for training
SHARES = {"train": 0.9, "validation": 0.05, "test": 0.05}
# Operations whose operands are no longer than this, whatever the length.
LONGEST = {"mul": 4, "mod": 4, "fmul": 7, "fdiv": 7}


def make_problems(
    operations: Sequence[str], size: int, test: int, seed: int, length: int, longer: Sequence[int]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (split, record); no question has the values of another.

    Args:
      operations: names; all have equal shares of the splits.
      size: training problems in all. test: problems in each stream of each operation; validation has as many of the
        stream "inside".
      length: most digits of operands in training. longer: lengths of the other streams of the test split.

    Raises:
      UsageError: the operations do not hold that many problems.
    """
    keys: set[str] = set()
    shares = [size // len(operations) + (i < size % len(operations)) for i in range(len(operations))]
    for name, n_train in zip(operations, shares, strict=True):
        rng = np.random.default_rng([seed, list(OPERATIONS).index(name)])
        own_longer = [n for n in longer if n <= LONGEST.get(name, n)]
        held_out = range(min(TINY, length - 1) + 1, length + 1)
        streams = [("train", "inside", n_train, range(1, length + 1))]
        streams += [("validation", "inside", test, held_out), ("test", "inside", test, held_out)]
        streams += [("test", f"length {n}", test, range(n, n + 1)) for n in own_longer]
        # Edges come first, so that training does not take them.
        for problem in (edge for n in (length, *own_longer) for edge in list_edges(name, n)):
            if problem.key not in keys:
                keys.add(problem.key)
                yield "test", _make_record(name, problem, "edges", len(keys), seed)
        for split, stream, count, lengths in streams:
            split_by_key = split if stream == "inside" else ""
            for _ in range(count):
                problem = _draw_new(name, rng, split_by_key, lengths, keys)
                yield split, _make_record(name, problem, stream, len(keys), seed)


def _draw_new(name: str, rng: np.random.Generator, split: str, lengths: range, keys: set[str]) -> Problem:
    """A problem whose values no other has, and whose key belongs to the split ("": any key does)."""
    for attempt in range(PATIENCE * len(lengths)):
        # Short lengths are soon used up: their share goes to the longer ones.
        length = int(rng.integers(lengths.start + attempt // PATIENCE, lengths.stop))
        problem = OPERATIONS[name](rng, length)
        is_tiny = split == "train" and length <= TINY < lengths.stop - 1
        if problem.key not in keys and (not split or is_tiny or find_split(problem.key) == split):
            keys.add(problem.key)
            return problem
    raise UsageError(f"arithmetic: {name} does not hold that many different problems: choose a smaller size")


def find_split(key: str) -> str:
    """The split of a problem, from a hash of its values alone."""
    share = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64
    return "train" if share < SHARES["train"] else "validation" if share < 1 - SHARES["test"] else "test"


def _make_record(name: str, problem: Problem, stream: str, number: int, seed: int) -> dict[str, Any]:
    return {
        "id": f"arithmetic-{seed}-{name}-{number:07d}",
        "question": problem.question,
        "answer": problem.answer,
        "accepted": " | ".join((problem.answer, *problem.accepted)),
        "operation": name,
        "stream": stream,
    }
