"""Losses and labels over a split, each example counted once."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numjax.model import Model
from numjax.nn.numerals import gather
from numjax.objectives import nll
from numjax.runtime import processes, shard
from numjax.system import System
from numjax.train import sums
from numjax.train.compile import Compiled
from numjax.train.step import weights_at
from numjax.types import Batch


def evaluate(
    system: System, compiled: Compiled, params: Any, batches: Iterable[Batch]
) -> tuple[dict[str, float], dict[int, Any]]:
    """(metrics by name, what is said of each example by its id) over batches that hold each once; on every process.

    Labels come from the head that the task predicts with; a task without one has no predictions here.
    """
    found: dict[str, tuple[Any, Any]] = {}
    predictions: dict[int, Any] = {}
    pending = None
    for batch in batches:
        done = compiled.evaluate(params, shard.put(batch, compiled.mesh))
        if pending is not None:
            found = _read(pending, found, predictions)
        pending = done
    if pending is not None:
        found = _read(pending, found, predictions)
    means = sums.divide(found)
    if len(system.objectives) > 1 and all(name in found for name in system.objectives):
        # Of the whole split, whatever its batches are: they have not as many positions of each.
        weights = weights_at(system.weights, None)
        asked = [name for name in system.objectives if found[name][1]]
        means["loss"] = float(sum(weights[name] * means[name] for name in asked))
    for name, objective in system.objectives.items():
        if isinstance(objective, nll.Objective) and objective.label is None and not objective.whole_batch:
            means |= sums.perplexity(means, name, has_density=f"{name}/mass" in means)
    return means, predictions


def log_likelihoods(system: System, params: Any, mesh: Any, batches: Iterable[Batch], count: int) -> np.ndarray:
    """`row_log_prob` of each of `count` examples under the head that writes, float32[count], on every process."""
    head = system.model.writer
    out = np.zeros(count, np.float32)
    batch: Any
    for batch in batches:
        placed = shard.put(batch, mesh)
        with jax.sharding.use_abstract_mesh(mesh.abstract_mesh):
            rows = processes.fetch(row_log_prob(system.model, head, params, placed))
        ids, valid = (processes.fetch(x) for x in (placed.example_id, placed.valid))
        out[ids[valid]] = rows[valid]
    return out


@functools.partial(jax.jit, static_argnames=("model", "head"))
def row_log_prob(model: Model, head: str, params: Any, batch: Batch) -> jax.Array:
    """Log-likelihood of each row's scored positions under a language model's head, float32[B].

    Where the head mixes densities with masses, so does the sum.
    """
    outs, _ = model.apply({"params": params}, batch)
    targets: Any = batch.targets
    if targets.numeral_index is not None and batch.inputs.numerals is not None:
        targets = targets._replace(numerals=gather(batch.inputs.numerals, targets.numeral_index))
    parts = model.heads[head].log_prob(outs[head], targets)
    return jnp.where(targets.mask, sum(parts.values()), 0.0).sum(axis=1)


def _read(done, found, predictions):
    metrics, said, ids, valid = jax.device_get(done)
    if said and ids is not None:
        (log_probs,) = said.values()
        # All rows of the batch, on every process: which are whose depends on the mesh.
        for row in np.flatnonzero(valid):
            predictions[int(ids[row])] = log_probs[row]
    return sums.add(found, metrics)
