"""A small model that may write anything, and how likely what it wrote is when the whole text is read at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from flax.core import FrozenDict

from numjax.build import build
from numjax.decode import beam, sample
from numjax.model import Model
from numjax.text.grammar import tables
from numjax.types import Batch, Tokens
from tests import drawn

V, END, ROOM, MOST = 12, 1, 9, 7
PROMPTS = [[2, 3, 4, 4], [8], [6, 7, 6, 2, 5, 9, 9, 4, 3]]
Channels = Callable[[Sequence[int]], Mapping[str, np.ndarray]]


class Writer(NamedTuple):
    """`channels`: of a whole text's ids, what the host makes."""

    model: Model
    params: Any
    grammar: Any
    channels: Channels

    def tokens(self, lists: Sequence[Sequence[int]], room: int = 0, left: bool = False) -> Tokens:
        """Rows, padded on the right, or with `left` on the left."""
        room = room or max(map(len, lists))
        shape = (len(lists), room)
        ids, positions, segments = (np.zeros(shape, np.int32) for _ in range(3))
        found: dict[str, np.ndarray] = {}
        for b, row in enumerate(lists):
            at = slice(room - len(row), room) if left else slice(len(row))
            ids[b, at], positions[b, at], segments[b, at] = row, range(len(row)), 1
            for name, values in self.channels(row).items():
                found.setdefault(name, np.zeros((*shape, *values.shape[1:]), np.int32))[b, at] = values
        return Tokens(ids, positions, segments, channels=found)

    def masses(self, row: Sequence[int], written: Sequence[int]) -> np.ndarray:
        """The log mass of each token written behind a row, of the whole text read at once."""
        outs, _ = self.model.apply({"params": self.params}, Batch(self.tokens([[*row, *written]])))
        logits = outs["next"].hidden[0] @ outs["next"].weights["kernel"].T
        chances = jax.nn.log_softmax(jnp.where(jnp.arange(V) > 0, logits, -jnp.inf))
        return np.asarray(chances[len(row) - 1 + np.arange(len(written)), jnp.asarray(written)])

    def sampled(self, temperature: float) -> sample.Generated:
        """Of all prompts, greedily at 0."""
        request = sample.Request(
            self.tokens(PROMPTS, ROOM, left=True), jnp.full(3, MOST), jax.random.key(3),
            jnp.float32(temperature), jnp.int32(0), jnp.float32(1),
        )  # fmt: skip
        known: dict[str, Any] = dict(head="next", max_tokens=MOST, num_id=-1, end_id=END, greedy=temperature == 0)
        return sample.generate(self.model, self.params, self.grammar, request, **known)

    def beams(self, width: int = 4) -> beam.Beams:
        """Of all prompts."""
        prompt, ends = self.tokens(PROMPTS, ROOM, left=True), jnp.full((3, 1), END)
        known: dict[str, Any] = dict(head="next", max_tokens=MOST, num_id=-1, width=width)
        return beam.search(self.model, self.params, self.grammar, prompt, jnp.full(3, MOST), ends, **known)


def writer(positions: Mapping[str, Any], channels: Channels = lambda ids: {}, **more: Any) -> Writer:
    """Large weights, so that every part is seen in the masses."""
    known = dict(vocab_size=V, size=V, width=16, dim=16, num_id=-1)
    embeds = {"token": build("embed", {"name": "token", "init_std": 1.0}, **known)}
    block = dict(name="decoder", width=16, layers=2, heads=2, max_length=32, init_std=0.4)
    head = build("heads", {"name": "token", "tied": False, "init_std": 1.0}, **known)
    backbone = drawn.stack(block | more, positions)
    model = Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(next=head))
    grammar = tables.build(V, [tables.Edge("text", range(1, V), "text")], "text", ["text"])
    made = Writer(model, None, jax.tree.map(jnp.asarray, grammar), channels)
    params = jax.jit(lambda: model.init(jax.random.key(0), Batch(made.tokens([[2, 3, 4]])))["params"])()
    return made._replace(params=params)


def check_sampled(made: Writer, found: sample.Generated) -> None:
    """What is written is as likely as when it is read."""
    for b, row in enumerate(PROMPTS):
        count = int(found.length[b])
        np.testing.assert_allclose(
            found.log_prob[b, :count], made.masses(row, found.ids[b, :count].tolist()), atol=2e-4
        )


def check_beams(made: Writer, found: beam.Beams) -> list[list[int]]:
    """The same of every beam; what was written."""
    texts = []
    for b, row in enumerate(PROMPTS):
        for w in range(found.ids.shape[1]):
            texts.append(found.ids[b, w, : int(found.length[b, w])].tolist())
            wanted = made.masses(row, texts[-1])
            np.testing.assert_allclose(found.log_prob[b, w, : len(texts[-1])], wanted, atol=2e-4)
    return texts
