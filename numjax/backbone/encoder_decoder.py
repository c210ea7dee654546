"""An encoder and a decoder that reads it: T5 and BART are choices of the same options.

|               | T5 1.0             | T5 1.1, FLAN       | BART                      |
|---------------|--------------------|--------------------|---------------------------|
| positions     | relative           | relative           | learned, `offset` 2       |
| norm          | rms, before        | rms, before        | layer, behind             |
| embed_norm    | no                 | no                 | yes                       |
| biases        | no                 | no                 | yes                       |
| scaled        | no                 | no                 | yes                       |
| mlp           | relu               | gelu_tanh, `gated` | gelu                      |
| its head      | tied, scaled       | untied             | tied, with a bias         |

Legend: B rows, T positions of the decoder, S of the encoder (or of any keys), D width, H heads, E width of a head,
F width of an MLP.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.backbone.blocks import ACTIVATIONS, Block, Form, Norm, remat
from numjax.errors import UsageError
from numjax.nn.attention import Cache, Memory, empty_cache, relative_buckets
from numjax.nn.dropout import dropout
from numjax.nn.parallel import ROWS, constrain
from numjax.types import Tokens

POSITIONS, NORMS, INITIAL = ("relative", "learned"), ("rms", "layer"), ("fan_in", "normal")


class Stack(nn.Module):
    """The encoder, or with `decodes` the decoder."""

    form: Form
    layers: int
    dtype: str
    decodes: bool

    def setup(self):
        form = self.form
        if form.positions == "learned":
            # As small as token vectors start out: neither may drown the other.
            rows = form.max_length + form.offset
            self.positions = self.param("positions", nn.initializers.normal(0.02), (rows, form.width), jnp.float32)
        else:
            init = nn.initializers.normal(form.width**-0.5)
            self.relative_bias = self.param("relative_bias", init, (form.buckets, form.heads), jnp.float32)
        if form.embed_norm:
            self.norm_embed = Norm(form)
        block = remat(Block, form.remat, 6)
        self.layer = [block(form=form, decodes=self.decodes, layer=i) for i in range(self.layers)]
        if not form.post_norm:
            self.norm_final = Norm(form)

    def __call__(
        self,
        x_BTD: jax.Array,
        tokens: Tokens,
        source: tuple[jax.Array, jax.Array] | None = None,
        cache: Cache | None = None,
        deterministic: bool = True,
    ) -> tuple[jax.Array, dict[str, jax.Array], Cache | None]:
        """(hidden states, every layer's output by name, the cache moved on); `source` as in `Block`."""
        form = self.form

        def drop(x):
            return x if deterministic else dropout(x, form.dropout, self.make_rng("dropout"))

        x = x_BTD
        if form.positions == "learned":
            if cache is None and x.shape[1] > form.max_length:
                raise UsageError(
                    f"{x.shape[1]} positions are more than backbone.max_length={form.max_length}: raise it, or lower "
                    "data.length and data.source_length"
                )
            x = x + jnp.take(self.positions, tokens.positions + form.offset, axis=0)
        x = self.norm_embed(x) if form.embed_norm else x
        x = constrain(drop(x.astype(self.dtype)), ROWS)
        if cache is not None:
            valid = jax.lax.dynamic_update_slice(cache.valid, tokens.segment_ids > 0, (0, cache.length))
            cache = cache._replace(valid=valid)
            if cache.positions is not None:
                new = jax.lax.dynamic_update_slice(cache.positions, tokens.positions, (0, cache.length))
                cache = cache._replace(positions=new)
        bias = self._bias(tokens, cache) if form.positions == "relative" else None
        # The padding of a decoder is behind its text, where causality hides it.
        segments = None if self.decodes else tokens.segment_ids
        acts, kept = {"embedded": x}, []
        for i, block in enumerate(self.layer):
            x, new = block(x, segments, bias, source, cache, deterministic)
            acts[f"layer_{i}"] = x
            kept.append(new)
        if cache is not None:
            keys, values = zip(*kept, strict=True)
            cache = cache._replace(keys=keys, values=values, length=cache.length + x.shape[1], seen=None)
        h = x if form.post_norm else drop(self.norm_final(x))
        return h, acts | {"final": h}, cache

    def remember(self, h_BSD: jax.Array, valid_BS: jax.Array) -> Memory:
        """What the decoder's layers read of an encoder."""
        keys, values = zip(*(block.remember(h_BSD) for block in self.layer), strict=True)
        return Memory(keys, values, valid_BS)

    def _bias(self, tokens: Tokens, cache: Cache | None) -> jax.Array:
        """float32[1 or B, H, T, S]: T5's bias by the distance of key and query, the same in all layers."""
        form = self.form
        if cache is None:
            steps = jnp.arange(tokens.ids.shape[1])
            relative = (steps[None, :] - steps[:, None])[None]
        else:
            relative = cache.positions[:, None, :] - tokens.positions[:, :, None]  # type: ignore[index]
        index = relative_buckets(relative, not self.decodes, form.buckets, form.furthest)
        return jnp.moveaxis(jnp.take(self.relative_bias, index, axis=0), -1, 1)


class Backbone(protocols.Backbone, nn.Module):
    """An encoder of the source and a decoder that attends to it; the defaults are T5 1.1 with scaled attention.

    Attributes:
      width: D; layers, heads, mlp_ratio: the usual. head_size: E, by default D / heads; mlp_width: F, by default
        mlp_ratio · D; encoder_layers: by default as many as the decoder has.
      max_length: longest text on either side; with learned positions the rows of their tables.
      dropout: rate on embeddings, on all residual branches and behind a final norm (T5 and BART also drop attention
        weights, which fused attention kernels cannot, and T5 within its MLP).
      positions: "relative" (a learned bias a head and `buckets` of distances up to `furthest`, for all layers of a
        stack) or "learned" (a table for each stack, whose first `offset` rows are not used).
      norm: "rms" or "layer", with `norm_epsilon` (0: 1e-6 and 1e-5); post_norm: behind each residual sum instead of
        before each branch and at the end; embed_norm: one behind the embedding.
      biases: of all kernels. scaled: attention's scores are divided by √E.
      mlp: "relu", "gelu" or "gelu_tanh"; gated: a product with a second projection.
      remat, attention, dtype: as in the decoder.
      initial: kernels start with 1/√(width that goes in) ("fan_in") or init_std ("normal"); those that end a residual
        branch get 1/√(2 · layers) of it (`shrink`; T5 and BART do not).
    """

    width: int = 512
    layers: int = 6
    heads: int = 8
    head_size: int = 0
    mlp_ratio: int = 4
    mlp_width: int = 0
    encoder_layers: int = 0
    max_length: int = 512
    dropout: float = 0.0
    positions: str = "relative"
    buckets: int = 32
    furthest: int = 128
    offset: int = 0
    norm: str = "rms"
    norm_epsilon: float = 0.0
    post_norm: bool = False
    embed_norm: bool = False
    biases: bool = False
    scaled: bool = True
    mlp: str = "gelu_tanh"
    gated: bool = True
    remat: str = "none"
    attention: str = "auto"
    dtype: str = "float32"
    initial: str = "fan_in"
    init_std: float = 0.02
    shrink: bool = True
    encodes = True

    def setup(self):
        choices = dict(positions=POSITIONS, norm=NORMS, initial=INITIAL, mlp=tuple(ACTIVATIONS))
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise UsageError(f"backbone.{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        if not self.head_size and self.width % self.heads:
            raise UsageError(f"backbone.width={self.width} does not divide over backbone.heads={self.heads}")
        if self.gated and self.biases:
            raise UsageError("a gated MLP has no biases: set backbone.gated or backbone.biases to False")
        same = (f.name for f in dataclasses.fields(Form) if f.name not in ("size", "residual"))
        known = {name: getattr(self, name) for name in same} | {
            "size": self._size(),
            "mlp_width": self.mlp_width or self.mlp_ratio * self.width,
            "norm_epsilon": self.norm_epsilon or {"rms": 1e-6, "layer": 1e-5}[self.norm],
            "residual": (2 * self.layers) ** -0.5 if self.shrink else 1.0,
        }
        form = Form(**known)
        self.encoder = Stack(form, self.encoder_layers or self.layers, self.dtype, decodes=False)
        self.decoder = Stack(form, self.layers, self.dtype, decodes=True)

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
        h, found, cache = self.decoder(x_BTD, tokens, read, cache, deterministic)
        return h, acts | found, cache

    def encode(
        self, x_BSD: jax.Array, tokens: Tokens, deterministic: bool = True
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        """(the encoder's hidden states [B, S, D], every layer's output by name)."""
        h, acts, _ = self.encoder(x_BSD, tokens, None, None, deterministic)
        return h, acts

    def remember(self, x_BSD: jax.Array, tokens: Tokens, cache: Cache) -> Cache:
        """The cache with the keys and values of a source, encoded here, once."""
        h, _ = self.encode(x_BSD, tokens)
        return cache._replace(memory=self.decoder.remember(h, tokens.segment_ids > 0))

    def init_cache(self, batch: int, slots: int) -> Cache:
        """An empty key-value cache for `slots` positions, without a memory: see `remember`."""
        cache = empty_cache(self.layers, batch, slots, self.heads, self._size(), jnp.dtype(self.dtype))
        if self.positions == "learned":
            return cache
        return cache._replace(positions=jnp.zeros((batch, slots), jnp.int32))

    def _size(self) -> int:
        return self.head_size or self.width // self.heads
