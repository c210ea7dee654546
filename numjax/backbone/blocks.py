"""Layers of a transformer whose norms, biases, MLP and attention are options: what encoder–decoders are made of.

And how any backbone keeps what its layers compute, and scans over them.

Legend: B rows, T positions of the queries, S of the keys, D width, H heads, E width of a head, F width of the MLP.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.nn.attention import Cache, attend, attend_cached, attend_memory
from numjax.nn.dropout import dropout
from numjax.nn.norm import layer_norm, rms_norm
from numjax.nn.parallel import ROWS, TENSOR, constrain

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
}
REMAT = {
    "none": None,
    "full": jax.checkpoint_policies.nothing_saveable,
    "dots": jax.checkpoint_policies.dots_with_no_batch_dims_saveable,
}


def remat(block: Any, how: str, last: int, scanned: bool = False) -> Any:
    """The class `block`, of whose results only what `how` says, one of `REMAT`, is kept for the backward pass.

    Args:
      last: place among its call's arguments of `deterministic`, the only one that is no array.
      scanned: `scan` goes over it.

    Raises:
      UsageError: there is no such `how`.
    """
    if how not in REMAT:
        raise UsageError(f"backbone.remat must be one of {', '.join(REMAT)}, not {how!r}")
    if how == "none":
        return block
    # Inside a scan nothing can be merged across iterations, so CSE needs no prevention.
    return nn.remat(block, policy=REMAT[how], static_argnums=(last,), prevent_cse=not scanned)


def scan(
    call: Callable[..., jax.Array], block: nn.Module, layers: int, x: jax.Array, segments: jax.Array | None
) -> Any:
    """(x after the layers, after each of them [layers, …]): one compiled layer over stacked parameters.

    Args:
      call: (block, x, segments) → x.
    """

    def layer(block, x, segments):
        x = call(block, x, segments)
        return x, x

    stack = nn.scan(
        layer,
        variable_axes={"params": 0},
        split_rngs={"params": True, "dropout": True},
        in_axes=nn.broadcast,  # type: ignore[arg-type]
        length=layers,
    )
    return stack(block, x, segments)


@dataclasses.dataclass(frozen=True)
class Form:
    """What all layers of both stacks share; see `encoder_decoder.Backbone`."""

    width: int
    heads: int
    size: int
    mlp_width: int
    max_length: int
    dropout: float
    attention: str
    initial: str
    init_std: float
    residual: float
    positions: str
    buckets: int
    furthest: int
    offset: int
    norm: str
    post_norm: bool
    norm_epsilon: float
    embed_norm: bool
    biases: bool
    scaled: bool
    mlp: str
    gated: bool
    remat: str

    @property
    def scale(self) -> float | None:
        """Of attention's scores; None is 1/√E."""
        return None if self.scaled else 1.0

    def kernel(self, fan_in: int, last: bool = False, query: bool = False) -> Any:
        """The initialiser of a kernel; `last` of a residual branch, or of queries."""
        std = self.init_std
        if self.initial == "fan_in":
            std = (fan_in * (1 if self.scaled or not query else self.size)) ** -0.5
        return nn.initializers.normal(std * (self.residual if last else 1.0))


class Norm(nn.Module):
    """`rms_norm` or `layer_norm` with its parameters."""

    form: Form

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        scale = self.param("scale", nn.initializers.ones, (self.form.width,), jnp.float32)
        if self.form.norm == "rms":
            return rms_norm(x, scale, self.form.norm_epsilon)
        bias = self.param("bias", nn.initializers.zeros, (self.form.width,), jnp.float32)
        return layer_norm(x, scale, bias, self.form.norm_epsilon)


class Attention(nn.Module):
    """The products around an attention; queries, keys and values in one kernel, or queries apart where `cross`."""

    form: Form
    cross: bool = False

    def setup(self):
        form, zeros = self.form, nn.initializers.zeros
        width, heads, size = form.width, form.heads, form.size

        def queries(key, shape, dtype):
            # T5 leaves the scores unscaled and starts with smaller queries instead.
            q_key, kv_key = jax.random.split(key)
            q = form.kernel(width, query=True)(q_key, (width, 1, heads, size), dtype)
            return jnp.concatenate([q, form.kernel(width)(kv_key, (width, 2, heads, size), dtype)], axis=1)

        if self.cross:
            self.q_kernel = self.param("q_kernel", form.kernel(width, query=True), (width, heads, size), jnp.float32)
            self.kv_kernel = self.param("kv_kernel", form.kernel(width), (width, 2, heads, size), jnp.float32)
        else:
            self.qkv_kernel = self.param("qkv_kernel", queries, (width, 3, heads, size), jnp.float32)
        inner = heads * size
        self.out_kernel = self.param("out_kernel", form.kernel(inner, last=True), (inner, width), jnp.float32)
        if form.biases:
            if self.cross:
                self.q_bias = self.param("q_bias", zeros, (heads, size), jnp.float32)
                self.kv_bias = self.param("kv_bias", zeros, (2, heads, size), jnp.float32)
            else:
                self.qkv_bias = self.param("qkv_bias", zeros, (3, heads, size), jnp.float32)
            self.out_bias = self.param("out_bias", zeros, (width,), jnp.float32)

    def several(self, x_BTD: jax.Array) -> jax.Array:
        """[q, k, v] or, where `cross`, [k, v]: [2 or 3, B, T, H, E]."""
        kernel = self.kv_kernel if self.cross else self.qkv_kernel
        found = jnp.einsum("btd,dkhe->btkhe", x_BTD, kernel.astype(x_BTD.dtype))
        if self.form.biases:
            found = found + (self.kv_bias if self.cross else self.qkv_bias).astype(x_BTD.dtype)
        return jnp.moveaxis(found, 2, 0)

    def queries(self, x_BTD: jax.Array) -> jax.Array:
        """[B, T, H, E] of a cross attention."""
        found = jnp.einsum("btd,dhe->bthe", x_BTD, self.q_kernel.astype(x_BTD.dtype))
        return found + self.q_bias.astype(x_BTD.dtype) if self.form.biases else found

    def out(self, seen_BTHE: jax.Array) -> jax.Array:
        """[B, T, D] of what was seen."""
        found = seen_BTHE.reshape(*seen_BTHE.shape[:2], -1) @ self.out_kernel.astype(seen_BTHE.dtype)
        return found + self.out_bias.astype(found.dtype) if self.form.biases else found


@functools.partial(jax.checkpoint, static_argnums=0)
def activate_project(name, up_BTF, gate_BTF, down_kernel_FD):
    """act(up) V or, gated, (act(gate) · up) V."""
    # Cheap and wider than the layer: computed anew for the backward pass.
    found = ACTIVATIONS[name](up_BTF if gate_BTF is None else gate_BTF)
    return (found if gate_BTF is None else found * up_BTF) @ down_kernel_FD


class Mlp(nn.Module):
    """act(x W) V or, gated, (act(x U) · x W) V."""

    form: Form

    @nn.compact
    def __call__(self, x_BTD: jax.Array) -> jax.Array:
        form, low = self.form, x_BTD.dtype
        width, wide, zeros = form.width, form.mlp_width, nn.initializers.zeros
        up = x_BTD @ self.param("up_kernel", form.kernel(width), (width, wide), jnp.float32).astype(low)
        if form.biases:
            up = up + self.param("up_bias", zeros, (wide,), jnp.float32).astype(low)
        gate = None
        if form.gated:
            gate = x_BTD @ self.param("gate_kernel", form.kernel(width), (width, wide), jnp.float32).astype(low)
        down = self.param("down_kernel", form.kernel(wide, last=True), (wide, width), jnp.float32).astype(low)
        found = activate_project(form.mlp, up, gate, down)
        return found + self.param("down_bias", zeros, (width,), jnp.float32).astype(low) if form.biases else found


class Block(nn.Module):
    """One layer: attention to itself, in a decoder to the encoder, then the MLP, each added to what went in."""

    form: Form
    decodes: bool
    layer: int = 0

    def setup(self):
        self.attention = Attention(self.form)
        self.norm_1 = Norm(self.form)
        if self.decodes:
            self.cross = Attention(self.form, cross=True)
            self.norm_cross = Norm(self.form)
        self.mlp = Mlp(self.form)
        self.norm_2 = Norm(self.form)

    def __call__(
        self,
        x_BTD: jax.Array,
        segments: jax.Array | None,
        bias: jax.Array | None,
        source: tuple[jax.Array, jax.Array] | None,
        cache: Cache | None,
        deterministic: bool,
    ):
        """(x[B, T, D], the layer's keys and values or None). `source`: the encoder's h[B, S, D] and valid[B, S]."""
        form, kept = self.form, None

        def residual(x, norm, branch):
            out = branch(x if form.post_norm else norm(x))
            out = out if deterministic else dropout(out, form.dropout, self.make_rng("dropout"))
            return norm(x + out) if form.post_norm else x + out

        def itself(x):
            nonlocal kept
            q, k, v = self.attention.several(x)
            if cache is None:
                known: dict[str, Any] = dict(causal=self.decodes, implementation=form.attention)
                seen = attend(q, k, v, segments, bias_BHTS=bias, scale=form.scale, **known)
            else:
                seen, *kept = attend_cached(q, k, v, cache, self.layer, bias, form.scale)
            return self.attention.out(seen)

        def encoder(x):
            q = self.cross.queries(x)
            if source is None:
                seen = attend_memory(q, cache.memory, self.layer, form.scale)  # type: ignore[union-attr]
            else:
                h, valid = source
                k, v = self.cross.several(h)
                seen = attend(q, k, v, valid_BS=valid, scale=form.scale, implementation=form.attention)
            return self.cross.out(seen)

        x_BTD = residual(x_BTD, self.norm_1, itself)
        if self.decodes:
            x_BTD = residual(x_BTD, self.norm_cross, encoder)
        return constrain(residual(x_BTD, self.norm_2, self.mlp), ROWS), kept

    def remember(self, h_BSD: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Keys [B, H, E, S] and values [B, H, S, E] of the encoder's output."""
        k_BSHE, v_BSHE = self.cross.several(h_BSD)
        k, v = k_BSHE.transpose(0, 2, 3, 1), v_BSHE.transpose(0, 2, 1, 3)
        return constrain(k, ROWS, TENSOR), constrain(v, ROWS, TENSOR)
