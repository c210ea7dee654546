"""Statistics for pictures of embeddings: nearest neighbours, and whether distances correlate with other distances.

Legend: N vectors, D their width, k neighbours, L levels of a tree.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from numjax.errors import UsageError

METRICS = ("cosine", "euclid")
PERMUTATIONS = 2000
ROUNDING = 1e-14  # more than a product of two unit vectors is off in float64


class Share(NamedTuple):
    """The share of nearest neighbours that are of the same family.

    Attributes:
      share: mean over all vectors that have relatives. chance: its mean under random permutations of the families.
      p: how often a permutation gives at least as much (one-sided). count: how many vectors have relatives.
    """

    share: float
    chance: float
    p: float
    count: int


class Correlation(NamedTuple):
    """Spearman's ρ of two distance matrices, and how often permuted names give at least as much (one-sided p)."""

    rho: float
    p: float


def distances(x_ND: np.ndarray, metric: str = "cosine") -> np.ndarray:
    """Distances, float64[N, N], with zeros on the diagonal.

    "cosine" is 1 − cos; a zero vector has distance 1 to all others. "euclid" is the length of x − y.

    Raises:
      UsageError: an unknown metric.
    """
    if metric not in METRICS:
        raise UsageError(f"metric {metric!r}: choose {' or '.join(METRICS)}")
    x_ND = np.asarray(x_ND, np.float64)
    if metric == "cosine":
        norms = np.linalg.norm(x_ND, axis=1, keepdims=True)
        x_ND = x_ND / np.where(norms == 0, 1, norms)
        distances_NN = np.clip(1 - x_ND @ x_ND.T, 0, 2)
    else:
        squares = np.square(x_ND).sum(axis=1)
        # Products round: equal vectors may get a small positive or negative squared distance.
        distances_NN = np.sqrt(np.maximum(squares[:, None] + squares - 2 * x_ND @ x_ND.T, 0))
    distances_NN = (distances_NN + distances_NN.T) / 2
    np.fill_diagonal(distances_NN, 0)
    return distances_NN


def find_nearest(distances_NN: np.ndarray, k: int = 5) -> np.ndarray:
    """Finds the k nearest others, int[N, k], nearest first; on ties the earlier first. All others if k is larger."""
    others_NN = np.array(distances_NN, np.float64)
    np.fill_diagonal(others_NN, np.inf)
    return np.argsort(others_NN, axis=1, kind="stable")[:, : min(k, len(others_NN) - 1)]


def find_candidates(cosines_N: np.ndarray, k: int) -> np.ndarray:
    """Indices of the k largest cosines, and of those that rounding does not separate from the kth, ascending.

    Products of almost parallel vectors differ by less than their rounding, so the candidates must be compared by
    differences of the vectors. A cosine of −inf is left out.
    """
    k = min(k, len(cosines_N))
    edge = np.partition(cosines_N, -k)[-k] - ROUNDING
    return np.flatnonzero((cosines_N >= edge) & np.isfinite(cosines_N))


def find_rank(distances_NN: np.ndarray, index: int, neighbour: int) -> int:
    """Finds the rank of `neighbour` among the neighbours of `index`: 1 is the nearest.

    Raises:
      UsageError: both are the same.
    """
    if index == neighbour:
        raise UsageError(f"{index} is not among its own neighbours: give two different indices")
    return int(np.flatnonzero(find_nearest(distances_NN, len(distances_NN))[index] == neighbour)[0]) + 1


def kin_share(
    near_Nk: np.ndarray,
    families: Sequence[Hashable],
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Share | None:
    """The share of neighbours of the same family; None if no vector has relatives.

    Args:
      near_Nk: neighbours, from `find_nearest`. families: the family of each vector.
    """
    index = {family: i for i, family in enumerate(dict.fromkeys(families))}
    family_N = np.asarray([index[family] for family in families])

    def mean_share(labels_N: np.ndarray) -> float:
        has_relatives = np.bincount(labels_N)[labels_N] > 1
        return float((labels_N[near_Nk[has_relatives]] == labels_N[has_relatives, None]).mean())

    n_relatives = int((np.bincount(family_N)[family_N] > 1).sum())
    if not n_relatives:
        return None
    observed, rng = mean_share(family_N), np.random.default_rng(seed)
    chances = np.asarray([mean_share(rng.permutation(family_N)) for _ in range(permutations)])
    return Share(observed, float(chances.mean()), _p_value(chances, observed), n_relatives)


def shared_neighbours(x_NN: np.ndarray, picture_NN: np.ndarray, k: int = 5) -> float:
    """The share of the k nearest neighbours that are also among the k nearest in a picture.

    Args:
      x_NN, picture_NN: distances of the vectors, and of their points in the picture.
    """
    nearest, picture_nearest = find_nearest(x_NN, k), find_nearest(picture_NN, k)
    return float((nearest[:, :, None] == picture_nearest[:, None, :]).any(axis=2).mean())


def mantel(
    x_NN: np.ndarray,
    y_NN: np.ndarray,
    control_NN: np.ndarray | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Correlation:
    """Rank correlation of two matrices of distances between the same things (Mantel 1967).

    ρ is 0 and p is 1 if one of the matrices is constant.

    Args:
      control_NN: distances to control for. Their linear part is removed from the ranks of both matrices first: the
        partial Mantel test (Smouse, Long and Sokal 1986).
      permutations: how many random permutations of the names in `x_NN`.
    """
    count = len(x_NN)
    upper = np.triu_indices(count, 1)
    control = None if control_NN is None else _standardize(stats.rankdata(control_NN[upper]))

    def residual(values: np.ndarray) -> np.ndarray:
        standard = _standardize(values)
        return standard if control is None else _standardize(standard - (standard @ control) / len(control) * control)

    ranks = np.zeros((count, count))
    ranks[upper] = stats.rankdata(np.asarray(x_NN)[upper])
    ranks += ranks.T
    target = residual(stats.rankdata(np.asarray(y_NN)[upper]))
    rho, rng = float(residual(ranks[upper]) @ target) / len(target), np.random.default_rng(seed)
    chances = []
    for _ in range(permutations):
        order = rng.permutation(count)
        chances.append(float(residual(ranks[np.ix_(order, order)][upper]) @ target) / len(target))
    return Correlation(rho, _p_value(np.asarray(chances), rho))


def tree_distances(positions_NL: np.ndarray) -> np.ndarray:
    """Number of edges between the nodes of a tree, int[N, N]: up to the last common ancestor and down again.

    Args:
      positions_NL: child index at each level from the root, −1 below the node (`Tokens.tree_positions`).
    """
    is_level = positions_NL >= 0
    depth = is_level.sum(axis=1)
    same = (positions_NL[:, None] == positions_NL[None]) & is_level[:, None] & is_level[None]
    common = np.cumprod(same, axis=2).sum(axis=2)
    return depth[:, None] + depth[None] - 2 * common


def find_parents(positions_NL: np.ndarray) -> np.ndarray:
    """Finds the index of each node's parent, int[N]; −1 for the root, and if the parent is not among the nodes."""
    depth = (positions_NL >= 0).sum(axis=1)
    index = {tuple(row[:d].tolist()): i for i, (row, d) in enumerate(zip(positions_NL, depth, strict=True))}
    return np.asarray(
        [index.get(tuple(row[: d - 1].tolist()), -1) for row, d in zip(positions_NL, depth, strict=True)]
    )


def _p_value(chance: np.ndarray, observed: float) -> float:
    # The observed value counts as one of the permutations, so p is never 0.
    return float((1 + (chance >= observed - 1e-12).sum()) / (1 + len(chance)))


def _standardize(values: np.ndarray) -> np.ndarray:
    """Scales values to mean 0 and variance 1; zeros if they are constant."""
    centred = values - values.mean()
    spread = np.sqrt(np.mean(np.square(centred)))
    return centred / spread if spread > 1e-9 * max(1.0, float(np.abs(values).max())) else np.zeros_like(centred)
