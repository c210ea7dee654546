"""Losses and labels over a split, each example counted once."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from numjax import metrics as sums
from numjax import processes, shard
from numjax.compile import Compiled
from numjax.model import Model
from numjax.nn.numerals import gather
from numjax.objectives import nll
from numjax.step import weights_at
from numjax.system import System
from numjax.types import Batch


def evaluate(
    system: System, compiled: Compiled, params: Any, batches: Iterable[Batch]
) -> tuple[dict[str, float], dict[int, Any]]:
    """(metrics by name, predicted label by example id) over batches that hold each example once.

    Labels come from the head that the task predicts with; a task without one has no predictions here.
    """
    found: dict[str, tuple[Any, Any]] = {}
    predictions: dict[int, Any] = {}
    pending = None
    for batch in batches:
        done = compiled.evaluate(params, shard.put(batch, compiled.mesh))
        if pending is not None:
            found = _read(system, *pending, found, predictions)
        pending = (done, batch)
    if pending is not None:
        found = _read(system, *pending, found, predictions)
    if jax.process_count() > 1:
        predictions = _from_all_processes(predictions)
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
    (head,) = [name for name, head in system.model.heads.items() if hasattr(head, "step_scores")]
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


def _read(system, done, batch, found, predictions):
    metrics, said = jax.device_get(done)
    if said and batch.example_id is not None:
        (log_probs,) = said.values()
        # Every process gets all rows; its own are enough, the rest are gathered once at the end.
        start = jax.process_index() * len(batch.example_id)
        for row, (example, valid) in enumerate(zip(batch.example_id, batch.valid, strict=True)):
            if valid:
                predictions[int(example)] = np.asarray(log_probs[start + row])
    return sums.add(found, metrics)


def _from_all_processes(predictions):
    from jax.experimental import multihost_utils

    ids = np.asarray(sorted(predictions), np.int64)
    # Heads that speak of positions have rows of several lengths, in which −1 says that there is no such position.
    mine = max((len(predictions[i]) for i in ids), default=1)
    rows = np.full((len(ids), mine), -1, np.float32)
    for row, i in zip(rows, ids, strict=True):
        row[: len(predictions[i])] = predictions[i]
    longest = int(multihost_utils.process_allgather(np.asarray(len(ids))).max())
    width = int(multihost_utils.process_allgather(np.asarray(mine)).max())
    padded_ids = np.full(longest, -1, np.int64)
    padded_ids[: len(ids)] = ids
    padded = np.full((longest, width), -1, np.float32)
    padded[: len(ids), : rows.shape[1]] = rows
    all_ids = multihost_utils.process_allgather(padded_ids).reshape(-1)
    all_rows = multihost_utils.process_allgather(padded).reshape(-1, width)
    return {int(i): row for i, row in zip(all_ids, all_rows, strict=True) if i >= 0}
