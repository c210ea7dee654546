"""The vocabulary of cells of a user's tables: rare values, and which cells a masked model predicts."""

from __future__ import annotations

import json
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import jax.numpy as jnp
import numpy as np
import pytest

from numjax import api, protocols
from numjax.build import build
from numjax.bundled.configs import tabbert
from numjax.config import origin
from numjax.errors import UsageError
from numjax.evals.score import evaluate
from numjax.modes.data import load_data
from numjax.objectives.nll import Objective
from numjax.pipeline import masking
from numjax.pipeline.loader import Loader
from numjax.runtime import shard
from numjax.system import assemble
from numjax.text.vocab import cells
from numjax.train import inherit, step, sums
from numjax.types import Batch, HeadOut, Targets, Tokens

KINDS = {"shop": "label", "amount": "amount", "card": "label"}


def draw_table(rng, rows: int) -> list[list[str]]:
    """Draws rows of a shop (many shops occur once), an amount and one of two cards."""
    return [[str(int(x)), f"{y:.2f}", str(z)] for x, y, z in zip(
        rng.zipf(1.5, rows).clip(0, 10**6), rng.normal(0, 50, rows), rng.integers(0, 2, rows), strict=True
    )]  # fmt: skip


@pytest.mark.parametrize("least", [1, 2, 5])
def test_a_rare_label_is_unknown_in_the_vocabularys_own_table_too(least, rng):
    rows = draw_table(rng, 400)
    counts = Counter(row[0] for row in rows)
    vocabulary = cells.Cells(cells.fit(rows, KINDS, bins=4, least=least))
    shop, amount, card = vocabulary.columns
    assert set(shop.values) == {value for value, n in counts.items() if n >= least}
    unknown = vocabulary.mark(cells.UNKNOWN)
    assert {value: vocabulary.token(0, value) == unknown for value in counts} == {
        v: n < least for v, n in counts.items()
    }
    # `least` does not change the bins: each holds equally many of all amounts.
    assert (amount, card) == cells.Cells(cells.fit(rows, KINDS, bins=4)).columns[1:]
    names = ["shop", "amount", "card"]
    block: dict[str, Any] = dict(columns=names, amounts=["amount"], bins=4, least=least)
    rebuilt = cells.make(map(json.dumps, rows), (), **block)
    assert rebuilt.columns == vocabulary.columns
    with pytest.raises(UsageError, match="least of at least 1"):
        cells.make(map(json.dumps, rows), (), **block | {"least": 0})


def test_an_unknown_cell_is_never_a_target(rng):
    ids = rng.integers(0, 9, 5000).astype(np.int32)
    positions = np.arange(len(ids))
    masking_options = masking.Masking(
        0.15, 0.1, 0.1, False, 8, np.arange(7, dtype=np.int32), np.arange(9) == 3, True, 3
    )
    offsets = np.stack([positions, positions + 1], axis=1)
    mask = masking.mask(masking_options, 0, 0, positions * 0, positions, ids, offsets)
    np.testing.assert_array_equal(mask.chosen, ids != 3)
    assert (ids == 3).any() and 0.05 < mask.hidden.mean() < 0.2


class LogProbHead(protocols.Head):
    """A head whose hidden states are the targets' log-probabilities."""

    def total_log_prob(self, out, targets, weights, allowed):
        del targets, allowed
        return {"token": (out.hidden[..., 0] * weights).sum()}


def test_means_of_columns_are_weighted_by_the_batches_targets(rng):
    """A split's last batch, even of one row, has the weight of its targets; a whole batch has the sum of means."""
    objective = Objective("cells", average="columns", columns=3)

    def loss(log_p, mask):
        ones = jnp.ones(mask.shape, jnp.int32)
        tokens = Tokens(ones, ones, ones)
        targets = Targets(jnp.zeros(mask.shape, jnp.int32), jnp.asarray(mask), None)
        out = HeadOut(jnp.asarray(log_p)[..., None], {})
        return objective({"cells": LogProbHead()}, {"cells": out}, {}, Batch(tokens, targets))

    log_p = -rng.random((9, 6)).astype(np.float32)
    mask = rng.random((9, 6)) < 0.6
    mask[:, 5] = False
    whole = loss(log_p, mask)
    column_means = [(-log_p[:, [c, c + 3]][mask[:, [c, c + 3]]]).mean() for c in range(3)]
    assert float(whole.total / whole.count) == pytest.approx(sum(column_means), rel=1e-6)
    parts = [loss(log_p[rows], mask[rows]) for rows in (slice(8), slice(8, 9))]
    mean = sums.divide(sums.add(*({"x": (p.total, p.count)} for p in parts)))["x"]
    means = [float(p.total / p.count) for p in parts]
    assert mean == pytest.approx(np.average(means, weights=[mask[:8].sum(), mask[8].sum()]), rel=1e-6)


def test_the_loss_is_the_sum_of_its_objectives_over_the_whole_split(tmp_path):
    """The last batch of validation is small; the loss is still the sum of the objectives' metrics."""
    config = tabbert.get_config("smoke,numtok=none")
    with config.unlocked():
        config.data.update(dir=str(tmp_path / "data"), train_size=0)
        config.task.users = 2
    system = assemble(config, tmp_path)
    data = load_data(system, tmp_path, False)
    loader = Loader(data.train, config, seed=0, host_features=system.host_features)
    model = api.Loaded(system, step.init_params(system.model, loader.example_batch(), 0), 0, shard.make_mesh())
    rows = len(data.train) - 1
    assert rows > 30
    metrics, _ = evaluate(system, model.compiled(data.train), model.params, loader.epoch(rows))
    assert set(system.objectives) == {"cells", "number"}
    assert metrics["loss"] == pytest.approx(metrics["cells"] + metrics["number"], rel=1e-6)


@pytest.mark.parametrize(
    ("words", "path", "warning"),
    [
        ("", "", ""),
        (",by=time", "", "by='random' there and 'time' here: its training may have read this run's test split"),
        (",by=time", "other.csv", ""),
    ],
)
def test_a_start_from_a_run_on_other_splits_is_reported(words, path, warning, tmp_path, capsys):
    origin.save_config(tmp_path, tabbert.get_config("smoke").to_dict())
    block = tabbert.get_config(f"smoke,task=fraud{words}").task.to_dict()
    task = build("tasks", block | {"path": path})
    inherit._report_splits(cast(Any, SimpleNamespace(task=task)), tmp_path)
    assert warning in (stderr := capsys.readouterr().err) and bool(stderr) == bool(warning)
