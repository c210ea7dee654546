"""Tokens with which every answer begins are read with the prompt; what follows is as if they were generated."""

from __future__ import annotations

import functools

import jax
import numpy as np
import pytest

from numjax.bundled.experiments.benchmarks import number_writing, scheme_cost
from numjax.evals import generate as evals
from numjax.runtime import shard
from numjax.system import make_loader
from numjax.train import checkpoint
from numjax.train.step import init_params

# Plain digits, a head for the whole number, and channels that are made while writing: places, n-grams, headers.
ROWS = ("digits", "carry", "anchor_ngram", pytest.param("coupled", marks=pytest.mark.whole))


@pytest.mark.parametrize("row", ROWS)
def test_answers_are_the_same_with_their_first_tokens_in_the_prompt(row, monkeypatch):
    records = number_writing.list_records(8)
    system = scheme_cost.make_system(row, "smoke", records, "number")
    encoded = system.encode_split(records, "train")
    batch, _, _ = make_loader(system, encoded, shard.make_mesh()).batch(0)
    params = checkpoint.split_layers(jax.jit(functools.partial(init_params, system.model))(batch, 0))
    prompts = [record["question"] for record in records]
    found = []

    def record_first(*args):
        found.append(find_first(*args))
        return found[-1] if len(found) == 1 else ()

    find_first = evals.list_first_tokens
    monkeypatch.setattr(evals, "list_first_tokens", record_first)
    settings = dict(max_tokens=20, temperature=1.0, batch_size=8)
    joined, single = (evals.generate(system, params, prompts, **settings) for _ in range(2))
    blank = system.scheme.vocab.encode(" ")
    assert list(found[0][: len(blank)]) == blank and found[1] == found[0]
    assert [(x.text, x.numbers, x.ended) for x in joined] == [(x.text, x.numbers, x.ended) for x in single]
    np.testing.assert_allclose([x.log_prob for x in joined], [x.log_prob for x in single], rtol=1e-4, atol=1e-4)
