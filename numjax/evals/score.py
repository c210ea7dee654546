"""Losses and predictions over a split, each example counted once."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numjax.model import Model
from numjax.nn.numerals import gather
from numjax.runtime import processes, shard
from numjax.system import System
from numjax.train import sums
from numjax.train.compile import Compiled
from numjax.train.step import weights_at
from numjax.types import Batch


def evaluate(
    system: System, compiled: Compiled, params: Any, batches: Iterable[Batch]
) -> tuple[dict[str, float], dict[int, Any]]:
    """(metrics by name, example id → output of the predicting head), on every process. The batches have each example
    once.

    Without a head that predicts rows, there are no outputs here.
    """
    metric_sums: dict[str, tuple[Any, Any]] = {}
    predictions: dict[int, Any] = {}
    pending = None
    for batch in batches:
        result = compiled.evaluate(params, shard.put(batch, compiled.mesh))
        if pending is not None:
            metric_sums = _collect(pending, metric_sums, predictions)
        pending = result
    if pending is not None:
        metric_sums = _collect(pending, metric_sums, predictions)
    means = sums.divide(metric_sums)
    if len(system.objectives) > 1 and all(name in metric_sums for name in system.objectives):
        # The loss over the whole split: the batches have different counts for each objective, so their losses cannot
        # be averaged.
        weights = weights_at(system.weights, None)
        counted_names = [name for name in system.objectives if metric_sums[name][1]]
        means["loss"] = float(sum(weights[name] * means[name] for name in counted_names))
    for name, objective in system.objectives.items():
        if objective.has_perplexity:
            means |= sums.perplexity(means, name, has_density=f"{name}/mass" in means)
    return means, predictions


def log_likelihoods(system: System, params: Any, mesh: Any, batches: Iterable[Batch], count: int) -> np.ndarray:
    """`row_log_prob` of each of `count` examples by the language model's head, float32[count], on every process."""
    head = system.model.writer
    out = np.zeros(count, np.float32)
    batch: Any
    for batch in batches:
        device_batch = shard.put(batch, mesh)
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            rows = processes.fetch(row_log_prob(system.model, head, params, device_batch))
        ids, valid = (processes.fetch(x) for x in (device_batch.example_id, device_batch.valid))
        out[ids[valid]] = rows[valid]
    return out


@functools.partial(jax.jit, static_argnames=("model", "head"))
def row_log_prob(model: Model, head: str, params: Any, batch: Batch) -> jax.Array:
    """Log-likelihood of each row's scored positions under a language model's head, float32[B].

    If the head mixes densities with masses, so does the sum.
    """
    outs, _ = model.apply({"params": params}, batch)
    targets: Any = batch.targets
    if targets.numeral_index is not None and batch.inputs.numerals is not None:
        targets = targets._replace(numerals=gather(batch.inputs.numerals, targets.numeral_index))
    parts = model.heads[head].log_prob(outs[head], targets)
    return jnp.where(targets.mask, sum(parts.values()), 0.0).sum(axis=1)


def _collect(result, metric_sums, predictions):
    metrics, outputs, ids, valid = jax.device_get(result)
    if outputs and ids is not None:
        (log_probs,) = outputs.values()
        # Every process has all rows of the batch, since their distribution over processes depends on the mesh.
        for row in np.flatnonzero(valid):
            predictions[int(ids[row])] = log_probs[row]
    return sums.add(metric_sums, metrics)
