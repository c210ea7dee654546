"""Channels: a part of one's own makes one, and while a text is written it has the values of the finished text."""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax import protocols
from numjax.build import build, find, names
from numjax.decode import channels as decoding
from numjax.errors import UsageError
from numjax.pipeline import features
from numjax.types import Batch, Channel, Features
from tests import drawn, writing
from tests.writing import V


@dataclasses.dataclass(frozen=True)
class Since(protocols.Producer):
    """How many tokens ago the last one of `of_ids` stood, and which; 0 where none did."""

    which: tuple[int, ...]
    channel = Channel("since", of_ids=True)

    def compute(self, ids):
        found, age, last = [], 0, 0
        for token in ids:
            last, age = (token, 0) if token in self.which else (last, age + 1)
            found.append((age, last) if last else (0, 0))
        return np.asarray(found, np.int32).reshape(-1, 2)

    def begin(self, rows):
        return jnp.zeros((rows, 2), jnp.int32)

    def step(self, state, token, automaton_state):
        hit = (token[:, None] == jnp.asarray(self.which)).any(-1)
        last = jnp.where(hit, token, state[:, 1])
        age = jnp.where(hit | (last == 0), 0, state[:, 0] + 1)
        state = jnp.stack([age, last], axis=-1)
        return state, state


class Positions(protocols.Positions, nn.Module):
    """A stranger's: reads its own channel, of two numbers a position."""

    stack: protocols.FromContext[Any] = None
    reads_channels = ("since",)

    def setup(self):
        self.table = self.param("table", nn.initializers.normal(1.0), (8, V, self.require_stack().width), jnp.float32)

    def producers(self):
        return (Since((3, 5, 8)),)

    def added(self, tokens, deterministic=True):
        age, last = jnp.moveaxis(tokens.channel("since"), -1, 0)
        return self.table[jnp.minimum(age, 7), last]


@pytest.fixture(scope="module")
def made():
    of = Since((3, 5, 8)).compute
    return writing.writer(drawn.LEARNED | {"since": {"name": __name__}}, lambda ids: {"since": of(ids)})


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_what_is_written_is_as_likely_as_when_it_is_read(made, temperature):
    writing.check_sampled(made, made.sampled(temperature))


def test_beams_too(made):
    texts = writing.check_beams(made, made.beams())
    assert sum(len({3, 5, 8} & set(text)) for text in texts) > 3, "the channel has changed on the way"


@pytest.mark.parametrize("name", names("positions"))
def test_a_producer_makes_token_by_token_what_it_makes_of_a_whole(name, rng):
    if not find("positions", name).provides("producers"):
        pytest.skip("it reads what schemes give")
    part = build(
        "positions", {"name": name}, digit_symbols=((3, 0), (5, 1), (6, 2)), number_symbols=((3, 0.0), (7, 12.0))
    )
    for producer in part.producers():
        assert hash(producer) == hash(part.producers()[0]) or producer != part.producers()[0]
        ids = rng.integers(1, V, (5, 30)).astype(np.int32)
        state, found = producer.begin(5), []
        for t in range(30):
            state, value = producer.step(state, jnp.asarray(ids[:, t]), None)
            found.append(np.asarray(value))
        np.testing.assert_array_equal(np.stack(found, axis=1), [producer.compute(row) for row in ids])


def test_what_nobody_makes_is_one_line(made):
    model, params, prompt = made.model, made.params, made.tokens([[2, 3]])
    prompt = prompt._replace(channels={**prompt.channels, "units": np.zeros((1, 2, 3), np.int32)})
    with pytest.raises(
        UsageError, match="the channel 'units' exists only for whole texts: the model cannot generate with it"
    ):
        decoding.find_producers(prompt, model.producers())
    with pytest.raises(UsageError, match="positions have no channel 'since'"):
        model.apply({"params": params}, Batch(prompt._replace(channels={})))


def test_two_parts_that_mean_different_things_by_a_name_are_refused():
    class Other(Positions):
        def producers(self):
            return (Since((1,)),)

    model = drawn.model()
    backbone = model.backbone.clone(positions=FrozenDict(a=Positions(), b=Positions()))
    assert len(model.clone(backbone=backbone).producers()) == 1
    with pytest.raises(UsageError, match="positions 'b' makes another channel 'since' than a part before it"):
        model.clone(backbone=backbone.clone(positions=FrozenDict(a=Positions(), b=Other()))).producers()


def test_the_pipeline_asks_the_producers_and_hides_what_is_masked():
    found = Features(np.asarray([3, 2, 2], np.int32), np.full(3, -1, np.int32), (), (0, 3), np.zeros(4, np.int32))
    more = features.add_produced_channels(found, (Since((3,)),))
    assert more.channels["since"].tolist() == [[0, 3], [1, 3], [2, 3]]
    assert features.cut(more, slice(1, 3)).channels["since"].tolist() == [[1, 3], [2, 3]]
