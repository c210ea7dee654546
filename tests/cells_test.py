"""The vocabulary of cells of one's own tables: rare values, and what of them a masked model is asked."""

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
from numjax.objectives.nll import Objective
from numjax.pipeline import masking
from numjax.pipeline.loader import Loader
from numjax.runtime import shard
from numjax.system import assemble
from numjax.text.vocab import cells
from numjax.train import inherit, step, sums
from numjax.train.runs import load_data
from numjax.types import Batch, HeadOut, Targets, Tokens

KINDS = {"shop": "label", "amount": "amount", "card": "label"}


def table(rng, rows: int) -> list[list[str]]:
    """Shops of which many stand once, amounts, and two cards."""
    return [[str(int(x)), f"{y:.2f}", str(z)] for x, y, z in zip(
        rng.zipf(1.5, rows).clip(0, 10**6), rng.normal(0, 50, rows), rng.integers(0, 2, rows), strict=True
    )]  # fmt: skip


@pytest.mark.parametrize("least", [1, 2, 5])
def test_a_rare_label_is_unknown_where_the_vocabulary_is_from_too(least, rng):
    rows = table(rng, 400)
    counts = Counter(row[0] for row in rows)
    made = cells.Cells(cells.fit(rows, KINDS, bins=4, least=least))
    shop, amount, card = made.columns
    assert set(shop.values) == {value for value, n in counts.items() if n >= least}
    unknown = made.mark(cells.UNKNOWN)
    assert {value: made.token(0, value) == unknown for value in counts} == {v: n < least for v, n in counts.items()}
    # Bins are as they were: of all amounts, of which equally many lie in each.
    assert (amount, card) == cells.Cells(cells.fit(rows, KINDS, bins=4)).columns[1:]
    names = ["shop", "amount", "card"]
    block: dict[str, Any] = dict(columns=names, amounts=["amount"], bins=4, least=least)
    again = cells.make(map(json.dumps, rows), (), **block)
    assert again.columns == made.columns
    with pytest.raises(UsageError, match="least of at least 1"):
        cells.make(map(json.dumps, rows), (), **block | {"least": 0})


def test_everywhere_asks_for_no_unknown_cell(rng):
    ids = rng.integers(0, 9, 5000).astype(np.int32)
    places = np.arange(len(ids))
    how = masking.Masking(0.15, 0.1, 0.1, False, 8, np.arange(7, dtype=np.int32), np.arange(9) == 3, True, 3)
    offsets = np.stack([places, places + 1], axis=1)
    found = masking.mask(how, 0, 0, places * 0, places, ids, offsets)
    np.testing.assert_array_equal(found.chosen, ids != 3)
    assert (ids == 3).any() and 0.05 < found.hidden.mean() < 0.2


class Given(protocols.Head):
    """A head whose hidden states are the targets' log-probabilities."""

    def total_log_prob(self, out, targets, weights, allowed):
        del targets, allowed
        return {"token": (out.hidden[..., 0] * weights).sum()}


def test_the_means_of_columns_are_weighed_by_what_batches_ask(rng):
    """The last batch of a split, be it of one row, weighs as one row; a whole batch has the sum of its means."""
    objective = Objective("cells", average="columns", columns=3)

    def loss(log_p, mask):
        ones = jnp.ones(mask.shape, jnp.int32)
        tokens = Tokens(ones, ones, ones)
        targets = Targets(jnp.zeros(mask.shape, jnp.int32), jnp.asarray(mask), None)
        out = HeadOut(jnp.asarray(log_p)[..., None], {})
        return objective({"cells": Given()}, {"cells": out}, {}, Batch(tokens, targets))

    log_p = -rng.random((9, 6)).astype(np.float32)
    mask = rng.random((9, 6)) < 0.6
    mask[:, 5] = False
    whole = loss(log_p, mask)
    by_column = [(-log_p[:, [c, c + 3]][mask[:, [c, c + 3]]]).mean() for c in range(3)]
    assert float(whole.total / whole.count) == pytest.approx(sum(by_column), rel=1e-6)
    parts = [loss(log_p[at], mask[at]) for at in (slice(8), slice(8, 9))]
    both = sums.divide(sums.add(*({"x": (p.total, p.count)} for p in parts)))["x"]
    means = [float(p.total / p.count) for p in parts]
    assert both == pytest.approx(np.average(means, weights=[mask[:8].sum(), mask[8].sum()]), rel=1e-6)


def test_a_loss_of_several_is_made_of_the_whole_splits(tmp_path):
    """The last batch of validation is small: the loss is the sum of what is told of each objective."""
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
    found, _ = evaluate(system, model.compiled(data.train), model.params, loader.epoch(rows))
    assert set(system.objectives) == {"cells", "number"}
    assert found["loss"] == pytest.approx(found["cells"] + found["number"], rel=1e-6)


@pytest.mark.parametrize(
    ("words", "path", "told"),
    [
        ("", "", ""),
        (",by=time", "", "by='random' there and 'time' here: its training may have read this run's test split"),
        (",by=time", "other.csv", ""),
    ],
)
def test_a_start_from_a_run_on_other_splits_is_told(words, path, told, tmp_path, capsys):
    origin.save_config(tmp_path, tabbert.get_config("smoke").to_dict())
    block = tabbert.get_config(f"smoke,task=fraud{words}").task.to_dict()
    task = build("tasks", block | {"path": path})
    inherit._report_splits(cast(Any, SimpleNamespace(task=task)), tmp_path)
    assert told in (said := capsys.readouterr().err) and bool(said) == bool(told)
