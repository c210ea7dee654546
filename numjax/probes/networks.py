"""The networks of the probes, as pure functions, in coordinates that make frozen vectors short.

Legend: B examples, k numbers an example, D width of the vectors, R their rank, H hidden width, V numbers.

Smooth vectors of numbers span few dimensions: about 25 of DICE-D's 300 hold all that float32 can represent. Weights
of the first layer outside the span never matter and never change. Gradient descent with momentum and clipping by the
norm is the same in any orthonormal coordinates. So training in the R coordinates of the span, from the same initial
network in these coordinates, is the same training.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

from numjax.nn import lstm
from numjax.nn.einsum import einsum

Params = dict[str, Any]


def find_coordinates(vectors_VD: np.ndarray, tolerance: float = 1e-7) -> tuple[np.ndarray, np.ndarray]:
    """Finds coordinates and their basis, (float32[V, R], float32[R, D]).

    vectors = coordinates @ basis, up to `tolerance` times the length of the longest vector.
    """
    vectors_VD = np.asarray(vectors_VD, np.float64)
    with threadpool_limits(1):  # on a busy machine, more threads only wait for each other
        left_vectors, sizes, basis = np.linalg.svd(vectors_VD, full_matrices=False)
    scaled = left_vectors * sizes
    # remainders[r]: the largest length that the first r coordinates miss of a vector.
    remainders = np.sqrt(np.cumsum(np.square(scaled[:, ::-1]), axis=1)[:, ::-1].max(axis=0))
    longest = np.linalg.norm(vectors_VD, axis=1).max()
    rank = max(1, int((remainders > tolerance * longest).sum()))
    if rank >= vectors_VD.shape[1]:
        return vectors_VD.astype(np.float32), np.eye(vectors_VD.shape[1], dtype=np.float32)
    return scaled[:, :rank].astype(np.float32), basis[:rank].astype(np.float32)


def _uniform(key: jax.Array, fan_in: int, *shape: int) -> jax.Array:
    return lstm.uniform(fan_in)(key, shape)


def init_mlp(key: jax.Array, basis_RD: jax.Array, numbers: int, hidden: int, layers: int, outputs: int = 1) -> Params:
    """Initialises a perceptron k·D → H → … → outputs, uniform in ±1/√fan_in. `layers`: hidden layers; 0 is linear."""
    width, params = basis_RD.shape[1], {}
    widths = [numbers * width, *[hidden] * layers, outputs]
    for layer, (fan_in, out) in enumerate(itertools.pairwise(widths)):
        key, kernel_key, bias_key = jax.random.split(key, 3)
        kernel = _uniform(kernel_key, fan_in, fan_in, out)
        if layer == 0:
            kernel = einsum("rd,kdh->krh", basis_RD, kernel.reshape(numbers, width, out))
        params[f"layer_{layer}"] = {"kernel": kernel, "bias": _uniform(bias_key, fan_in, out)}
    return params


def perceptron(params: Params, x_BkR: jax.Array) -> jax.Array:
    """Output of a perceptron, float32[B, outputs]."""
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
    """Initialises a BiLSTM over a list, of width H in each direction, and a linear score of each state."""
    params: Params = {}
    for direction in ("forward", "backward"):
        for part, shape in lstm.shapes(basis_RD.shape[1], hidden).items():
            key, part_key = jax.random.split(key)
            params[f"{direction}_{part}"] = _uniform(part_key, hidden, *shape)
        params[f"{direction}_input_kernel"] = basis_RD @ params[f"{direction}_input_kernel"]
    kernel_key, bias_key = jax.random.split(key)
    return params | {"kernel": _uniform(kernel_key, 2 * hidden, 2 * hidden), "bias": _uniform(bias_key, 2 * hidden)}


def chooser(params: Params, x_BkR: jax.Array) -> jax.Array:
    """Scores of the k numbers of a list, float32[B, k]."""
    parts = ("input_kernel", "recurrent_kernel", "bias")
    forward_weights, backward_weights = (
        lstm.LstmWeights(*(params[f"{direction}_{p}"] for p in parts)) for direction in ("forward", "backward")
    )
    # Unrolled: the loop over so short a list takes a fifth of the time on CPU.
    (forward, _), (backward, _) = lstm.run_bidirectional(
        x_BkR, forward_weights, backward_weights, unroll=x_BkR.shape[1]
    )
    hidden = forward.shape[-1]
    return forward @ params["kernel"][:hidden] + backward @ params["kernel"][hidden:] + params["bias"]


def squared_error(predictions_B: jax.Array, targets_B: jax.Array) -> jax.Array:
    """(prediction − target)², float32[B]."""
    return jnp.square(predictions_B - targets_B)


def cross_entropy(scores_Bk: jax.Array, targets_B: jax.Array) -> jax.Array:
    """−log p(target), float32[B]."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores_Bk), targets_B[:, None], axis=1)[:, 0]


def is_correct(scores_Bk: jax.Array, targets_B: jax.Array) -> jax.Array:
    """1 where the target has the largest score, else 0, float32[B]."""
    return (scores_Bk.argmax(axis=1) == targets_B).astype(jnp.float32)
