"""Compares vectors of numbers with the number line: the same neighbours? Does distance grow with |x − y|?

Legend: N numbers of the pool, in ascending order; D width; Q queries, indices into the pool; k neighbours; A anchors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from numjax.errors import UsageError

K = 10  # digit aggregation, Figs. 2 and 3
# Two distances count as equal if they differ by less than this share of the longest vector: rounding.
SAME = 1e-9
_BLOCK = 1 << 24  # distances in memory at once


class Monotonicity(NamedTuple):
    """How well distance follows |x − y|.

    Attributes:
      falling: share of the steps (away from an anchor, to the next number of the pool) at which the distance falls.
      spearman: rank correlation of |x − y| and distance, over all anchors and numbers. steps: number of steps.
      furthest: share of anchors whose furthest vector is that of the furthest number.
    """

    falling: float
    spearman: float
    steps: int
    furthest: float


def natural_neighbours(values_N: np.ndarray, queries_Q: np.ndarray, k: int = K) -> np.ndarray:
    """nkNN: indices of the k nearest other numbers, int[Q, k], nearest first; on ties the smaller number first.

    Raises:
      UsageError: the numbers are not ascending, or there are k or fewer.
    """
    values_N = _check_ascending(values_N, k)
    window = queries_Q[:, None] + np.concatenate([np.arange(-k, 0), np.arange(1, k + 1)])
    inside = (window >= 0) & (window < len(values_N))
    queries = values_N[queries_Q, None]
    gaps = np.abs(values_N[window % len(values_N)] - queries)
    # 0.2 is as far from 0.1 as from 0.3, and their floats are not: twelve digits decide.
    digits = 12 - np.ceil(np.log10(np.maximum(np.abs(queries) + gaps, 1e-290)))
    gaps = np.where(inside, np.round(gaps * 10.0**digits) / 10.0**digits, np.inf)
    # The window ascends, and the sort is stable.
    return np.take_along_axis(window, np.argsort(gaps, axis=1, kind="stable")[:, :k], axis=1)


def embedded_neighbours(x_ND: np.ndarray, queries_Q: np.ndarray, k: int = K) -> np.ndarray:
    """ekNN: indices of the k other vectors nearest by Euclidean distance, int[Q, k], nearest first; on ties the
    smaller number first.

    Raises:
      UsageError: there are k vectors or fewer.
    """
    x_ND = np.asarray(x_ND, np.float64)
    _check_ascending(np.arange(len(x_ND)), k)
    squares = np.square(x_ND).sum(axis=1)
    longest = squares.max()
    neighbours = []
    for begin in range(0, len(queries_Q), rows := max(1, _BLOCK // len(x_ND))):
        block = queries_Q[begin : begin + rows]
        # Products find candidates. Differences, which do not cancel, decide.
        squared_distances = squares - 2 * (x_ND[block] @ x_ND.T) + squares[block, None]
        squared_distances[np.arange(len(block)), block] = np.inf
        edges = np.partition(squared_distances, k - 1, axis=1)[:, k - 1] + 1e-12 * longest
        # Vectors just beyond the edge may tie with it: move the edge out by SAME.
        edges = np.square(np.sqrt(edges) + SAME * np.sqrt(longest))
        for query, row, edge in zip(block, squared_distances, edges, strict=True):
            candidates = np.flatnonzero(row <= edge)
            distance = np.linalg.norm(x_ND[candidates] - x_ND[query], axis=1)
            rounded_distances = np.round(distance / (SAME * np.sqrt(longest) or 1.0))
            neighbours.append(candidates[np.argsort(rounded_distances, kind="stable")[:k]])
    return np.asarray(neighbours, int).reshape(-1, k)


def overlap(x_Qk: np.ndarray, y_Qk: np.ndarray) -> np.ndarray:
    """F1 of each query, float64[Q]. Both sets have k members: precision, recall and F1 are the shared fraction."""
    return (x_Qk[:, :, None] == y_Qk[:, None, :]).any(axis=2).mean(axis=1)


def f1_by_length(
    values_N: np.ndarray, x_ND: np.ndarray, lengths: Sequence[int], k: int = K, queries: int = 200, seed: int = 0
) -> dict[int, float]:
    """Mean F1 of nkNN against ekNN over the pool `values_N`, by the number of digits of the integer part.

    Args:
      queries: how many numbers of each length to use; they are drawn with `seed` if the pool has more.

    Raises:
      UsageError: as `natural_neighbours`; or the pool has no number of a length.
    """
    values_N = _check_ascending(values_N, k)
    digits = np.floor(np.log10(np.maximum(np.abs(values_N), 1) + 1e-9)).astype(int) + 1
    scores = {}
    for length in lengths:
        members = np.flatnonzero(digits == length)
        if not len(members):
            raise UsageError(f"no number of {length} digits is in the pool")
        if len(members) > queries:
            members = np.sort(np.random.default_rng((seed, length)).choice(members, queries, replace=False))
        scores[length] = float(
            overlap(natural_neighbours(values_N, members, k), embedded_neighbours(x_ND, members, k)).mean()
        )
    return scores


def measure_monotonicity(values_N: np.ndarray, x_ND: np.ndarray, anchors_A: np.ndarray) -> Monotonicity:
    """Measures how often distance falls although |x − y| grows, and the rank correlation of the two.

    Distances are Euclidean. For chords, give unit vectors (`naik.normalize`).

    Raises:
      UsageError: fewer than three numbers, or they are not ascending.
    """
    values_N, x_ND = _check_ascending(values_N, 2), np.asarray(x_ND, np.float64)
    longest = np.linalg.norm(x_ND, axis=1).max()
    falling = steps = furthest = 0
    gaps, rounded_distances = [], []
    for anchor in anchors_A:
        distance = np.linalg.norm(x_ND - x_ND[anchor], axis=1)
        gap = np.abs(values_N - values_N[anchor])
        change = np.diff(distance)
        change[:anchor] *= -1  # below the anchor, a step away from it goes down
        falling += int((change < -SAME * longest).sum())
        steps += len(change)
        ends = gap[[0, -1]]
        end_distance = distance[[0, -1]][ends == ends.max()].max()
        furthest += bool(end_distance >= distance.max() - SAME * longest)
        gaps.append(gap)
        rounded_distances.append(np.round(distance / (SAME * longest or 1.0)))
    is_constant = np.ptp(rounded_distances) == 0
    rho = 0.0 if is_constant else stats.spearmanr(np.concatenate(gaps), np.concatenate(rounded_distances))[0]
    return Monotonicity(falling / steps, float(rho), steps, furthest / len(anchors_A))  # type: ignore[arg-type]


def measure_carries(values_N: np.ndarray, x_ND: np.ndarray) -> dict[str, float]:
    """Measures the mean distance of successive integers by kind of step.

    The kinds: "plain" (only the last digit changes), "carry" (more than one digit changes) and "length" (one more
    digit: 9 → 10, 99 → 100). A kind without steps is NaN.

    Raises:
      UsageError: the numbers are not 0, 1, 2, ….
    """
    if not np.array_equal(values_N, np.arange(len(values_N))) or len(values_N) < 2:
        raise UsageError("carries are measured on 0, 1, 2, …: give successive integers from 0 on")
    step = np.linalg.norm(np.diff(np.asarray(x_ND, np.float64), axis=0), axis=1)
    numbers = np.arange(1, len(values_N))
    kinds = {"plain": numbers % 10 != 0, "length": np.isin(numbers, 10 ** np.arange(1, 19))}
    kinds["carry"] = ~kinds["plain"] & ~kinds["length"]
    return {
        name: float(step[kinds[name]].mean()) if kinds[name].any() else float("nan")
        for name in ("plain", "carry", "length")
    }


def _check_ascending(values_N: np.ndarray, k: int) -> np.ndarray:
    values_N = np.asarray(values_N, np.float64)
    if len(values_N) <= k:
        raise UsageError(f"{len(values_N)} numbers have no {k} neighbours each: give more")
    if not (np.diff(values_N) > 0).all():
        raise UsageError("the numbers must ascend, each given once")
    return values_N
