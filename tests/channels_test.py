"""Channels: a part of one's own makes one, and while a text is written it has the values of the finished text."""

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
from numjax.decode import beam, sample
from numjax.decode import channels as decoding
from numjax.errors import UsageError
from numjax.model import Model
from numjax.pipeline import features
from numjax.text import tables
from numjax.types import Batch, Channel, Features, Tokens
from tests import drawn

V, END, ROOM, MOST = 12, 1, 9, 7


@dataclasses.dataclass(frozen=True)
class Since(protocols.Producer):
    """How many tokens ago the last one of `of_ids` stood, and which; 0 where none did."""

    which: tuple[int, ...]
    channel = Channel("since", of_ids=True)

    def of(self, ids):
        found, age, last = [], 0, 0
        for token in ids:
            last, age = (token, 0) if token in self.which else (last, age + 1)
            found.append((age, last) if last else (0, 0))
        return np.asarray(found, np.int32).reshape(-1, 2)

    def begin(self, rows):
        return jnp.zeros((rows, 2), jnp.int32)

    def step(self, state, token, at):
        hit = (token[:, None] == jnp.asarray(self.which)).any(-1)
        last = jnp.where(hit, token, state[:, 1])
        age = jnp.where(hit | (last == 0), 0, state[:, 0] + 1)
        state = jnp.stack([age, last], axis=-1)
        return state, state


class Positions(protocols.Positions, nn.Module):
    """A stranger's: reads its own channel, of two numbers a position."""

    stack: protocols.Told[Any] = None
    reads_channels = ("since",)

    def setup(self):
        self.table = self.param("table", nn.initializers.normal(1.0), (8, V, self.inside().width), jnp.float32)

    def producers(self):
        return (Since((3, 5, 8)),)

    def added(self, tokens, deterministic=True):
        age, last = jnp.moveaxis(tokens.channel("since"), -1, 0)
        return self.table[jnp.minimum(age, 7), last]


@pytest.fixture(scope="module")
def made():
    known = dict(vocab_size=V, size=V, width=16, dim=16, num_id=-1)
    embeds = {"token": build("embed", {"name": "token", "init_std": 1.0}, **known)}
    block = dict(name="decoder", width=16, layers=2, heads=2, max_length=32, init_std=0.4)
    backbone = drawn.stack(block, drawn.LEARNED | {"since": {"name": __name__}})
    head = build("heads", {"name": "token", "tied": False, "init_std": 1.0}, **known)
    model = Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(next=head))
    grammar = tables.build(V, [tables.Edge("text", range(1, V), "text")], "text", ["text"])
    prompt = tokens_of([[2, 3, 4]])
    params = jax.jit(lambda: model.init(jax.random.key(0), Batch(prompt))["params"])()
    return model, params, jax.tree.map(jnp.asarray, grammar)


def tokens_of(lists, room: int = 0, left: bool = False) -> Tokens:
    """Rows with the host's values."""
    room = room or max(map(len, lists))
    shape = (len(lists), room)
    ids, positions, segments = (np.zeros(shape, np.int32) for _ in range(3))
    since = np.zeros((*shape, 2), np.int32)
    for b, row in enumerate(lists):
        at = slice(room - len(row), room) if left else slice(len(row))
        ids[b, at], positions[b, at], segments[b, at] = row, range(len(row)), 1
        since[b, at] = Since((3, 5, 8)).of(row)
    return Tokens(ids, positions, segments, channels={"since": since})


PROMPTS = [[2, 3, 4, 4], [8], [6, 7, 6, 2, 5, 9, 9, 4, 3]]


def masses(made, row, written):
    """The log mass of each token that was written, of the whole text read at once."""
    model, params, _ = made
    outs, _ = model.apply({"params": params}, Batch(tokens_of([[*row, *written]])))
    logits = outs["next"].hidden[0] @ outs["next"].weights["kernel"].T
    chances = jax.nn.log_softmax(jnp.where(jnp.arange(V) > 0, logits, -jnp.inf))
    at = len(row) - 1 + np.arange(len(written))
    return np.asarray(chances[at, jnp.asarray(written)])


@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_what_is_written_is_as_likely_as_when_it_is_read(made, temperature):
    model, params, grammar = made
    request = sample.Request(
        tokens_of(PROMPTS, ROOM, left=True), jnp.full(3, MOST), jax.random.key(3),
        jnp.float32(temperature), jnp.int32(0), jnp.float32(1),
    )  # fmt: skip
    known: dict[str, Any] = dict(head="next", most=MOST, num_id=-1, end_id=END)
    found = sample.generate(model, params, grammar, request, greedy=temperature == 0, **known)
    for b, row in enumerate(PROMPTS):
        count = int(found.length[b])
        wanted = masses(made, row, found.ids[b, :count].tolist())
        np.testing.assert_allclose(found.log_prob[b, :count], wanted, atol=2e-4)


def test_beams_too(made):
    model, params, grammar = made
    prompt, ends = tokens_of(PROMPTS, ROOM, left=True), jnp.full((3, 1), END)
    known: dict[str, Any] = dict(head="next", most=MOST, num_id=-1, width=4)
    found = beam.search(model, params, grammar, prompt, jnp.full(3, MOST), ends, **known)
    changed = 0
    for b, row in enumerate(PROMPTS):
        for w in range(4):
            written = found.ids[b, w, : int(found.length[b, w])].tolist()
            wanted = masses(made, row, written)
            np.testing.assert_allclose(found.log_prob[b, w, : len(written)], wanted, atol=2e-4)
            changed += len({3, 5, 8} & set(written))
    assert changed > 3, "the channel has changed on the way"


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
        np.testing.assert_array_equal(np.stack(found, axis=1), [producer.of(row) for row in ids])


def test_what_nobody_makes_is_one_line(made):
    model, params, _ = made
    prompt = tokens_of([[2, 3]])
    prompt = prompt._replace(channels={**prompt.channels, "units": np.zeros((1, 2, 3), np.int32)})
    with pytest.raises(UsageError, match="the channel 'units' is of whole texts: no text can be written with it"):
        decoding.find(prompt, model.producers())
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
    more = features.produced(found, (Since((3,)),))
    assert more.channels["since"].tolist() == [[0, 3], [1, 3], [2, 3]]
    assert features.cut(more, slice(1, 3)).channels["since"].tolist() == [[1, 3], [2, 3]]
