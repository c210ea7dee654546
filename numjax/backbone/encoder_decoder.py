"""An encoder, and a decoder with cross attention. Defaults: T5 1.1 with scaled attention (Raffel et al. 2020).

For the options of other published models, see `configs/presets.py`.

Legend: B rows, T positions of the decoder, S of the encoder, D width.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from numjax.backbone.stack import Transformer, TransformerOptions
from numjax.errors import UsageError
from numjax.nn.attention import Cache
from numjax.types import Tokens


class EncoderStack(Transformer):
    """The encoder."""

    causal = False
    drops_end = True


class DecoderStack(Transformer):
    """The decoder."""

    cross = True
    drops_end = True


class Backbone(TransformerOptions):
    """See `stack.TransformerOptions`; each stack has its own positions, with parameters of their own.

    Attributes:
      encoder_layers: by default as many as the decoder's. max_length: longest text on either side.
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
        names = {field.name for field in dataclasses.fields(TransformerOptions)} - {"parent", "name", "positions"}
        options: dict[str, Any] = {name: getattr(self, name) for name in names}
        if self.scan:
            raise UsageError("backbone.scan works only in decoders and encoders: set it to False")

        def make_stack(stack_class: Any, **overrides: Any) -> Any:
            # Each stack has its own positions.
            positions = {name: part.clone(parent=None, name=None) for name, part in self.positions.items()}
            return stack_class(**(options | overrides), positions=positions)

        self.encoder = make_stack(EncoderStack, layers=self.encoder_layers or self.layers)
        self.decoder = make_stack(DecoderStack)

    def __call__(
        self,
        x_BTD: jax.Array,
        tokens: Tokens,
        *,
        source: tuple[jax.Array, Tokens] | None = None,
        cache: Cache | None = None,
        deterministic: bool = True,
    ) -> tuple[jax.Array, dict[str, Any], Cache | None]:
        """(the decoder's final hidden states, every layer's output by name, the updated cache).

        Args:
          source: embedded x[B, S, D] and tokens of the encoder's input; None if the cache holds its keys and values.

        Raises:
          UsageError: there is neither.
        """
        if source is None and (cache is None or cache.memory is None):
            raise UsageError("an encoder–decoder needs a source: the task must fill Example.source")
        acts, encoded = {}, None
        if source is not None:
            h, encoder_acts = self.encode(*source, deterministic=deterministic)
            acts = {f"encoder/{name}": x for name, x in encoder_acts.items()}
            encoded = (h, source[1].segment_ids > 0)
        h, decoder_acts, cache = self.decoder(x_BTD, tokens, source=encoded, cache=cache, deterministic=deterministic)
        return h, acts | decoder_acts, cache

    def encode(
        self, x_BSD: jax.Array, tokens: Tokens, deterministic: bool = True
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """(the encoder's hidden states [B, S, D], every layer's output by name)."""
        h, acts, _ = self.encoder(x_BSD, tokens, deterministic=deterministic)
        return h, acts

    def remember(self, x_BSD: jax.Array, tokens: Tokens, cache: Cache) -> Cache:
        """Encodes a source, and returns the cache with its keys and values."""
        h, _ = self.encode(x_BSD, tokens)
        return cache._replace(memory=self.decoder.remember_source(h, tokens.segment_ids > 0))
