"""Layers of `block.Block` one on the other, with the positions that order them: what all transformers here are made
of.

Legend: B rows, T positions, S slots of the cache or positions of a source, D width.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.core import FrozenDict

from numjax import protocols
from numjax.backbone import block
from numjax.backbone.block import Block, Form, Shared
from numjax.errors import UsageError
from numjax.nn.attention import Cache, Memory, empty_cache
from numjax.nn.dropout import dropout
from numjax.nn.parallel import ROWS, constrain
from numjax.protocols import Told
from numjax.types import Tokens

REMAT = {
    "none": None,
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}
WINDOW = "window"  # under this name a cache keeps the places that a window asks for
HIDDEN = -1e30


class Options(protocols.Backbone, nn.Module):
    """What can be chosen of any transformer here; the defaults are GPT-2's.

    Attributes:
      width: D; layers, heads, mlp_ratio: the usual (F = mlp_ratio · D). kv_heads: of keys and values, by default as
        many; head_size: E, by default D / heads; mlp_width: F, by default by the ratio.
      max_length: longest text.
      dropout: rate on the embedding and on all residual branches (not on attention weights: fused kernels cannot).
      norm: "layer" or "rms", with `norm_epsilon` (0: 1e-5 and 1e-6). norm_place: "pre", "post" or "sandwich", see
        `block.Norm`. embed_norm: one behind the embedding.
      biases: of all kernels. parallel: see `block.Form`.
      scaled: attention's scores are divided by √E. qk_norm: queries and keys are RMS normed. window: a position sees
        only so many of the last ones, itself included; 0 for all.
      mlp: "relu", "gelu", "gelu_tanh" or "silu"; gated: a product with a second projection.
      scan: one compiled layer over stacked parameters (compiles faster, runs slower on CPU).
      remat: "none", "full" (keep only layer inputs) or "dots" (keep matrix products).
      attention: see `nn.attention.attend`.
      dtype: compute type, "float32" or "bfloat16"; parameters stay float32.
      initial: kernels start with init_std ("normal") or 1/√(width that goes in) ("fan_in"); those that end a residual
        branch get 1/√(2 · layers) of it if `shrink`.
      positions: how order enters, by name.
    """

    width: int = 768
    layers: int = 12
    heads: int = 12
    kv_heads: int = 0
    head_size: int = 0
    mlp_ratio: float = 4
    mlp_width: int = 0
    max_length: int = 1024
    dropout: float = 0.0
    norm: str = "layer"
    norm_epsilon: float = 0.0
    norm_place: str = "pre"
    embed_norm: bool = False
    biases: bool = True
    parallel: bool = False
    scaled: bool = True
    qk_norm: bool = False
    window: int = 0
    mlp: str = "gelu_tanh"
    gated: bool = False
    scan: bool = False
    remat: str = "none"
    attention: str = "auto"
    dtype: str = "float32"
    initial: str = "normal"
    init_std: float = 0.02
    shrink: bool = True
    positions: Told[Mapping[str, Any]] = FrozenDict()

    def form(self, causal: bool, cross: bool = False) -> Form:
        """What the layers share.

        Raises:
          UsageError: options that are unknown, or do not go together.
        """
        known = dict(norm=block.NORMS, norm_place=block.NORM_PLACES, initial=block.INITIAL, mlp=block.ACTIVATIONS)
        for name, values in known.items():
            block.check(name, getattr(self, name), values)
        kv_heads = self.kv_heads or self.heads
        if not self.head_size and self.width % self.heads:
            raise UsageError(f"backbone.width={self.width} does not divide over backbone.heads={self.heads}")
        if self.heads % kv_heads:
            raise UsageError(f"backbone.heads={self.heads} does not divide over backbone.kv_heads={kv_heads}")
        if self.parallel and (cross or self.norm_place == "post"):
            raise UsageError("backbone.parallel wants norm_place=pre or sandwich, and no encoder")
        return Form(
            width=self.width,
            norm=block.Norm(self.norm, self.norm_place, self.norm_epsilon or block.NORMS[self.norm]),
            attention=block.Attention(
                self.heads, kv_heads, self.size, self.scaled, self.qk_norm, kernel=self.attention
            ),
            mlp=block.Mlp(self.mlp_width or int(self.mlp_ratio * self.width), self.mlp, self.gated),
            initial=block.Initial(self.initial, self.init_std, (2 * self.layers) ** -0.5 if self.shrink else 1.0),
            biases=self.biases,
            parallel=self.parallel,
            dropout=self.dropout,
            causal=causal,
            cross=cross,
        )

    @property
    def size(self) -> int:
        """E."""
        return self.head_size or self.width // self.heads

    def init_cache(self, rows: int, slots: int) -> Cache:
        """An empty key-value cache for `slots` positions, without a memory: see `remember`."""
        places = [name for name, part in self.positions.items() if part.provides("bias")]
        places += [WINDOW] if self.window else []
        sizes = self.layers, rows, slots, self.kv_heads or self.heads, self.size
        return empty_cache(*sizes, jnp.dtype(self.dtype), places)


class Stack(Options):
    """A stack of layers, and its norms.

    Attributes:
      causal: a position sees only those before it. cross: each layer attends to an encoder too.
      alone: a row holds one text, from its first position on. masked: attention is masked by segments; causality
        hides the padding behind a text.
      drops_end: dropout behind the final norm too.
    """

    writes = True
    causal: ClassVar[bool] = True
    cross: ClassVar[bool] = False
    drops_end: ClassVar[bool] = False

    @property
    def alone(self) -> bool:
        return True

    @property
    def masked(self) -> bool:
        return not self.causal

    def setup(self):
        form = self.form(self.causal, self.cross)
        self.order = in_stack(
            self.positions,
            protocols.Stack(self.width, self.heads, self.size, self.max_length, self.causal, self.dtype),
        )
        names = [*(["ln_0"] if self.embed_norm else []), *(["ln_f"] if self.norm_place != "post" else [])]
        found = [block.norm_weights(name, self.norm, self.width) for name in names]
        self.ends = {
            name: self.param(name, init, shape, jnp.float32) for one in found for name, (init, shape) in one.items()
        }
        make: Any = remat(Block, self.remat, 4, self.scan)
        if self.scan:
            self.stacked = make(form, name="layers")
        else:
            self.layer = [make(form, layer=i) for i in range(self.layers)]

    def __call__(
        self,
        x_BTD: jax.Array,
        tokens: Tokens,
        *,
        source: tuple[jax.Array, jax.Array] | None = None,
        cache: Cache | None = None,
        deterministic: bool = True,
    ) -> tuple[jax.Array, dict[str, Any], Cache | None]:
        """(hidden states, every layer's output by name, the cache moved on); `source` as in `block.Shared`."""

        def drop(x):
            return x if deterministic else dropout(x, self.dropout, self.make_rng("dropout"))

        if cache is None and x_BTD.shape[1] > self.max_length and any(part.bounded for part in self.order.values()):
            raise UsageError(
                f"{x_BTD.shape[1]} positions are more than backbone.max_length={self.max_length}: raise it, or lower "
                "data.length and data.source_length"
            )
        x = self._begin(x_BTD + added(self.order, tokens, deterministic), tokens)
        x = constrain(drop(x.astype(self.dtype)), ROWS)
        if cache is not None:
            valid = jax.lax.dynamic_update_slice(cache.valid, tokens.segment_ids > 0, (0, cache.length))
            cache = cache._replace(valid=valid)
        cache, shared = self._shared(tokens, cache, deterministic)
        shared = shared._replace(source=source)
        acts: dict[str, Any] = {"embedded": x}
        if self.scan and cache is None:
            x, acts["layers"] = scan(self.stacked, self.layers, x, shared, deterministic)
        else:
            kept = []
            for i, layer in enumerate(self.layer):
                x, new = layer(x, shared, cache, deterministic)
                acts[f"layer_{i}"] = x
                kept.append(new)
            if cache is not None:
                keys, values = zip(*kept, strict=True)
                cache = cache._replace(keys=keys, values=values, length=cache.length + x.shape[1], seen=None)
        h = x if self.norm_place == "post" else self._normed(x, "ln_f")
        h = drop(h) if self.drops_end and self.norm_place != "post" else h
        return h, acts | {"final": h}, cache

    def added_positions(self, tokens: Tokens) -> jax.Array:
        """What positions add to the input, [B, T, D]."""
        return jnp.broadcast_to(added(self.order, tokens, True), (*tokens.ids.shape, self.width))

    def remember_source(self, h_BSD: jax.Array, valid_BS: jax.Array) -> Memory:
        """What the layers read of an encoder."""
        keys, values = zip(*(layer.remember(h_BSD) for layer in self.layer), strict=True)
        return Memory(keys, values, valid_BS)

    def _begin(self, x_BTD: jax.Array, tokens: Tokens) -> jax.Array:
        """The layers' first input from the embedding with its positions."""
        del tokens
        return self._normed(x_BTD, "ln_0") if self.embed_norm else x_BTD

    def _normed(self, x: jax.Array, name: str) -> jax.Array:
        return block.normed(x, self.ends, name, self.norm, self.norm_epsilon or block.NORMS[self.norm])

    def _shared(self, tokens: Tokens, cache: Cache | None, deterministic: bool) -> tuple[Cache | None, Shared]:
        """(the cache with the new positions' places, what the layers read beside x)."""
        turning = [part for part in self.order.values() if part.provides("angles")]
        if len(turning) > 1:
            raise UsageError("two of the positions turn queries and keys: keep one of them")
        angles = turning[0].angles(tokens, deterministic) if turning else None
        places, bias = dict(cache.places) if cache is not None else {}, None
        like = tokens
        if cache is None and self.alone:
            # The same in all rows: one bias serves them all.
            like = tokens._replace(positions=jnp.arange(tokens.ids.shape[1], dtype=jnp.int32)[None])
        asked = {name: part.place(like, deterministic) for name, part in self.order.items() if part.provides("bias")}
        asked |= {WINDOW: like.positions} if self.window else {}
        for name, query in asked.items():
            key = query
            if cache is not None:
                key = places[name] = jax.lax.dynamic_update_slice(places[name], query, (0, cache.length))
            one = self._within(query, key) if name == WINDOW else self.order[name].bias(query, key)
            bias = one if bias is None else bias + one
        cache = cache if cache is None else cache._replace(places=places)
        segments = tokens.segment_ids if self.masked and cache is None else None
        return cache, Shared(segments, bias, angles, turning[0].sharpness if turning else 1.0)

    def _within(self, query_BT: jax.Array, key_BS: jax.Array) -> jax.Array:
        """float32[B, 1, T, S], which hides what is outside the window."""
        distance = query_BT[:, None, :, None] - key_BS[:, None, None, :]
        return jnp.where(jnp.abs(distance) < self.window, 0.0, HIDDEN)


def in_stack(positions: Mapping[str, Any], stack: protocols.Stack) -> dict[str, Any]:
    """The positions as parts of this stack, for a `setup` to keep under the name "order"."""
    return {name: part.clone(parent=None, name=None, stack=stack) for name, part in positions.items()}


def added(order: Mapping[str, Any], tokens: Tokens, deterministic: bool) -> jax.Array | float:
    """The sum of what positions add to a stack's input, [B, T, D]; 0 where none does."""
    total: Any = 0.0
    for part in order.values():
        if part.provides("added"):
            total = total + part.added(tokens, deterministic)
    return total


def remat(layer: Any, how: str, last: int, scanned: bool = False) -> Any:
    """The class `layer`, of whose results only what `how` says, one of `REMAT`, is kept for the backward pass.

    Args:
      last: place among its call's arguments of `deterministic`, the only one that is no array.
      scanned: `scan` goes over it.

    Raises:
      UsageError: there is no such `how`.
    """
    if how not in REMAT:
        raise UsageError(f"backbone.remat must be one of {', '.join(REMAT)}, not {how!r}")
    if how == "none":
        return layer
    # Inside a scan nothing can be merged across iterations, so CSE needs no prevention.
    return nn.remat(layer, policy=REMAT[how], static_argnums=(last,), prevent_cse=not scanned)


def scan(one: nn.Module, layers: int, x: jax.Array, shared: Shared, deterministic: bool) -> Any:
    """(x after the layers, after each of them [layers, …]): one compiled layer over stacked parameters."""

    def layer(one, x, shared):
        x, _ = one(x, shared, None, deterministic)
        return x, x

    stack = nn.scan(
        layer,
        variable_axes={"params": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=nn.broadcast,  # type: ignore[arg-type]
        length=layers,
    )
    return stack(one, x, shared)
