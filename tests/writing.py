"""A small model that may write any text, and checks of its log probabilities.

The reference is one forward pass over the whole text.
"""

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

V, END, PROMPT_LENGTH, MAX_TOKENS = 12, 1, 9, 7
PROMPTS = [[2, 3, 4, 4], [8], [6, 7, 6, 2, 5, 9, 9, 4, 3]]
Channels = Callable[[Sequence[int]], Mapping[str, np.ndarray]]


class TextModel(NamedTuple):
    """A model with its parameters. `channels` makes the host's channels from the ids of a whole text."""

    model: Model
    params: Any
    grammar: Any
    channels: Channels

    def make_tokens(self, lists: Sequence[Sequence[int]], length: int = 0, pad_left: bool = False) -> Tokens:
        """Makes rows with padding on the right, or on the left with `pad_left`."""
        length = length or max(map(len, lists))
        shape = (len(lists), length)
        ids, positions, segments = (np.zeros(shape, np.int32) for _ in range(3))
        channels: dict[str, np.ndarray] = {}
        for b, row in enumerate(lists):
            columns = slice(length - len(row), length) if pad_left else slice(len(row))
            ids[b, columns], positions[b, columns], segments[b, columns] = row, range(len(row)), 1
            for name, values in self.channels(row).items():
                channels.setdefault(name, np.zeros((*shape, *values.shape[1:]), np.int32))[b, columns] = values
        return Tokens(ids, positions, segments, channels=channels)

    def compute_log_probs(self, row: Sequence[int], continuation: Sequence[int]) -> np.ndarray:
        """Computes the log probability of each token of a continuation of a row, in one pass over the whole text."""
        outputs, _ = self.model.apply({"params": self.params}, Batch(self.make_tokens([[*row, *continuation]])))
        logits = outputs["next"].hidden[0] @ outputs["next"].weights["kernel"].T
        log_probs = jax.nn.log_softmax(jnp.where(jnp.arange(V) > 0, logits, -jnp.inf))
        return np.asarray(log_probs[len(row) - 1 + np.arange(len(continuation)), jnp.asarray(continuation)])

    def generate(self, temperature: float) -> sample.Generated:
        """Generates texts for all prompts, greedily at temperature 0."""
        request = sample.Request(
            self.make_tokens(PROMPTS, PROMPT_LENGTH, pad_left=True), jnp.full(3, MAX_TOKENS),
            jax.random.split(jax.random.key(3), 3), jnp.float32(temperature), jnp.int32(0), jnp.float32(1),
        )  # fmt: skip
        options: dict[str, Any] = dict(
            head="next", max_tokens=MAX_TOKENS, num_id=-1, end_id=END, greedy=temperature == 0
        )
        return sample.generate(self.model, self.params, self.grammar, request, **options)

    def search_beams(self, width: int = 4) -> beam.Beams:
        """Runs beam search for all prompts."""
        prompt, ends = self.make_tokens(PROMPTS, PROMPT_LENGTH, pad_left=True), jnp.full((3, 1), END)
        options: dict[str, Any] = dict(head="next", max_tokens=MAX_TOKENS, num_id=-1, width=width)
        return beam.search(self.model, self.params, self.grammar, prompt, jnp.full(3, MAX_TOKENS), ends, **options)


def make_text_model(positions: Mapping[str, Any], channels: Channels = lambda ids: {}, **changes: Any) -> TextModel:
    """Makes a model with large weights, so that every part affects the log probabilities."""
    context = dict(vocab_size=V, size=V, width=16, dim=16, num_id=-1)
    embeds = {"token": build("embed", {"name": "token", "init_std": 1.0}, **context)}
    options = dict(name="decoder", width=16, layers=2, heads=2, max_length=32, init_std=0.4)
    head = build("heads", {"name": "token", "tied": False, "init_std": 1.0}, **context)
    backbone = drawn.build_backbone(options | changes, positions)
    model = Model(FrozenDict(embeds), FrozenDict(), backbone, FrozenDict(next=head))
    grammar = tables.build(V, [tables.Edge("text", range(1, V), "text")], "text", ["text"])
    text_model = TextModel(model, None, jax.tree.map(jnp.asarray, grammar), channels)
    params = jax.jit(lambda: model.init(jax.random.key(0), Batch(text_model.make_tokens([[2, 3, 4]])))["params"])()
    return text_model._replace(params=params)


def check_samples(text_model: TextModel, generated: sample.Generated) -> None:
    """Checks that the log probabilities of generated tokens are those of one pass over the whole text."""
    for b, row in enumerate(PROMPTS):
        count = int(generated.length[b])
        np.testing.assert_allclose(
            generated.log_prob[b, :count],
            text_model.compute_log_probs(row, generated.ids[b, :count].tolist()),
            atol=2e-4,
        )


def check_beams(text_model: TextModel, beams: beam.Beams) -> list[list[int]]:
    """Makes the same check of every beam. Returns the generated texts."""
    texts = []
    for b, row in enumerate(PROMPTS):
        for w in range(beams.ids.shape[1]):
            texts.append(beams.ids[b, w, : int(beams.length[b, w])].tolist())
            expected = text_model.compute_log_probs(row, texts[-1])
            np.testing.assert_allclose(beams.log_prob[b, w, : len(texts[-1])], expected, atol=2e-4)
    return texts
