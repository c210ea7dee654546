"""Numbers for what pictures of embeddings show: who is near whom, and whether distances follow other distances.

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


class Share(NamedTuple):
    """How many of the nearest neighbours are of one's own family.

    Attributes:
      share: mean over all that have relatives. chance: its mean when families are dealt anew.
      p: how often the dealt families give as much (one-sided). count: how many have relatives.
    """

    share: float
    chance: float
    p: float
    count: int


class Correlation(NamedTuple):
    """Spearman's ρ of two tables of distances, and how often shuffled names give as much (one-sided)."""

    rho: float
    p: float


def distances(x_ND: np.ndarray, metric: str = "cosine") -> np.ndarray:
    """float64[N, N], zeros on the diagonal: 1 − cos (a zero vector is as far from all: 1), or the length of x − y.

    Raises:
      UsageError: an unknown metric.
    """
    if metric not in METRICS:
        raise UsageError(f"metric {metric!r}: choose {' or '.join(METRICS)}")
    x_ND = np.asarray(x_ND, np.float64)
    if metric == "cosine":
        norms = np.linalg.norm(x_ND, axis=1, keepdims=True)
        x_ND = x_ND / np.where(norms == 0, 1, norms)
        found = np.clip(1 - x_ND @ x_ND.T, 0, 2)
    else:
        squares = np.square(x_ND).sum(axis=1)
        # The product rounds: equal vectors may come out a little apart, or closer than nothing.
        found = np.sqrt(np.maximum(squares[:, None] + squares - 2 * x_ND @ x_ND.T, 0))
    found = (found + found.T) / 2
    np.fill_diagonal(found, 0)
    return found


def nearest(distances_NN: np.ndarray, k: int = 5) -> np.ndarray:
    """Indices of the k nearest others, nearest first, int[N, k]; of equals, the earlier. All if k is larger."""
    apart = np.array(distances_NN, np.float64)
    np.fill_diagonal(apart, np.inf)
    return np.argsort(apart, axis=1, kind="stable")[:, : min(k, len(apart) - 1)]


def rank(distances_NN: np.ndarray, one: int, other: int) -> int:
    """The place of `other` among the neighbours of `one`: 1 is the nearest."""
    return int(np.flatnonzero(nearest(distances_NN, len(distances_NN))[one] == other)[0]) + 1


def kin(
    near_Nk: np.ndarray,
    families: Sequence[Hashable],
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Share | None:
    """The share of neighbours of the same family; None when nobody has relatives.

    Args:
      near_Nk: of `nearest`. families: of each vector.
    """
    number = {family: i for i, family in enumerate(dict.fromkeys(families))}
    family_N = np.asarray([number[family] for family in families])

    def share(of: np.ndarray) -> float:
        related = np.bincount(of)[of] > 1
        return float((of[near_Nk[related]] == of[related, None]).mean())

    relatives = int((np.bincount(family_N)[family_N] > 1).sum())
    if not relatives:
        return None
    found, rng = share(family_N), np.random.default_rng(seed)
    dealt = np.asarray([share(rng.permutation(family_N)) for _ in range(permutations)])
    return Share(found, float(dealt.mean()), _p(dealt, found), relatives)


def kept(x_NN: np.ndarray, picture_NN: np.ndarray, k: int = 5) -> float:
    """How true a picture is: the share of the k nearest neighbours that are among the k nearest in it.

    Args:
      x_NN, picture_NN: distances of the vectors, and of their points.
    """
    there, shown = nearest(x_NN, k), nearest(picture_NN, k)
    return float((there[:, :, None] == shown[:, None, :]).any(axis=2).mean())


def mantel(
    one_NN: np.ndarray,
    other_NN: np.ndarray,
    given_NN: np.ndarray | None = None,
    permutations: int = PERMUTATIONS,
    seed: int = 0,
) -> Correlation:
    """Whether two tables of distances between the same things go together (Mantel 1967), by ranks.

    Args:
      given_NN: distances whose linear part is taken out of the ranks of both first: what they do not explain
        (Smouse, Long and Sokal 1986).
      permutations: of the names in `one_NN`. ρ is 0, and p is 1, where one of the tables does not vary.
    """
    count = len(one_NN)
    upper = np.triu_indices(count, 1)
    given = None if given_NN is None else _standard(stats.rankdata(given_NN[upper]))

    def residual(values: np.ndarray) -> np.ndarray:
        standard = _standard(values)
        return standard if given is None else _standard(standard - (standard @ given) / len(given) * given)

    ranks = np.zeros((count, count))
    ranks[upper] = stats.rankdata(np.asarray(one_NN)[upper])
    ranks += ranks.T
    target = residual(stats.rankdata(np.asarray(other_NN)[upper]))
    found, rng = float(residual(ranks[upper]) @ target) / len(target), np.random.default_rng(seed)
    shuffled = []
    for _ in range(permutations):
        order = rng.permutation(count)
        shuffled.append(float(residual(ranks[np.ix_(order, order)][upper]) @ target) / len(target))
    return Correlation(found, _p(np.asarray(shuffled), found))


def tree_distances(positions_NL: np.ndarray) -> np.ndarray:
    """Edges between the nodes of a tree, int[N, N]: up to the last common ancestor and down again.

    Args:
      positions_NL: child index at each level from the root on, −1 below the node (`Tokens.tree_positions`).
    """
    there = positions_NL >= 0
    depth = there.sum(axis=1)
    same = (positions_NL[:, None] == positions_NL[None]) & there[:, None] & there[None]
    common = np.cumprod(same, axis=2).sum(axis=2)
    return depth[:, None] + depth[None] - 2 * common


def parents(positions_NL: np.ndarray) -> np.ndarray:
    """Index of each node's parent, int[N]; −1 for the root and where it is not among the nodes."""
    depth = (positions_NL >= 0).sum(axis=1)
    at = {tuple(row[:d].tolist()): i for i, (row, d) in enumerate(zip(positions_NL, depth, strict=True))}
    return np.asarray([at.get(tuple(row[: d - 1].tolist()), -1) for row, d in zip(positions_NL, depth, strict=True)])


def _p(chance: np.ndarray, found: float) -> float:
    # What was found is itself one of the permutations: p is never 0.
    return float((1 + (chance >= found - 1e-12).sum()) / (1 + len(chance)))


def _standard(values: np.ndarray) -> np.ndarray:
    """Mean 0 and variance 1; zeros where nothing varies."""
    centred = values - values.mean()
    spread = np.sqrt(np.mean(np.square(centred)))
    return centred / spread if spread > 1e-9 * max(1.0, float(np.abs(values).max())) else np.zeros_like(centred)
