"""Whether vectors of numbers lie as the numbers do: neighbours on the number line against neighbours of the vectors,
and whether distance grows with |x − y|.

Legend: N numbers of the pool, in ascending order; D width; Q queries, indices into the pool; k neighbours; A anchors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from numjax.errors import UsageError

K = 10  # digit aggregation, Figs. 2 and 3
# Distances closer than this, of the longest vector, are the same: what rounds differently is not another distance.
SAME = 1e-9
_BLOCK = 1 << 24  # distances held at once


class Monotone(NamedTuple):
    """How far distance follows |x − y|.

    Attributes:
      falling: share of the steps away from an anchor, to the next number of the pool, at which the distance falls.
      spearman: of |x − y| and distance over all anchors and numbers. steps: how many.
      furthest: share of anchors whose furthest vector is that of the furthest number.
    """

    falling: float
    spearman: float
    steps: int
    furthest: float


def natural(values_N: np.ndarray, queries_Q: np.ndarray, k: int = K) -> np.ndarray:
    """nkNN: indices of the k nearest other numbers, nearest first, of equally near ones the smaller, int[Q, k].

    Raises:
      UsageError: the numbers are not ascending, or not more than k.
    """
    values_N = _ascending(values_N, k)
    window = queries_Q[:, None] + np.concatenate([np.arange(-k, 0), np.arange(1, k + 1)])
    inside = (window >= 0) & (window < len(values_N))
    apart = np.where(inside, np.abs(values_N[window % len(values_N)] - values_N[queries_Q, None]), np.inf)
    # The window ascends, and the sort is stable.
    return np.take_along_axis(window, np.argsort(apart, axis=1, kind="stable")[:, :k], axis=1)


def embedded(x_ND: np.ndarray, queries_Q: np.ndarray, k: int = K) -> np.ndarray:
    """ekNN: indices of the k other vectors nearest by Euclidean distance, nearest first, int[Q, k]; of equally near
    ones that of the smaller number.

    Raises:
      UsageError: no more than k vectors.
    """
    x_ND = np.asarray(x_ND, np.float64)
    _ascending(np.arange(len(x_ND)), k)
    squares = np.square(x_ND).sum(axis=1)
    longest = squares.max()
    found = []
    for begin in range(0, len(queries_Q), rows := max(1, _BLOCK // len(x_ND))):
        block = queries_Q[begin : begin + rows]
        # The product says who may be near; differences, which do not cancel, say who is.
        near = squares - 2 * (x_ND[block] @ x_ND.T) + squares[block, None]
        near[np.arange(len(block)), block] = np.inf
        edges = np.partition(near, k - 1, axis=1)[:, k - 1] + 1e-12 * longest
        # What is nearer than the edge by far less than SAME may be as near: the edge is that much further out.
        edges = np.square(np.sqrt(edges) + SAME * np.sqrt(longest))
        for query, row, edge in zip(block, near, edges, strict=True):
            candidates = np.flatnonzero(row <= edge)
            apart = np.linalg.norm(x_ND[candidates] - x_ND[query], axis=1)
            rounded = np.round(apart / (SAME * np.sqrt(longest) or 1.0))
            found.append(candidates[np.argsort(rounded, kind="stable")[:k]])
    return np.asarray(found, int).reshape(-1, k)


def overlap(one_Qk: np.ndarray, other_Qk: np.ndarray) -> np.ndarray:
    """F1 of each query, float64[Q]: both sets have k members, so precision, recall and F1 are the shared part."""
    return (one_Qk[:, :, None] == other_Qk[:, None, :]).any(axis=2).mean(axis=1)


def f1_by_length(
    values_N: np.ndarray, x_ND: np.ndarray, lengths: Sequence[int], k: int = K, queries: int = 200, seed: int = 0
) -> dict[int, float]:
    """Mean F1 of nkNN against ekNN by how many digits a number's integer part has, over the pool `values_N`.

    Args:
      queries: numbers asked of each length: all of them where there are no more, else so many drawn with `seed`.

    Raises:
      UsageError: as `natural`; or no number of a length is in the pool.
    """
    values_N = _ascending(values_N, k)
    digits = np.floor(np.log10(np.maximum(np.abs(values_N), 1) + 1e-9)).astype(int) + 1
    found = {}
    for length in lengths:
        there = np.flatnonzero(digits == length)
        if not len(there):
            raise UsageError(f"no number of {length} digits is in the pool")
        if len(there) > queries:
            there = np.sort(np.random.default_rng((seed, length)).choice(there, queries, replace=False))
        found[length] = float(overlap(natural(values_N, there, k), embedded(x_ND, there, k)).mean())
    return found


def monotone(values_N: np.ndarray, x_ND: np.ndarray, anchors_A: np.ndarray) -> Monotone:
    """Steps at which distance falls although |x − y| grows, and the rank correlation of the two. Distances are
    Euclidean: give unit vectors (`naik.unit`) for chords.

    Raises:
      UsageError: fewer than three numbers, or not ascending.
    """
    values_N, x_ND = _ascending(values_N, 2), np.asarray(x_ND, np.float64)
    longest = np.linalg.norm(x_ND, axis=1).max()
    falling = steps = furthest = 0
    away, apart = [], []
    for anchor in anchors_A:
        distance = np.linalg.norm(x_ND - x_ND[anchor], axis=1)
        along = np.abs(values_N - values_N[anchor])
        change = np.diff(distance)
        change[:anchor] *= -1  # downwards, away from the anchor
        falling += int((change < -SAME * longest).sum())
        steps += len(change)
        ends = along[[0, -1]]
        reached = distance[[0, -1]][ends == ends.max()].max()
        furthest += bool(reached >= distance.max() - SAME * longest)
        away.append(along)
        apart.append(distance)
    rho = stats.spearmanr(np.concatenate(away), np.concatenate(apart))[0] if np.ptp(apart) > 0 else 0.0
    return Monotone(falling / steps, float(rho), steps, furthest / len(anchors_A))  # type: ignore[arg-type]


def carries(values_N: np.ndarray, x_ND: np.ndarray) -> dict[str, float]:
    """Mean distance of successive integers by what the step does: "plain" (only the last digit changes), "carry"
    (more than one digit does) and "length" (another digit: 9 → 10, 99 → 100); NaN where there is none.

    Raises:
      UsageError: the numbers are not successive integers from 0 on.
    """
    if not np.array_equal(values_N, np.arange(len(values_N))) or len(values_N) < 2:
        raise UsageError("carries are looked at in 0, 1, 2, …: give successive integers from 0 on")
    step = np.linalg.norm(np.diff(np.asarray(x_ND, np.float64), axis=0), axis=1)
    after = np.arange(1, len(values_N))
    kinds = {"plain": after % 10 != 0, "length": np.isin(after, 10 ** np.arange(1, 19))}
    kinds["carry"] = ~kinds["plain"] & ~kinds["length"]
    return {
        name: float(step[kinds[name]].mean()) if kinds[name].any() else float("nan")
        for name in ("plain", "carry", "length")
    }


def _ascending(values_N: np.ndarray, k: int) -> np.ndarray:
    values_N = np.asarray(values_N, np.float64)
    if len(values_N) <= k:
        raise UsageError(f"{len(values_N)} numbers have no {k} neighbours each: give more")
    if not (np.diff(values_N) > 0).all():
        raise UsageError("the numbers must ascend, each given once")
    return values_N
