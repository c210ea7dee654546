"""An encoder and a decoder that reads it. As it stands it is T5 1.1's with scaled attention (Raffel et al. 2020).

What other published models are is in `configs/presets.py`.

Legend: B rows, T positions of the decoder, S of the encoder, D width.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from numjax.backbone.stack import Options, Stack
from numjax.errors import UsageError
from numjax.nn.attention import Cache
from numjax.types import Tokens


class Reader(Stack):
    """The encoder."""

    causal = False
    drops_end = True


class Writer(Stack):
    """The decoder."""

    cross = True
    drops_end = True


class Backbone(Options):
    """See `stack.Options`; positions are of either stack, with parameters of their own.

    Attributes:
      encoder_layers: by default as many as the decoder has. max_length: longest text on either side.
    """

    width: int = 512
    layers: int = 6
    heads: int = 8
    encoder_layers: int = 0
    max_length: int = 512
    norm: str = "rms"
    biases: bool = False
    gated: bool = True
    initial: str = "fan_in"
    encodes = True
    writes = True

    def setup(self):
        names = {field.name for field in dataclasses.fields(Options)} - {"parent", "name", "positions"}
        known: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.scan:
            raise UsageError("backbone.scan is of decoders and encoders alone: set it to False")

        def stack(kind: Any, **more: Any) -> Any:
            # Either stack has positions of its own.
            own = {name: part.clone(parent=None, name=None) for name, part in self.positions.items()}
            return kind(**(known | more), positions=own)

        self.encoder = stack(Reader, layers=self.encoder_layers or self.layers)
        self.decoder = stack(Writer)

    def __call__(
        self,
        x_BTD: jax.Array,
        tokens: Tokens,
        *,
        source: tuple[jax.Array, Tokens] | None = None,
        cache: Cache | None = None,
        deterministic: bool = True,
    ) -> tuple[jax.Array, dict[str, Any], Cache | None]:
        """(the decoder's final hidden states, every layer's output by name, the cache moved on).

        Args:
          source: embedded x[B, S, D] and tokens of what the encoder reads; None where the cache remembers it.

        Raises:
          UsageError: there is neither.
        """
        if source is None and (cache is None or cache.memory is None):
            raise UsageError("an encoder–decoder needs a source: the task must fill Example.source")
        acts, read = {}, None
        if source is not None:
            h, found = self.encode(*source, deterministic=deterministic)
            acts = {f"encoder/{name}": x for name, x in found.items()}
            read = (h, source[1].segment_ids > 0)
        h, found, cache = self.decoder(x_BTD, tokens, source=read, cache=cache, deterministic=deterministic)
        return h, acts | found, cache

    def encode(
        self, x_BSD: jax.Array, tokens: Tokens, deterministic: bool = True
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """(the encoder's hidden states [B, S, D], every layer's output by name)."""
        h, acts, _ = self.encoder(x_BSD, tokens, deterministic=deterministic)
        return h, acts

    def remember(self, x_BSD: jax.Array, tokens: Tokens, cache: Cache) -> Cache:
        """The cache with the keys and values of a source, encoded here, once."""
        h, _ = self.encode(x_BSD, tokens)
        return cache._replace(memory=self.decoder.remember_source(h, tokens.segment_ids > 0))
