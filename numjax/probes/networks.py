"""The networks of the probes, as pure functions, in coordinates in which frozen vectors are short.

Legend: B examples, k numbers an example, D width of the vectors, R their rank, H hidden width, V numbers.

Vectors of a smooth code fill few of their dimensions: of DICE-D's 300 about 25 hold all that float32 can. What a
first layer has outside the vectors' span never matters and never moves, and gradient descent with momentum and
clipping by the norm is the same in any orthonormal coordinates. So training in the R coordinates of the span, from
the same initial network seen there, is the same training.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from numjax.nn import lstm

Params = dict[str, Any]


def coordinates(vectors_VD: np.ndarray, tolerance: float = 1e-7) -> tuple[np.ndarray, np.ndarray]:
    """(float32[V, R], float32[R, D]): vectors = the first @ the second, up to `tolerance` of the longest vector."""
    vectors_VD = np.asarray(vectors_VD, np.float64)
    with threadpool_limits(1):  # more threads only wait for each other where others compute too
        left, sizes, basis = np.linalg.svd(vectors_VD, full_matrices=False)
    scaled = left * sizes
    # lost[r]: the longest part of a vector that the first r coordinates leave out.
    lost = np.sqrt(np.cumsum(np.square(scaled[:, ::-1]), axis=1)[:, ::-1].max(axis=0))
    longest = np.linalg.norm(vectors_VD, axis=1).max()
    rank = max(1, int((lost > tolerance * longest).sum()))
    if rank >= vectors_VD.shape[1]:
        return vectors_VD.astype(np.float32), np.eye(vectors_VD.shape[1], dtype=np.float32)
    return scaled[:, :rank].astype(np.float32), basis[:rank].astype(np.float32)


def _uniform(key: jax.Array, fan_in: int, *shape: int) -> jax.Array:
    return lstm.uniform(fan_in)(key, shape)


def init_mlp(key: jax.Array, basis_RD: jax.Array, numbers: int, hidden: int, layers: int, outputs: int = 1) -> Params:
    """A perceptron k·D → H → … → outputs with `layers` hidden layers; 0 makes it linear. Uniform over ±1/√fan_in."""
    width, params = basis_RD.shape[1], {}
    widths = [numbers * width, *[hidden] * layers, outputs]
    for layer, (fan_in, out) in enumerate(itertools.pairwise(widths)):
        key, of_kernel, of_bias = jax.random.split(key, 3)
        kernel = _uniform(of_kernel, fan_in, fan_in, out)
        if layer == 0:
            kernel = jnp.einsum("rd,kdh->krh", basis_RD, kernel.reshape(numbers, width, out))
        params[f"layer_{layer}"] = {"kernel": kernel, "bias": _uniform(of_bias, fan_in, out)}
    return params


def perceptron(params: Params, x_BkR: jax.Array) -> jax.Array:
    """float32[B, outputs]."""
    x = x_BkR.reshape(len(x_BkR), -1)
    for layer in range(len(params)):
        kernel = params[f"layer_{layer}"]["kernel"]
        x = jax.nn.relu(x) if layer else x
        x = x @ kernel.reshape(-1, kernel.shape[-1]) + params[f"layer_{layer}"]["bias"]
    return x


def mlp(params: Params, x_BkR: jax.Array) -> jax.Array:
    """`perceptron` of one output, float32[B]."""
    return perceptron(params, x_BkR)[:, 0]


def init_chooser(key: jax.Array, basis_RD: jax.Array, hidden: int) -> Params:
    """A BiLSTM of H each way over a list, and a linear score of each of its states."""
    params: Params = {}
    for way in ("forward", "backward"):
        for part, shape in lstm.shapes(basis_RD.shape[1], hidden).items():
            key, mine = jax.random.split(key)
            params[f"{way}_{part}"] = _uniform(mine, hidden, *shape)
        params[f"{way}_input_kernel"] = basis_RD @ params[f"{way}_input_kernel"]
    of_kernel, of_bias = jax.random.split(key)
    return params | {"kernel": _uniform(of_kernel, 2 * hidden, 2 * hidden), "bias": _uniform(of_bias, 2 * hidden)}


def chooser(params: Params, x_BkR: jax.Array) -> jax.Array:
    """Scores of the k places, float32[B, k]."""
    parts = ("input_kernel", "recurrent_kernel", "bias")
    there, back = (lstm.Weights(*(params[f"{way}_{p}"] for p in parts)) for way in ("forward", "backward"))
    # Of so short a list the loop is a fifth of the time on CPU.
    (forward, _), (backward, _) = lstm.bidirectional(x_BkR, there, back, unroll=x_BkR.shape[1])
    hidden = forward.shape[-1]
    return forward @ params["kernel"][:hidden] + backward @ params["kernel"][hidden:] + params["bias"]


def squared_error(found_B: jax.Array, targets_B: jax.Array) -> jax.Array:
    """(found − target)²[B]."""
    return jnp.square(found_B - targets_B)


def cross_entropy(scores_Bk: jax.Array, targets_B: jax.Array) -> jax.Array:
    """−log p(target)[B]."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores_Bk), targets_B[:, None], axis=1)[:, 0]


def right(scores_Bk: jax.Array, targets_B: jax.Array) -> jax.Array:
    """1 where the largest score is the target's, float32[B]."""
    return (scores_Bk.argmax(axis=1) == targets_B).astype(jnp.float32)
