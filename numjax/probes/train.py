"""Trains the networks of all seeds at once, each with its own initial parameters, split and order of the data.

An epoch is one compiled program: a scan over the batches of every seed, whose examples are places in one table that
stays on the device; then the validation score, and the bookkeeping of early stopping, a seed for itself.

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

EVALUATED = 2048  # examples scored at once


class Network(NamedTuple):
    """What is trained; a static argument of the compiled functions.

    Attributes:
      init: (key, basis[R, D]) → parameters. apply: (parameters, x[B, k, R]) → output.
      loss, score: (output, targets) → [B]; the mean of `score` chooses the epoch, more being better times `sign`.
    """

    init: Callable[..., Any]
    apply: Callable[..., jax.Array]
    loss: Callable[..., jax.Array]
    score: Callable[..., jax.Array]
    sign: int


class Rule(NamedTuple):
    """Stochastic gradient descent with momentum, and when to stop.

    Attributes:
      learning_rate, momentum, batch_size: the usual. clip: largest norm of the gradient, 0 for any.
      epochs: at most. patience: epochs without a better validation score after which a seed stops.
    """

    learning_rate: float = 0.01
    momentum: float = 0.5
    batch_size: int = 20
    clip: float = 0.0
    epochs: int = 1000
    patience: int = 20


class Training(NamedTuple):
    """Of one seed, or with a leading axis S of all.

    Attributes:
      params, velocity: now. best: parameters with the best validation score so far, `best_score` (times the network's
        sign; −inf while none was finite), at epoch `best_epoch`, counted from 1.
      epoch: epochs done. running: whether it goes on; a seed that has stopped stays as it is.
    """

    params: Any
    velocity: Any
    best: Any
    best_score: jax.Array
    best_epoch: jax.Array
    epoch: jax.Array
    running: jax.Array


def start(network: Network, basis_RD: jax.Array, seed: jax.Array) -> Training:
    """Before the first epoch."""
    params = network.init(jax.random.fold_in(jax.random.key(seed), 2**31 - 1), basis_RD)
    zeros = jax.tree.map(jnp.zeros_like, params)
    nothing = jnp.int32(0)
    return Training(params, zeros, params, jnp.float32(-jnp.inf), nothing, nothing, jnp.bool_(True))


def mean_score(network: Network, params: Any, table_VR: jax.Array, examples: Examples) -> jax.Array:
    """The mean of the score over examples, in chunks."""
    count = len(examples.items)
    size = min(EVALUATED, count)
    chunks = -(-count // size)
    at = jnp.arange(chunks * size).reshape(chunks, size)

    def chunk(place):
        safe = jnp.minimum(place, count - 1)
        scores = network.score(network.apply(params, table_VR[examples.items[safe]]), examples.targets[safe])
        return jnp.where(place < count, scores, 0).sum()

    return jax.lax.map(chunk, at).sum() / count


def epoch(
    network: Network, rule: Rule, table_VR: jax.Array, train: Examples, held: Examples, seed: jax.Array, now: Training
) -> Training:
    """One epoch of one seed: every training example once, in an order of its own, then the validation score."""
    count, size = len(train.items), min(rule.batch_size, len(train.items))
    steps = -(-count // size)
    key = jax.random.fold_in(jax.random.key(seed), now.epoch)
    order = jnp.pad(jax.random.permutation(key, count), (0, steps * size - count), constant_values=-1)

    def mean_loss(params, place):
        safe = jnp.maximum(place, 0)
        losses = network.loss(network.apply(params, table_VR[train.items[safe]]), train.targets[safe])
        if steps * size == count:
            return losses.mean()
        # The last batch is a smaller one.
        return jnp.where(place >= 0, losses, 0).sum() / (place >= 0).sum()

    def step(carry, place):
        params, velocity = carry
        grads = jax.grad(mean_loss)(params, place)
        factor = 1.0
        if rule.clip:
            norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
            factor = jnp.minimum(1.0, rule.clip / (norm + 1e-6))
        velocity = jax.tree.map(lambda v, g: rule.momentum * v + factor * g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - rule.learning_rate * v, params, velocity)
        return (params, velocity), None

    (params, velocity), _ = jax.lax.scan(step, (now.params, now.velocity), order.reshape(steps, size))
    score = network.sign * mean_score(network, params, table_VR, held)
    done = now.epoch + 1
    better = score > now.best_score  # never, of a score that is no number
    best_epoch = jnp.where(better, done, now.best_epoch)
    after = Training(
        params,
        velocity,
        best=jax.tree.map(lambda new, old: jnp.where(better, new, old), params, now.best),
        best_score=jnp.where(better, score, now.best_score),
        best_epoch=best_epoch,
        epoch=done,
        running=(done - best_epoch < rule.patience) & (done < rule.epochs),
    )
    return jax.tree.map(lambda new, old: jnp.where(now.running, new, old), after, now)


# Compiled once a network, rule and shape. Matrix products of float32 are float32: targets have five digits.
@functools.partial(jax.jit, static_argnums=0)
def _start_all(network, basis_RD, seeds_S):
    with jax.default_matmul_precision("highest"):
        return jax.vmap(functools.partial(start, network, basis_RD))(seeds_S)


@functools.partial(jax.jit, static_argnums=(0, 1), donate_argnums=6)
def _epoch_all(network, rule, table_VR, train, held, seeds_S, now):
    with jax.default_matmul_precision("highest"):
        return jax.vmap(functools.partial(epoch, network, rule, table_VR))(train, held, seeds_S, now)


@functools.partial(jax.jit, static_argnums=0)
def scores(network: Network, params: Any, table_VR: jax.Array, examples: Examples) -> jax.Array:
    """The mean score of every seed, [S]."""
    with jax.default_matmul_precision("highest"):
        return jax.vmap(lambda p, e: mean_score(network, p, table_VR, e))(params, examples)


def fit(
    network: Network,
    rule: Rule,
    table_VR: np.ndarray,
    basis_RD: np.ndarray,
    train: Examples,
    held: Examples,
    seeds: np.ndarray,
    note: Callable[[Training], None] | None = None,
) -> Training:
    """Trains every seed until it stops; the leading axis of everything is S.

    Args:
      table_VR, basis_RD: of `networks.coordinates`.
      train, held: examples of every seed, [S, N, …].
      seeds: of initial parameters and of the order of the data.
      note: called after each epoch.
    """
    table_VR, train, held, seeds_S = jax.device_put((table_VR, train, held, np.asarray(seeds, np.int32)))
    now = _start_all(network, jnp.asarray(basis_RD), seeds_S)
    # `best` starts as the parameters themselves, which a donated argument may hold but once.
    now = now._replace(best=jax.tree.map(jnp.copy, now.best))
    whole, left = now, np.arange(len(seeds_S))  # `now` is of the seeds `left`
    while (running := np.asarray(now.running)).any():
        if 2 * running.sum() <= len(left):
            # What has stopped is computed no longer. Halving, since each count of seeds is a compilation.
            whole, on = _put(whole, now, left), np.flatnonzero(running)
            now, train, held, seeds_S = jax.tree.map(lambda x, on=on: x[on], (now, train, held, seeds_S))
            left = left[on]
        now = _epoch_all(network, rule, table_VR, train, held, seeds_S, now)
        if note is not None:
            note(_put(whole, now, left))
    return _put(whole, now, left)


def _put(whole: Training, part: Training, at: np.ndarray) -> Training:
    """`whole` with the seeds `at` as they are in `part`."""
    return part if len(at) == len(whole.running) else jax.tree.map(lambda w, p: w.at[at].set(p), whole, part)
