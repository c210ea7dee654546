"""A GPT-2-shaped decoder: pre-LN blocks, GELU, learned positions.

Legend: B rows, T positions, D width, H heads, E width of a head, F width of the MLP.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.backbone import blocks
from numjax.errors import UsageError
from numjax.nn.attention import Cache, attend, attend_cached, empty_cache
from numjax.nn.dropout import dropout
from numjax.nn.norm import layer_norm
from numjax.nn.parallel import ROWS, constrain
from numjax.types import Tokens


@jax.checkpoint
def _gelu_project(up_BTF, down_kernel_FD):
    # GELU is cheap and its output four times as wide as the layer: computed anew for the backward pass.
    return jax.nn.gelu(up_BTF, approximate=True) @ down_kernel_FD


class Block(nn.Module):
    """One layer: x + attention(norm(x)), then x + mlp(norm(x))."""

    width: int
    heads: int
    mlp_width: int
    dropout: float
    attention: str
    init_std: float
    residual_std: float
    layer: int = 0

    @nn.compact
    def __call__(self, x_BTD: jax.Array, segments: jax.Array | None, cache: Cache | None, deterministic: bool):
        heads, size, width, low = self.heads, self.width // self.heads, self.width, x_BTD.dtype
        normal, small = nn.initializers.normal(self.init_std), nn.initializers.normal(self.residual_std)
        ones, zeros = nn.initializers.ones, nn.initializers.zeros

        def weight(name, init, *shape):
            return self.param(name, init, shape, jnp.float32)

        def drop(x):
            return x if deterministic else dropout(x, self.dropout, self.make_rng("dropout"))

        normed = layer_norm(x_BTD, weight("ln_1_scale", ones, width), weight("ln_1_bias", zeros, width))
        qkv_kernel = weight("qkv_kernel", normal, width, 3, heads, size).astype(low)
        qkv_bias = weight("qkv_bias", zeros, 3, heads, size).astype(low)
        # One product against [D, 3·D]: the reshape is free and keeps the kernel's axes apart for sharding.
        q, k, v = jnp.moveaxis(jnp.einsum("btd,dkhe->btkhe", normed, qkv_kernel) + qkv_bias, 2, 0)
        if cache is None:
            kept = None
            seen = attend(q, k, v, segments, causal=True, implementation=self.attention)
        else:
            seen, *kept = attend_cached(q, k, v, cache, self.layer)
        out = seen.reshape(x_BTD.shape) @ weight("out_kernel", small, width, width).astype(low)
        x_BTD = x_BTD + drop(out + weight("out_bias", zeros, width).astype(low))

        normed = layer_norm(x_BTD, weight("ln_2_scale", ones, width), weight("ln_2_bias", zeros, width))
        up = normed @ weight("up_kernel", normal, width, self.mlp_width).astype(low)
        up = up + weight("up_bias", zeros, self.mlp_width).astype(low)
        down = _gelu_project(up, weight("down_kernel", small, self.mlp_width, width).astype(low))
        x_BTD = x_BTD + drop(down + weight("down_bias", zeros, width).astype(low))
        return constrain(x_BTD, ROWS), kept


class Backbone(protocols.Backbone, nn.Module):
    """The decoder.

    Attributes:
      width: D; layers, heads, mlp_ratio: the usual (F = mlp_ratio · D).
      max_length: learned positions.
      dropout: rate on the embedding and on both residual branches (the paper's code also drops attention
        weights, which fused attention kernels cannot).
      scan: one compiled layer over stacked parameters (compiles faster, runs slower on CPU).
      remat: "none", "full" (keep only layer inputs) or "dots" (keep matrix products).
      packed: mask attention between segments of a row; causality alone is enough without packing.
      attention: see `nn.attention.attend`.
      dtype: compute type, "float32" or "bfloat16"; parameters stay float32.
      init_std: of all kernels; those that end a residual branch get init_std / √(2 · layers).
    """

    width: int = 768
    layers: int = 12
    heads: int = 12
    mlp_ratio: int = 4
    max_length: int = 1024
    dropout: float = 0.0
    scan: bool = False
    remat: str = "none"
    packed: bool = True
    attention: str = "auto"
    dtype: str = "float32"
    init_std: float = 0.02

    @nn.compact
    def __call__(
        self, x_BTD: jax.Array, tokens: Tokens, *, cache: Cache | None = None, deterministic: bool = True
    ) -> tuple[jax.Array, dict[str, Any], Cache | None]:
        """(final hidden states after the last layer norm, every layer's output by name, the cache moved on)."""
        if self.width % self.heads:
            raise UsageError(f"backbone.width={self.width} does not divide over backbone.heads={self.heads}")
        # As small as token vectors start out, whatever the kernels' scale: neither may drown the other.
        positions = self.param("positions", nn.initializers.normal(0.02), (self.max_length, self.width))
        x = (x_BTD + jnp.take(positions, tokens.positions, axis=0)).astype(self.dtype)
        if not deterministic:
            x = dropout(x, self.dropout, self.make_rng("dropout"))
        x = constrain(x, ROWS)
        segments = tokens.segment_ids if cache is None and self.packed else None
        if cache is not None:
            valid = jax.lax.dynamic_update_slice(cache.valid, tokens.segment_ids > 0, (0, cache.length))
            cache = cache._replace(valid=valid)
        acts: dict[str, Any] = {"embedded": x}
        if self.scan and cache is None:

            def one(block, x, segments):
                return block(x, segments, None, deterministic)[0]

            x, acts["layers"] = blocks.scan(one, self._block(name="layers"), self.layers, x, segments)
        else:
            kept = []
            for layer in range(self.layers):
                block = self._block(name=f"layer_{layer}", layer=layer)
                x, new = block(x, segments, cache, deterministic)
                acts[f"layer_{layer}"] = x
                kept.append(new)
            if cache is not None:
                keys, values = zip(*kept, strict=True)
                cache = Cache(keys, values, cache.valid, cache.length + x.shape[1])
        scale = self.param("ln_f_scale", nn.initializers.ones, (self.width,))
        bias = self.param("ln_f_bias", nn.initializers.zeros, (self.width,))
        h = layer_norm(x, scale, bias)
        acts["final"] = h
        return h, acts, cache

    def _block(self, **more) -> nn.Module:
        return blocks.remat(Block, self.remat, 4, self.scan)(
            width=self.width,
            heads=self.heads,
            mlp_width=self.mlp_ratio * self.width,
            dropout=self.dropout,
            attention=self.attention,
            init_std=self.init_std,
            residual_std=self.init_std / (2 * self.layers) ** 0.5,
            **more,
        )

    def init_cache(self, batch: int, slots: int) -> Cache:
        """An empty key-value cache for `slots` positions."""
        return empty_cache(self.layers, batch, slots, self.heads, self.width // self.heads, jnp.dtype(self.dtype))
