"""A BERT-shaped encoder: every position sees its whole text; post-LN blocks, exact GELU, learned positions.

BERT (Devlin et al. 2019) as it stands by default; RoBERTa (Liu et al. 2019) is position_offset=2, types=(1,),
epsilon=1e-5.

Legend: B rows, T positions, D width, H heads, E width of a head, F width of the MLP.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax import protocols
from numjax.backbone import blocks
from numjax.errors import UsageError
from numjax.nn.attention import attend
from numjax.nn.dropout import dropout
from numjax.nn.norm import layer_norm
from numjax.nn.parallel import ROWS, constrain
from numjax.types import Tokens


class Block(nn.Module):
    """One layer: y = norm(x + attention(x)), then norm(y + mlp(y)). `mlp`: one of `blocks.ACTIVATIONS`."""

    width: int
    heads: int
    mlp_width: int
    dropout: float
    attention: str
    epsilon: float
    init_std: float
    mlp: str = "gelu"

    @nn.compact
    def __call__(self, x_BTD: jax.Array, segments: jax.Array, deterministic: bool):
        heads, size, width, low = self.heads, self.width // self.heads, self.width, x_BTD.dtype
        normal, ones, zeros = nn.initializers.normal(self.init_std), nn.initializers.ones, nn.initializers.zeros

        def weight(name, init, *shape):
            return self.param(name, init, shape, jnp.float32)

        def join(x, branch, name):
            if not deterministic:
                branch = dropout(branch, self.dropout, self.make_rng("dropout"))
            scale, bias = weight(f"{name}_scale", ones, width), weight(f"{name}_bias", zeros, width)
            return layer_norm(x + branch, scale, bias, self.epsilon)

        qkv_kernel = weight("qkv_kernel", normal, width, 3, heads, size).astype(low)
        qkv_bias = weight("qkv_bias", zeros, 3, heads, size).astype(low)
        q, k, v = jnp.moveaxis(jnp.einsum("btd,dkhe->btkhe", x_BTD, qkv_kernel) + qkv_bias, 2, 0)
        seen = attend(q, k, v, segments, implementation=self.attention)
        out = seen.reshape(x_BTD.shape) @ weight("out_kernel", normal, width, width).astype(low)
        x_BTD = join(x_BTD, out + weight("out_bias", zeros, width).astype(low), "ln_1")

        up = x_BTD @ weight("up_kernel", normal, width, self.mlp_width).astype(low)
        up = up + weight("up_bias", zeros, self.mlp_width).astype(low)
        down = blocks.activate_project(
            self.mlp, up, None, weight("down_kernel", normal, self.mlp_width, width).astype(low)
        )
        x_BTD = join(x_BTD, down + weight("down_bias", zeros, width).astype(low), "ln_2")
        return constrain(x_BTD, ROWS)


class Backbone(protocols.Backbone, nn.Module):
    """The encoder. Padding is a segment of its own: no text sees it.

    Attributes:
      width: D; layers, heads, mlp_ratio: the usual (F = mlp_ratio · D).
      max_length: positions of a row. position_offset: rows of the table before the first position's, 2 in RoBERTa.
      types: how many token types there are, one table each where `Tokens.types` is [B, T, n]; what is behind those
        is for heads. A type beyond its table counts as the last, so that RoBERTa's one type serves for all.
      dropout: rate on the embedding and on both branches (not on attention weights: fused kernels cannot).
      scan: one compiled layer over stacked parameters.
      remat: "none", "full" (keep only layer inputs) or "dots" (keep matrix products).
      attention: see `nn.attention.attend`.
      dtype: compute type, "float32" or "bfloat16"; parameters stay float32.
      epsilon: of the layer norms. init_std: of all kernels and tables.
      types_std: of the tables of types behind the first; None as all. 0 leaves a pretrained stack, which knows one
        table, at first what it was: their sum would be as large as what it reads.
    """

    width: int = 768
    layers: int = 12
    heads: int = 12
    mlp_ratio: float = 4
    max_length: int = 512
    position_offset: int = 0
    types: Sequence[int] = (2,)
    dropout: float = 0.0
    scan: bool = False
    remat: str = "none"
    attention: str = "auto"
    dtype: str = "float32"
    epsilon: float = 1e-12
    init_std: float = 0.02
    types_std: float | None = None

    @nn.compact
    def __call__(
        self, x_BTD: jax.Array, tokens: Tokens, *, cache: Any = None, deterministic: bool = True
    ) -> tuple[jax.Array, dict[str, Any], None]:
        """(hidden states of the last layer, every layer's output by name, no cache)."""
        if self.width % self.heads:
            raise UsageError(f"backbone.width={self.width} does not divide over backbone.heads={self.heads}")
        if cache is not None:
            raise UsageError("an encoder reads whole texts and writes none: use backbone decoder to generate")
        normal = nn.initializers.normal(self.init_std)
        rows = self.max_length + self.position_offset
        positions = self.param("positions", normal, (rows, self.width), jnp.float32)
        x = x_BTD + jnp.take(positions, tokens.positions + self.position_offset, axis=0)
        x = x + self._typed(tokens, normal)
        scale = self.param("ln_0_scale", nn.initializers.ones, (self.width,))
        bias = self.param("ln_0_bias", nn.initializers.zeros, (self.width,))
        x = layer_norm(x, scale, bias, self.epsilon).astype(self.dtype)
        if not deterministic:
            x = dropout(x, self.dropout, self.make_rng("dropout"))
        x = constrain(x, ROWS)
        acts: dict[str, Any] = {"embedded": x}
        if self.scan:

            def one(block, x, segments):
                return block(x, segments, deterministic)

            x, acts["layers"] = blocks.scan(one, self._block(name="layers"), self.layers, x, tokens.segment_ids)
        else:
            for layer in range(self.layers):
                x = self._block(name=f"layer_{layer}")(x, tokens.segment_ids, deterministic)
                acts[f"layer_{layer}"] = x
        acts["final"] = x
        return x, acts, None

    def _typed(self, tokens: Tokens, init) -> jax.Array:
        ids = jnp.zeros_like(tokens.ids) if tokens.types is None else tokens.types
        ids = ids[..., None] if ids.ndim == 2 else ids
        if tokens.types is not None and ids.shape[-1] < len(self.types):
            raise UsageError(f"backbone.types={tuple(self.types)}: the scheme gives {ids.shape[-1]} types a position")
        total: Any = 0.0
        for i, count in enumerate(self.types):
            known = i == 0 or self.types_std is None
            begin = init if known else nn.initializers.normal(self.types_std)
            table = self.param(f"types_{i}", begin, (count, self.width), jnp.float32)
            total = total + jnp.take(table, jnp.minimum(ids[..., min(i, ids.shape[-1] - 1)], count - 1), axis=0)
        return total

    def _block(self, **more) -> nn.Module:
        return blocks.remat(Block, self.remat, 3, self.scan)(
            width=self.width,
            heads=self.heads,
            mlp_width=int(self.mlp_ratio * self.width),
            dropout=self.dropout,
            attention=self.attention,
            epsilon=self.epsilon,
            init_std=self.init_std,
            **more,
        )
