"""Draws problems and decides their splits."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from numjax.errors import UsageError

from .edges import list_edges
from .operations import OPERATIONS
from .problem import Draw, Problem, count_digits

PATIENCE = 400  # draws for one new problem of a length before the length counts as exhausted
TINY = 2  # operands of up to so many digits have so few problems that all are for training
SHARES = {"train": 0.9, "validation": 0.05, "test": 0.05}


class _Stream(NamedTuple):
    """A stream of a split.

    Attributes:
      lengths: of the longest operand. is_pair: see `Operation`. home: the split to which the values must belong; ""
        for any, where lengths of their own keep the values apart.
    """

    split: str
    name: str
    count: int
    draw: Draw
    lengths: range
    is_pair: bool
    home: str


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
    shares = [size // len(operations) + (i < size % len(operations)) for i in range(len(operations))]
    lengths = {name: _choose_lengths(name, length, longer) for name in OPERATIONS}
    # Of all operations, also of those that are not asked for: mul1 must not train on an edge of mul.
    edges = {name: [edge for n in lengths[name] for edge in list_edges(name, n)] for name in OPERATIONS}
    reserved = {edge.key for group in edges.values() for edge in group}
    for name, n_train in zip(operations, shares, strict=True):
        problems = _draw_problems(name, n_train, test, seed, lengths[name], edges[name], reserved)
        for number, (split, stream, problem) in enumerate(problems, 1):
            yield split, _make_record(name, problem, stream, number, seed)


def _choose_lengths(name: str, length: int, longer: Sequence[int]) -> tuple[int, ...]:
    """(the longest operands of an operation's training, the lengths of its longer streams …)."""
    operation = OPERATIONS[name]
    own_longer = [n for n in longer if n <= operation.most] if operation.longer is None else operation.longer
    return min(length, operation.most), *own_longer


def _draw_problems(
    name: str, n_train: int, test: int, seed: int, lengths: tuple[int, ...], edges: list[Problem], reserved: set[str]
) -> Iterator[tuple[str, str, Problem]]:
    """Yields (split, stream, problem) of one operation.

    Args:
      lengths: see `_choose_lengths`. edges: of the operation, some of them twice. reserved: the keys of all edges.
    """
    operation = OPERATIONS[name]
    longest, *own_longer = lengths
    keys, groups = set(reserved), {edge.group for edge in edges} - {""}
    for edge in {(edge.key, edge.answer): edge for edge in edges}.values():
        yield "test", "edges", edge

    tiny = min(TINY, longest - 1)
    held_out = range(tiny + 1, longest + 1)

    def make_stream(split: str, stream: str, count: int, lengths: range, draw: Draw = operation.draw, home: str = ""):
        return _Stream(split, stream, count, draw, lengths, operation.is_pair, home)

    streams = [make_stream("train", "inside", n_train, range(1, longest + 1), home="train")]
    streams += [make_stream(split, "inside", test, held_out, home=split) for split in ("validation", "test")]
    streams += [make_stream("test", f"length {n}", test, range(n, n + 1)) for n in own_longer]
    for key, draw in operation.streams.items():
        # The longest operands of training, made larger, are larger than all of training.
        drawn = range(longest, longest + 1) if key == "magnitude" else held_out
        streams.append(make_stream("test", key, test, drawn, draw, "test"))
    for stream in streams:
        # A stream of its own randomness: test is the same for any size of training (but see the README).
        rng = np.random.default_rng([seed, zlib.crc32(f"{name} {stream.split} {stream.name}".encode())])
        for _ in range(stream.count):
            problem = _draw_new(rng, stream, tiny, keys, groups)
            if problem is None and stream.name in operation.streams:
                break  # short operands have few carries through all places
            if problem is None:
                raise UsageError(
                    f"arithmetic: {name} does not hold that many different problems: choose a smaller size"
                )
            keys.add(problem.key)
            yield stream.split, stream.name, problem


def _draw_new(
    rng: np.random.Generator, stream: _Stream, tiny: int, keys: set[str], groups: set[str]
) -> Problem | None:
    """A problem of a stream with a key that is not in `keys` and a group that is not in `groups`; None if there seems
    to be none."""
    for attempt in range(PATIENCE * len(stream.lengths)):
        # Short lengths are soon used up: their share goes to the longer ones.
        length = _draw_length(
            rng, stream.lengths.start + attempt // PATIENCE, stream.lengths.stop - 1, stream.is_pair
        )
        problem = stream.draw(rng, length)
        if problem.key in keys or problem.group in groups:
            continue
        home = "train" if count_digits(problem) <= tiny else find_split(problem.group or problem.key)
        if stream.home in ("", home):
            return problem
    return None


def _draw_length(rng: np.random.Generator, least: int, most: int, is_pair: bool) -> int:
    """A length from `least` to `most`: uniform, or the longer one of two that are."""
    if is_pair:
        return math.isqrt(int(rng.integers((least - 1) ** 2, most**2))) + 1
    return int(rng.integers(least, most + 1))


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
        "operands": " | ".join(problem.operands),
        "operator": problem.operator,
        "operation": name,
        "stream": stream,
    }
