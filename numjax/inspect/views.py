"""What an embedding does with a list of numbers: vectors, nearest numbers, maps of similarity, a picture.

Legend: N numbers, of which the first R are the range 0 … R − 1; D width; k neighbours; C cells of a map.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from numjax.geometry import naik, neighbours, projections

NEAREST = 8
CELLS = 100  # of a map, along each side
# Two distances from a number count as equal if they differ by less than this share of the furthest candidate's.
_SAME = 1e-12


class Map(NamedTuple):
    """The mean cosine of the numbers of one cell of the range with those of another, float64[C, C], NaN where no pair
    has vectors. `step`: how many numbers a cell has."""

    cosines: np.ndarray
    step: int


class View(NamedTuple):
    """One embedding's vectors of the numbers.

    Attributes:
      name: of the embedding in a run; "" for an embedding by itself.
      vectors: float64[N, D], zeros for numbers without a vector. has_vector: bool[N].
      nearest: int[N, k], the numbers of other value that are nearest by cosine, nearest first, on ties the earlier
        first; −1 where there are fewer. Of numbers of equal value only the first is listed. cosines: float64[N, k].
      maps: of the first numbers one by one, and of the whole range.
      points: float64[N, 2], on the first two principal components of the range. share: their shares of its variance.
    """

    name: str
    vectors: np.ndarray
    has_vector: np.ndarray
    nearest: np.ndarray
    cosines: np.ndarray
    maps: tuple[Map, ...]
    points: np.ndarray
    share: tuple[float, float]

    @property
    def dim(self) -> int:
        """D."""
        return self.vectors.shape[1]


def make_view(
    name: str, vectors_ND: np.ndarray, has_vector_N: np.ndarray, values: Sequence[Decimal], range_size: int
) -> View:
    """Computes everything of a `View` in float64.

    Args:
      vectors_ND: rows of numbers without a vector are ignored. values: exact values of the numbers.
      range_size: R.
    """
    has_vector = np.asarray(has_vector_N, bool) & np.isfinite(vectors_ND).all(axis=1)
    vectors_ND = np.where(has_vector[:, None], np.asarray(vectors_ND, np.float64), 0.0)
    distances_NN = neighbours.distances(vectors_ND)
    cosines_NN = 1 - distances_NN
    nearest, cosines = _find_nearest(naik.normalize(vectors_ND), distances_NN, has_vector, values)
    range_has = has_vector[:range_size]
    range_cosines = np.where(range_has[:, None] & range_has, cosines_NN[:range_size, :range_size], np.nan)
    steps = sorted({1, -(-range_size // CELLS)})
    maps = tuple(Map(average_cells(range_cosines[: CELLS * step, : CELLS * step], step), step) for step in steps)
    points, share = _project(vectors_ND, has_vector, range_size)
    return View(name, vectors_ND, has_vector, nearest, cosines, maps, points, share)


def _find_nearest(
    u_ND: np.ndarray, distances_NN: np.ndarray, has_vector: np.ndarray, values: Sequence[Decimal]
) -> tuple[np.ndarray, np.ndarray]:
    first_index: dict[Decimal, int] = {}
    for i, value in enumerate(values):
        if has_vector[i]:
            first_index.setdefault(value, i)
    first_N = np.asarray([first_index.get(value, -1) for value in values])
    is_listed = first_N == np.arange(len(values))
    others_NN = np.where(is_listed & (first_N[:, None] != first_N) & has_vector[:, None], distances_NN, np.inf)
    count, has_direction = min(NEAREST, len(values) - 1), np.square(u_ND).sum(axis=1) > 0
    nearest, cosines = np.full((len(values), count), -1), np.zeros((len(values), count))
    for i, others_N in enumerate(others_NN):
        candidates = neighbours.find_candidates(1 - others_N, count)
        # Products find candidates. Differences, which do not cancel, decide.
        exact = np.square(u_ND[candidates] - u_ND[i]).sum(axis=1) / 2
        distances = np.where(has_direction[i] & has_direction[candidates], exact, others_N[candidates])
        rounded_distances = np.round(distances / (_SAME * distances.max(initial=0.0) or 1.0))
        order = np.argsort(rounded_distances, kind="stable")[:count]
        nearest[i, : len(order)], cosines[i, : len(order)] = candidates[order], 1 - distances[order]
    return nearest, cosines


def average_cells(cosines_RR: np.ndarray, step: int) -> np.ndarray:
    """Means over cells of step × step entries, without NaNs; cells at the edge may be smaller."""
    is_pair = ~np.isnan(cosines_RR)
    starts = np.arange(0, len(cosines_RR), step)

    def add_cells(x: np.ndarray) -> np.ndarray:
        return np.add.reduceat(np.add.reduceat(x, starts, axis=0), starts, axis=1)

    counts = add_cells(is_pair.astype(np.float64))
    totals = add_cells(np.where(is_pair, cosines_RR, 0.0))
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)


def _project(
    vectors_ND: np.ndarray, has_vector: np.ndarray, range_size: int
) -> tuple[np.ndarray, tuple[float, float]]:
    points, share = np.zeros((len(vectors_ND), 2)), np.zeros(2)
    range_vectors = vectors_ND[:range_size][has_vector[:range_size]]
    if axes := min(2, *range_vectors.shape):
        components = projections.pca(range_vectors, axes)
        points[:, :axes] = np.where(has_vector[:, None], (vectors_ND - components.centre) @ components.axes.T, 0.0)
        share[:axes] = components.share
    return points, (float(share[0]), float(share[1]))
