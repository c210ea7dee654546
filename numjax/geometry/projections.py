"""Vectors in the plane: principal components and t-SNE, the same picture for the same numbers and seed.

Legend: N vectors, D their width, d axes of the picture.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError

PERPLEXITY = 10.0  # MathGPT, appendix A


class Principal(NamedTuple):
    """Principal components.

    Attributes:
      points: float64[N, d]. axes: float64[d, D], orthonormal. share: float64[d], of the variance.
      centre: float64[D]; points = (x − centre) axesᵀ.
    """

    points: np.ndarray
    axes: np.ndarray
    share: np.ndarray
    centre: np.ndarray


def pca(x_ND: np.ndarray, axes: int = 2) -> Principal:
    """The directions of largest variance; of each axis the entry of largest size is positive.

    Raises:
      UsageError: more axes than the vectors span at most, or numbers that are not finite.
    """
    x_ND = _checked(x_ND)
    if not 1 <= axes <= min(x_ND.shape):
        raise UsageError(f"{axes} axes of {len(x_ND)} vectors of width {x_ND.shape[1]}: at most {min(x_ND.shape)}")
    centre = x_ND.mean(axis=0)
    _, sizes, found = np.linalg.svd(x_ND - centre, full_matrices=False)
    found = found[:axes]
    largest = np.take_along_axis(found, np.abs(found).argmax(axis=1)[:, None], axis=1)
    found = found * np.where(largest < 0, -1.0, 1.0)
    variance = np.square(sizes)
    share = variance[:axes] / variance.sum() if variance.sum() else np.zeros(axes)
    return Principal((x_ND - centre) @ found.T, found, share, centre)


def tsne(x_ND: np.ndarray, perplexity: float = PERPLEXITY, seed: int = 0, axes: int = 2) -> np.ndarray:
    """t-SNE (van der Maaten and Hinton 2008) by scikit-learn, float64[N, d].

    It starts at random, since from principal components every seed gives the same picture.

    Args:
      perplexity: about how many neighbours count; lowered for few vectors, see `perplexity_of`.

    Raises:
      UsageError: fewer than three vectors, or numbers that are not finite.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # scikit-learn's own

    x_ND = _checked(x_ND)
    made = TSNE(axes, perplexity=perplexity_of(len(x_ND), perplexity), init="random", random_state=seed)
    # Hundreds of points are too few for threads, which on a busy machine wait for each other a hundred times longer.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # Vectors that are all the same have no scale; the picture is as empty as they are.
        warnings.simplefilter("ignore", RuntimeWarning)
        return made.fit_transform(x_ND.astype(np.float32)).astype(np.float64)


def perplexity_of(count: int, wanted: float = PERPLEXITY) -> float:
    """What t-SNE of `count` vectors is made with: half of the others at most.

    Raises:
      UsageError: fewer than three vectors.
    """
    if count < 3:
        raise UsageError(f"{count} vectors make no picture: give three or more")
    return min(wanted, (count - 1) / 2)


def _checked(x_ND: np.ndarray) -> np.ndarray:
    x_ND = np.asarray(x_ND, np.float64)
    if x_ND.ndim != 2 or not np.isfinite(x_ND).all():
        raise UsageError("a picture is made of finite vectors, an array of two axes")
    return x_ND
