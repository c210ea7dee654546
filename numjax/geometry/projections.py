"""Projections of vectors to the plane: principal components and t-SNE. Same vectors and seed, same picture.

Legend: N vectors, D their width, d axes of the picture.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np

from numjax.errors import UsageError

PERPLEXITY = 10.0  # MathGPT, appendix A


class PrincipalComponents(NamedTuple):
    """Principal components.

    Attributes:
      points: float64[N, d]. axes: float64[d, D], orthonormal. share: float64[d], share of the variance.
      centre: float64[D]; points = (x − centre) axesᵀ.
    """

    points: np.ndarray
    axes: np.ndarray
    share: np.ndarray
    centre: np.ndarray


def pca(x_ND: np.ndarray, axes: int = 2) -> PrincipalComponents:
    """Principal components: the directions of largest variance. The largest entry of each axis is positive.

    Raises:
      UsageError: more axes than vectors or dimensions, or vectors that are not finite.
    """
    x_ND = _check_vectors(x_ND)
    if not 1 <= axes <= min(x_ND.shape):
        raise UsageError(f"{axes} axes of {len(x_ND)} vectors of width {x_ND.shape[1]}: at most {min(x_ND.shape)}")
    centre = x_ND.mean(axis=0)
    _, sizes, directions = np.linalg.svd(x_ND - centre, full_matrices=False)
    directions = directions[:axes]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1)[:, None], axis=1)
    directions = directions * np.where(largest < 0, -1.0, 1.0)
    variance = np.square(sizes)
    share = variance[:axes] / variance.sum() if variance.sum() else np.zeros(axes)
    return PrincipalComponents((x_ND - centre) @ directions.T, directions, share, centre)


def tsne(x_ND: np.ndarray, perplexity: float = PERPLEXITY, seed: int = 0, axes: int = 2) -> np.ndarray:
    """t-SNE (van der Maaten and Hinton 2008) by scikit-learn, float64[N, d].

    It starts from random points: from principal components, every seed would give the same picture.

    Args:
      perplexity: roughly how many neighbours count; lowered for few vectors, see `limit_perplexity`.

    Raises:
      UsageError: fewer than three vectors, or vectors that are not finite.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits  # a dependency of scikit-learn

    x_ND = _check_vectors(x_ND)
    model = TSNE(axes, perplexity=limit_perplexity(len(x_ND), perplexity), init="random", random_state=seed)
    # Hundreds of points are too few for threads: on a busy machine they wait for each other a hundred times longer.
    with threadpool_limits(limits=1), warnings.catch_warnings():
        # If all vectors are equal they have no scale; the picture is then empty.
        warnings.simplefilter("ignore", RuntimeWarning)
        return model.fit_transform(x_ND.astype(np.float32)).astype(np.float64)


def limit_perplexity(count: int, perplexity: float = PERPLEXITY) -> float:
    """Limits the perplexity of t-SNE for `count` vectors: at most half of the other vectors.

    Raises:
      UsageError: fewer than three vectors.
    """
    if count < 3:
        raise UsageError(f"{count} vectors make no picture: give three or more")
    return min(perplexity, (count - 1) / 2)


def _check_vectors(x_ND: np.ndarray) -> np.ndarray:
    x_ND = np.asarray(x_ND, np.float64)
    if x_ND.ndim != 2 or not np.isfinite(x_ND).all():
        raise UsageError("a picture needs an array of two axes with finite vectors")
    return x_ND
