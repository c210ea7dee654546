"""Scores of a split: each row's likelihood is its part of the loss, and losses are weighed over all batches."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from numjax.build import build
from numjax.evals import score
from numjax.evals.score import evaluate, row_log_prob
from tests import drawn


@pytest.mark.parametrize("head", [{"name": "token"}, {"name": "mixture"}])
def test_a_rows_likelihood_is_its_share_of_the_loss(rng, head):
    batch = drawn.draw_batch(rng)
    model = drawn.build_model({"name": "prototype"}, head)
    params = drawn.draw_params(model, rng, batch, scale=0.3)
    (name,) = model.heads
    rows = np.asarray(row_log_prob.__wrapped__(model, name, params, batch))  # not compiled: dicts have no hash
    objective = build("objectives", {"name": "nll", "head": name}, **drawn.CONTEXT)
    outs, acts = model.apply({"params": params}, batch)
    assert rows.shape == (3,)
    for row in range(3):
        mask = batch.targets.mask & (np.arange(3)[:, None] == row)
        alone = objective(model.heads, outs, acts, batch._replace(targets=batch.targets._replace(mask=mask)))
        assert float(alone.total) == pytest.approx(-rows[row], rel=1e-4)


def test_the_loss_of_a_split_weighs_objectives_by_all_that_they_counted(monkeypatch):
    """The sums of all batches are divided last; an objective that counted nothing is left out."""
    first = {"loss": (1.0, 1.0), "a": (2.0, 4.0), "b": (3.0, 1.0), "c": (0.0, 0.0)}
    second = {"loss": (9.0, 1.0), "a": (8.0, 1.0), "b": (1.0, 3.0), "c": (0.0, 0.0)}
    results = [
        (first, {"h": np.float32([1, 2])}, [5, 6], [1, 0]),
        (second, {"h": np.float32([3, 4])}, [7, 8], [1, 1]),
    ]
    objective = SimpleNamespace(has_perplexity=False)
    system = SimpleNamespace(objectives=dict.fromkeys("abc", objective), weights={"a": 0.5, "b": 2.0, "c": 1.0})
    monkeypatch.setattr(score.shard, "put", lambda batch, mesh: batch)
    compiled = SimpleNamespace(mesh=None, evaluate=lambda params, batch: results[batch])
    means, predictions = evaluate(system, compiled, None, iter([0, 1]))
    assert means["a"] == 10 / 5 and means["b"] == 4 / 4
    assert means["loss"] == pytest.approx(0.5 * 10 / 5 + 2.0 * 4 / 4)
    assert predictions == {5: 1.0, 7: 3.0, 8: 4.0}, "each valid row under its own id"
    two = SimpleNamespace(objectives=dict.fromkeys("ab", objective), weights=system.weights)
    assert evaluate(two, compiled, None, iter([0, 1]))[0]["loss"] == means["loss"]
    one = SimpleNamespace(objectives={"a": objective}, weights=system.weights)
    assert evaluate(one, compiled, None, iter([0, 1]))[0]["loss"] == 10 / 2, "of one objective its own"
    assert evaluate(one, compiled, None, iter([])) == ({}, {})
