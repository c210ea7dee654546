"""Channels: a user's part produces one, with the same values during generation as for the whole text."""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax.core import FrozenDict

from numjax import protocols
from numjax.build import build, find, names
from numjax.decode import channels as decoding
from numjax.decode import grammar as automaton
from numjax.errors import UsageError
from numjax.pipeline import features
from numjax.text.grammar import tables
from numjax.types import Batch, Channel, Features
from tests import drawn, writing
from tests.writing import V


@dataclasses.dataclass(frozen=True)
class LastToken(protocols.Producer):
    """The distance to the last token of `token_ids`, and that token; 0 where there is none."""

    token_ids: tuple[int, ...]
    channel = Channel("since", of_ids=True)

    def compute(self, ids):
        values, age, last = [], 0, 0
        for token in ids:
            last, age = (token, 0) if token in self.token_ids else (last, age + 1)
            values.append((age, last) if last else (0, 0))
        return np.asarray(values, np.int32).reshape(-1, 2)

    def begin(self, rows):
        return jnp.zeros((rows, 2), jnp.int32)

    def step(self, state, token, automaton_state):
        hit = (token[:, None] == jnp.asarray(self.token_ids)).any(-1)
        last = jnp.where(hit, token, state[:, 0])
        age = jnp.where(hit | (last == 0), 0, state[:, 1] + 1)
        return jnp.stack([last, age], axis=-1), jnp.stack([age, last], axis=-1)  # a state is not its value


class Positions(protocols.Positions, nn.Module):
    """Positions of a user: their channel has two numbers a position."""

    stack: protocols.FromContext[Any] = None
    reads_channels = ("since",)

    def setup(self):
        self.table = self.param("table", nn.initializers.normal(1.0), (8, V, self.require_stack().width), jnp.float32)

    def producers(self):
        return (LastToken((3, 5, 8)),)

    def added(self, tokens, deterministic=True):
        age, last = jnp.moveaxis(tokens.channel("since"), -1, 0)
        return self.table[jnp.minimum(age, 7), last]


class StatesBefore(protocols.Producer):
    """The automaton's states before each token, as the digits of a number."""

    channel = Channel("states_before")

    def begin(self, rows):
        return jnp.zeros(rows, jnp.int32)

    def step(self, state, token, automaton_state):
        state = 10 * state + automaton_state.state.state
        return state, -state


@pytest.fixture(scope="module")
def text_model():
    compute = LastToken((3, 5, 8)).compute
    return writing.make_text_model(
        drawn.LEARNED_POSITIONS | {"since": {"name": __name__}}, lambda ids: {"since": compute(ids)}
    )


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_samples_have_the_log_mass_that_the_whole_text_gives(text_model, temperature):
    writing.check_samples(text_model, text_model.generate(temperature))


def test_beams_have_the_log_mass_that_the_whole_text_gives(text_model):
    texts = writing.check_beams(text_model, text_model.search_beams())
    assert sum(len({3, 5, 8} & set(text)) for text in texts) > 3, "the channel changes while a text is written"


def test_a_prompt_steps_the_automaton_for_its_producers():
    edges = [tables.Edge("even", [2], "odd"), tables.Edge("odd", [2], "even")]
    edges += [tables.Edge(state, [3], state) for state in ("even", "odd")]
    grammar = jax.tree.map(jnp.asarray, tables.build(4, edges, "even", ["even"]))
    rows, length = [[2, 3, 3, 2, 2], [3, 2], [2]], 5
    ids = jnp.asarray([[0] * (length - len(row)) + row for row in rows], jnp.int32)
    start = decoding.AutomatonState(grammar, automaton.init(grammar, len(rows)))
    states = decoding.read_prompt({"states_before": StatesBefore()}, start, ids, ids > 0)["states_before"]
    even, odd = (int(automaton.step(grammar, automaton.init(grammar, 1), jnp.asarray([t])).state[0]) for t in (3, 2))
    assert even != odd
    for row, seen in zip(rows, states.tolist(), strict=True):
        expected, state = 0, even
        for token in row:
            expected, state = 10 * expected + state, (odd if state == even else even) if token == 2 else state
        assert seen == expected


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in ("positions", "embed") for name in names(kind)])
def test_a_producer_gives_the_same_values_step_by_step_and_for_a_whole_text(kind, name, rng):
    if not find(kind, name).provides("producers"):
        pytest.skip("its channels come from schemes")
    # No text has [SEP], so all numbers are written.
    marks = (("[SEP]", V), ("[#]", 1), ("[#1]", 2), ("[:007]", 4), ("[.5]", 7), ("[@1]", 5), ("[@2]", 6))
    marks = (*marks, ("[^]", 8), ("[.]", 9), ("[:3]", 10), ("[F]", 11), ("[/F]", 3))
    symbols = dict(digit_symbols=((3, 0), (5, 1), (6, 2)), number_symbols=((3, 0.0), (7, 12.0)), marks=marks)
    part = build(kind, {"name": name}, **(symbols | ({"dim": 4} if kind == "embed" else {})))
    for producer in part.producers():
        assert hash(producer) == hash(part.producers()[0]) or producer != part.producers()[0]
        ids = rng.integers(1, V, (5, 30)).astype(np.int32)
        state, values = producer.begin(5), []
        for t in range(30):
            state, value = producer.step(state, jnp.asarray(ids[:, t]), None)
            values.append(np.asarray(value))
        np.testing.assert_array_equal(np.stack(values, axis=1), [producer.compute(row) for row in ids])


def test_a_channel_without_a_producer_is_refused(text_model):
    model, params, prompt = text_model.model, text_model.params, text_model.make_tokens([[2, 3]])
    prompt = prompt._replace(channels={**prompt.channels, "units": np.zeros((1, 2, 3), np.int32)})
    with pytest.raises(
        UsageError, match="the channel 'units' exists only for whole texts: the model cannot generate with it"
    ):
        decoding.find_producers(prompt, model.producers())
    with pytest.raises(UsageError, match="positions have no channel 'since'"):
        model.apply({"params": params}, Batch(prompt._replace(channels={})))


def test_two_parts_with_different_channels_of_one_name_are_refused():
    class OtherPositions(Positions):
        def producers(self):
            return (LastToken((1,)),)

    model = drawn.build_model()
    backbone = model.backbone.clone(positions=FrozenDict(a=Positions(), b=Positions()))
    assert len(model.clone(backbone=backbone).producers()) == 1
    with pytest.raises(UsageError, match="positions 'b' makes another channel 'since' than a part before it"):
        model.clone(backbone=backbone.clone(positions=FrozenDict(a=Positions(), b=OtherPositions()))).producers()


def test_the_pipeline_adds_the_producers_channels_and_cuts_them():
    encoded = Features(np.asarray([3, 2, 2], np.int32), np.full(3, -1, np.int32), (), (0, 3), np.zeros(4, np.int32))
    extended = features.add_produced_channels(encoded, (LastToken((3,)),))
    assert extended.channels["since"].tolist() == [[0, 3], [1, 3], [2, 3]]
    assert features.cut(extended, slice(1, 3)).channels["since"].tolist() == [[1, 3], [2, 3]]
