"""A stack of layers of `block.Block` with its positions: the base of all transformers here.

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
from numjax.backbone.block import Block, LayerOptions, Shared
from numjax.errors import UsageError
from numjax.nn.attention import Cache, Memory, empty_cache
from numjax.nn.dropout import dropout
from numjax.nn.parallel import ROWS, constrain
from numjax.protocols import FromContext
from numjax.types import Tokens

REMAT = {
    "none": None,
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}
WINDOW = "window"  # the name under which a cache keeps the positions for a window
HIDDEN = -1e30


class TransformerOptions(protocols.Backbone, nn.Module):
    """The options of all transformers here; the defaults are GPT-2's.

    Attributes:
      width: D; layers, heads, mlp_ratio: the usual (F = mlp_ratio · D). kv_heads: heads of keys and values, by
        default `heads`; head_size: E, by default D / heads; mlp_width: F, by default mlp_ratio · D.
      max_length: longest text.
      dropout: rate on the embedding and on all residual branches (not on attention weights: fused kernels cannot).
      norm: "layer" or "rms", with `norm_epsilon` (0: 1e-5 and 1e-6). norm_place: "pre", "post" or "sandwich", see
        `block.Norm`. embed_norm: another norm after the embedding.
      biases: all kernels have biases. parallel: see `block.LayerOptions`.
      scaled: attention's scores are divided by √E. qk_norm: queries and keys pass an RMS norm. window: a position
        sees only so many of the last positions, itself included; 0: all.
      mlp: "relu", "gelu", "gelu_tanh" or "silu"; gated: times a second projection.
      scan: one compiled layer over stacked parameters (compiles faster, runs slower on CPU).
      remat: "none", "full" (keep only layer inputs) or "dots" (keep matrix products).
      attention: see `nn.attention.attend`.
      dtype: compute type, "float32" or "bfloat16"; parameters stay float32.
      initial: kernels are initialized with standard deviation init_std ("normal") or 1/√(width of the input)
        ("fan_in"); with `shrink`, the last kernel of a residual branch with 1/√(2 · layers) of that.
      positions: the stack's positions, by name.
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
    positions: FromContext[Mapping[str, Any]] = FrozenDict()

    def layer_options(self, causal: bool, cross: bool = False) -> LayerOptions:
        """The options that the layers share.

        Raises:
          UsageError: a value is unknown, or options do not fit together.
        """
        choices = dict(norm=block.NORMS, norm_place=block.NORM_PLACES, initial=block.INITIAL, mlp=block.ACTIVATIONS)
        for name, values in choices.items():
            block.check_option(name, getattr(self, name), values)
        for name in ("kv_heads", "head_size", "mlp_ratio", "mlp_width", "window"):
            if getattr(self, name) < 0:
                raise UsageError(f"backbone.{name}={getattr(self, name):g} must be at least 0")
        kv_heads = self.kv_heads or self.heads
        if not self.head_size and self.width % self.heads:
            raise UsageError(f"backbone.width={self.width} does not divide over backbone.heads={self.heads}")
        if self.heads % kv_heads:
            raise UsageError(f"backbone.heads={self.heads} does not divide over backbone.kv_heads={kv_heads}")
        if self.parallel and (cross or self.norm_place == "post"):
            raise UsageError("backbone.parallel needs norm_place=pre or sandwich, and no encoder")
        return LayerOptions(
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
        """An empty key–value cache of `slots` slots, without a memory: see `remember`."""
        biases = [name for name, part in self.positions.items() if part.provides("bias")]
        biases += [WINDOW] if self.window else []
        sizes = self.layers, rows, slots, self.kv_heads or self.heads, self.size
        return empty_cache(*sizes, jnp.dtype(self.dtype), biases)


class Transformer(TransformerOptions):
    """A stack of layers with its norms.

    Attributes:
      causal: a position sees only itself and earlier ones. cross: each layer attends to an encoder too.
      is_single_text: a row holds one text, which starts at the first position. masks_segments: attention is masked by
        segments; without it, causality hides the padding behind a text.
      drops_end: dropout after the final norm too.
    """

    writes = True
    causal: ClassVar[bool] = True
    cross: ClassVar[bool] = False
    drops_end: ClassVar[bool] = False

    @property
    def is_single_text(self) -> bool:
        return True

    @property
    def masks_segments(self) -> bool:
        return not self.causal

    def setup(self):
        options = self.layer_options(self.causal, self.cross)
        self.order = bind_to_stack(
            self.positions,
            protocols.Stack(self.width, self.heads, self.size, self.max_length, self.causal, self.dtype),
        )
        names = [*(["ln_0"] if self.embed_norm else []), *(["ln_f"] if self.norm_place != "post" else [])]
        norms = [block.norm_weights(name, self.norm, self.width) for name in names]
        self.ends = {
            name: self.param(name, init, shape, jnp.float32) for norm in norms for name, (init, shape) in norm.items()
        }
        make: Any = remat(Block, self.remat, 4, self.scan)
        if self.scan:
            self.stacked = make(options, name="layers")
        else:
            self.layer = [make(options, layer=i) for i in range(self.layers)]

    def __call__(
        self,
        x_BTD: jax.Array,
        tokens: Tokens,
        *,
        source: tuple[jax.Array, jax.Array] | None = None,
        cache: Cache | None = None,
        deterministic: bool = True,
    ) -> tuple[jax.Array, dict[str, Any], Cache | None]:
        """(hidden states, every layer's output by name, the updated cache); `source` as in `block.Shared`."""

        def drop(x):
            return x if deterministic else dropout(x, self.dropout, self.make_rng("dropout"))

        if cache is None and x_BTD.shape[1] > self.max_length and any(part.bounded for part in self.order.values()):
            raise UsageError(
                f"{x_BTD.shape[1]} positions are more than backbone.max_length={self.max_length}: raise it, or lower "
                "data.length and data.source_length"
            )
        x = self._begin(x_BTD + sum_positions(self.order, tokens, deterministic), tokens)
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
            caches = []
            for i, layer in enumerate(self.layer):
                x, layer_cache = layer(x, shared, cache, deterministic)
                acts[f"layer_{i}"] = x
                caches.append(layer_cache)
            if cache is not None:
                keys, values = zip(*caches, strict=True)
                cache = cache._replace(keys=keys, values=values, length=cache.length + x.shape[1], visible=None)
        h = x if self.norm_place == "post" else self._normed(x, "ln_f")
        h = drop(h) if self.drops_end and self.norm_place != "post" else h
        return h, acts | {"final": h}, cache

    def added_positions(self, tokens: Tokens) -> jax.Array:
        """The sum of what positions add to the input, [B, T, D]."""
        return jnp.broadcast_to(sum_positions(self.order, tokens, True), (*tokens.ids.shape, self.width))

    def remember_source(self, h_BSD: jax.Array, valid_BS: jax.Array) -> Memory:
        """The encoder's keys and values for all layers."""
        keys, values = zip(*(layer.remember(h_BSD) for layer in self.layer), strict=True)
        return Memory(keys, values, valid_BS)

    def _begin(self, x_BTD: jax.Array, tokens: Tokens) -> jax.Array:
        """The input of the first layer, from the embedding with its positions."""
        del tokens
        return self._normed(x_BTD, "ln_0") if self.embed_norm else x_BTD

    def _normed(self, x: jax.Array, name: str) -> jax.Array:
        return block.normalize(x, self.ends, name, self.norm, self.norm_epsilon or block.NORMS[self.norm])

    def _shared(self, tokens: Tokens, cache: Cache | None, deterministic: bool) -> tuple[Cache | None, Shared]:
        """(the cache with the bias indices of the new positions, the inputs that the layers share)."""
        rotary = [part for part in self.order.values() if part.provides("angles")]
        if len(rotary) > 1:
            raise UsageError("several of the positions rotate queries and keys: keep one of them")
        angles = rotary[0].angles(tokens, deterministic) if rotary else None
        bias_indices, bias = dict(cache.bias_indices) if cache is not None else {}, None
        query_tokens = tokens
        if cache is None and self.is_single_text:
            # All rows have the same positions: one bias serves all of them.
            query_tokens = tokens._replace(positions=jnp.arange(tokens.ids.shape[1], dtype=jnp.int32)[None])
        queries = {
            name: part.bias_index(query_tokens, deterministic)
            for name, part in self.order.items()
            if part.provides("bias")
        }
        queries |= {WINDOW: query_tokens.positions} if self.window else {}
        for name, query in queries.items():
            key = query
            if cache is not None:
                key = bias_indices[name] = jax.lax.dynamic_update_slice(bias_indices[name], query, (0, cache.length))
            part_bias = self._window_bias(query, key) if name == WINDOW else self.order[name].bias(query, key)
            bias = part_bias if bias is None else bias + part_bias
        cache = cache if cache is None else cache._replace(bias_indices=bias_indices)
        segments = tokens.segment_ids if self.masks_segments and cache is None else None
        return cache, Shared(segments, bias, angles, rotary[0].sharpness if rotary else 1.0)

    def _window_bias(self, query_BT: jax.Array, key_BS: jax.Array) -> jax.Array:
        """The bias that hides keys outside the window, float32[B, 1, T, S]."""
        distance = query_BT[:, None, :, None] - key_BS[:, None, None, :]
        return jnp.where(jnp.abs(distance) < self.window, 0.0, HIDDEN)


def bind_to_stack(positions: Mapping[str, Any], stack: protocols.Stack) -> dict[str, Any]:
    """Copies of the positions bound to this stack; a `setup` stores them as `order`, which names their parameters."""
    return {name: part.clone(parent=None, name=None, stack=stack) for name, part in positions.items()}


def sum_positions(order: Mapping[str, Any], tokens: Tokens, deterministic: bool) -> jax.Array | float:
    """The sum of what positions add to a stack's input, [B, T, D]; 0 where none does."""
    total: Any = 0.0
    for part in order.values():
        if part.provides("added"):
            total = total + part.added(tokens, deterministic)
    return total


def remat(layer: Any, policy: str, static_arg: int, scanned: bool = False) -> Any:
    """The class `layer`, which keeps only the results that `policy`, a name in `REMAT`, allows for the backward pass.

    Args:
      static_arg: index of the call's argument `deterministic`, the only one that is no array.
      scanned: the layer runs inside `scan`.

    Raises:
      UsageError: there is no such policy.
    """
    if policy not in REMAT:
        raise UsageError(f"backbone.remat must be one of {', '.join(REMAT)}, not {policy!r}")
    if policy == "none":
        return layer
    # Inside a scan nothing can be merged across iterations, so CSE needs no prevention.
    return nn.remat(layer, policy=REMAT[policy], static_argnums=(static_arg,), prevent_cse=not scanned)


def scan(module: nn.Module, layers: int, x: jax.Array, shared: Shared, deterministic: bool) -> Any:
    """(x after all layers, x after each layer [layers, …]), from one compiled layer over stacked parameters."""

    def run_layer(module, x, shared):
        x, _ = module(x, shared, None, deterministic)
        return x, x

    stack = nn.scan(
        run_layer,
        variable_axes={"params": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=nn.broadcast,  # type: ignore[arg-type]
        length=layers,
    )
    return stack(module, x, shared)
