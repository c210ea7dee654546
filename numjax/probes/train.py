"""Trains the networks of all seeds at once, each with its own initial parameters, split and order of the data.

An epoch is one compiled program: a scan over the batches of every seed, then the validation score and early stopping
of each seed. Examples are indices into one table, which stays on the device.

Legend: S seeds, N examples, k numbers an example, V numbers, R width of the table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from numjax.probes.examples import Examples

CHUNK = 2048  # examples scored at once


class Network(NamedTuple):
    """A network with its loss and score; a static argument of the compiled functions.

    Attributes:
      init: (key, basis[R, D]) → parameters. apply: (parameters, x[B, k, R]) → output.
      loss, score: (output, targets) → [B]. The best epoch has the largest `sign` · mean of `score`.
    """

    init: Callable[..., Any]
    apply: Callable[..., jax.Array]
    loss: Callable[..., jax.Array]
    score: Callable[..., jax.Array]
    sign: int


class SGDOptions(NamedTuple):
    """Options of stochastic gradient descent with momentum and early stopping.

    Attributes:
      learning_rate, momentum, batch_size: as usual. clip: largest norm of the gradient; 0 means no clipping.
      epochs: the most epochs. patience: a seed stops after so many epochs without a better validation score.
    """

    learning_rate: float = 0.01
    momentum: float = 0.5
    batch_size: int = 20
    clip: float = 0.0
    epochs: int = 1000
    patience: int = 20


class Training(NamedTuple):
    """The training state of one seed, or of all seeds with a leading axis S.

    Attributes:
      params, velocity: current parameters and momentum. best: the parameters with the best validation score so far.
      best_score: that score, times the network's sign; −inf until a score is finite. best_epoch: its epoch, from 1.
      epoch: epochs trained so far. running: whether the seed continues; a stopped seed does not change.
    """

    params: Any
    velocity: Any
    best: Any
    best_score: jax.Array
    best_epoch: jax.Array
    epoch: jax.Array
    running: jax.Array


def init_training(network: Network, basis_RD: jax.Array, seed: jax.Array) -> Training:
    """Initialises the state before the first epoch."""
    params = network.init(jax.random.fold_in(jax.random.key(seed), 2**31 - 1), basis_RD)
    zeros = jax.tree.map(jnp.zeros_like, params)
    zero = jnp.int32(0)
    return Training(params, zeros, params, jnp.float32(-jnp.inf), zero, zero, jnp.bool_(True))


def mean_score(network: Network, params: Any, table_VR: jax.Array, examples: Examples) -> jax.Array:
    """The mean score over examples, computed in chunks."""
    count = len(examples.items)
    size = min(CHUNK, count)
    chunks = -(-count // size)
    indices = jnp.arange(chunks * size).reshape(chunks, size)

    def score_chunk(positions):
        safe = jnp.minimum(positions, count - 1)
        scores = network.score(network.apply(params, table_VR[examples.items[safe]]), examples.targets[safe])
        return jnp.where(positions < count, scores, 0).sum()

    return jax.lax.map(score_chunk, indices).sum() / count


def run_epoch(
    network: Network,
    options: SGDOptions,
    table_VR: jax.Array,
    train: Examples,
    validation: Examples,
    seed: jax.Array,
    training: Training,
) -> Training:
    """Runs one epoch of one seed: every training example once, in the seed's order, then the validation score."""
    count, size = len(train.items), min(options.batch_size, len(train.items))
    steps = -(-count // size)
    key = jax.random.fold_in(jax.random.key(seed), training.epoch)
    order = jnp.pad(jax.random.permutation(key, count), (0, steps * size - count), constant_values=-1)

    def mean_loss(params, positions):
        safe = jnp.maximum(positions, 0)
        losses = network.loss(network.apply(params, table_VR[train.items[safe]]), train.targets[safe])
        if steps * size == count:
            return losses.mean()
        # The last batch is smaller.
        return jnp.where(positions >= 0, losses, 0).sum() / (positions >= 0).sum()

    def step(carry, positions):
        params, velocity = carry
        grads = jax.grad(mean_loss)(params, positions)
        factor = 1.0
        if options.clip:
            norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
            factor = jnp.minimum(1.0, options.clip / (norm + 1e-6))
        velocity = jax.tree.map(lambda v, g: options.momentum * v + factor * g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - options.learning_rate * v, params, velocity)
        return (params, velocity), None

    (params, velocity), _ = jax.lax.scan(step, (training.params, training.velocity), order.reshape(steps, size))
    score = network.sign * mean_score(network, params, table_VR, validation)
    n_epochs = training.epoch + 1
    is_better = score > training.best_score  # false if the score is NaN
    best_epoch = jnp.where(is_better, n_epochs, training.best_epoch)
    next_training = Training(
        params,
        velocity,
        best=jax.tree.map(lambda new, old: jnp.where(is_better, new, old), params, training.best),
        best_score=jnp.where(is_better, score, training.best_score),
        best_epoch=best_epoch,
        epoch=n_epochs,
        running=(n_epochs - best_epoch < options.patience) & (n_epochs < options.epochs),
    )
    return jax.tree.map(lambda new, old: jnp.where(training.running, new, old), next_training, training)


# Compiled once for each network, options and shape. Matrix products use full float32: targets have five digits.
@functools.partial(jax.jit, static_argnums=0)
def _init_all(network, basis_RD, seeds_S):
    with jax.default_matmul_precision("highest"):
        return jax.vmap(functools.partial(init_training, network, basis_RD))(seeds_S)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=6)
def _run_epoch_all(network, options, table_VR, train, validation, seeds_S, training):
    with jax.default_matmul_precision("highest"):
        return jax.vmap(functools.partial(run_epoch, network, options, table_VR))(
            train, validation, seeds_S, training
        )


@functools.partial(jax.jit, static_argnums=0)
def scores(network: Network, params: Any, table_VR: jax.Array, examples: Examples) -> jax.Array:
    """The mean score of each seed, [S]."""
    with jax.default_matmul_precision("highest"):
        return jax.vmap(lambda p, e: mean_score(network, p, table_VR, e))(params, examples)


def fit(
    network: Network,
    options: SGDOptions,
    table_VR: np.ndarray,
    basis_RD: np.ndarray,
    train: Examples,
    validation: Examples,
    seeds: np.ndarray,
    note: Callable[[Training], None] | None = None,
) -> Training:
    """Trains every seed until it stops; returns the final state with leading axis S.

    Args:
      table_VR, basis_RD: from `networks.find_coordinates`.
      train, validation: examples of every seed, [S, N, …].
      seeds: of initial parameters and of the order of the data.
      note: called after each epoch with the state.
    """
    table_VR, train, validation, seeds_S = jax.device_put((table_VR, train, validation, np.asarray(seeds, np.int32)))
    active = _init_all(network, jnp.asarray(basis_RD), seeds_S)
    # `best` starts as the same arrays as `params`. A donated argument must not hold an array twice, so copy it.
    active = active._replace(best=jax.tree.map(jnp.copy, active.best))
    training, seed_indices = active, np.arange(len(seeds_S))  # `active` has the seeds `seed_indices`
    while (running := np.asarray(active.running)).any():
        if 2 * running.sum() <= len(seed_indices):
            # Drop stopped seeds. Only at each halving, since each new count of seeds is compiled anew.
            training, still_running = _merge(training, active, seed_indices), np.flatnonzero(running)
            active, train, validation, seeds_S = jax.tree.map(
                lambda x, still_running=still_running: x[still_running], (active, train, validation, seeds_S)
            )
            seed_indices = seed_indices[still_running]
        active = _run_epoch_all(network, options, table_VR, train, validation, seeds_S, active)
        if note is not None:
            note(_merge(training, active, seed_indices))
    return _merge(training, active, seed_indices)


def _merge(training: Training, active: Training, seed_indices: np.ndarray) -> Training:
    """Puts the state `active` of the seeds `seed_indices` into `training`."""
    return (
        active
        if len(seed_indices) == len(training.running)
        else jax.tree.map(lambda w, p: w.at[seed_indices].set(p), training, active)
    )
