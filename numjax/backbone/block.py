"""The one transformer layer: its norms, attention, MLP and biases are options; all stacks are made of it.

Legend: B rows, T positions of the queries, S of the keys, D width, H heads, K heads of keys, E width of a head, F
width of the MLP.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from numjax.errors import UsageError
from numjax.nn.attention import Cache, attend, attend_cached, attend_memory
from numjax.nn.dropout import dropout
from numjax.nn.norm import layer_norm, rms_norm
from numjax.nn.parallel import ROWS, TENSOR, constrain
from numjax.nn.rotary import turn

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "gelu": functools.partial(jax.nn.gelu, approximate=False),
    "gelu_tanh": functools.partial(jax.nn.gelu, approximate=True),
    "silu": jax.nn.silu,
}
NORMS = {"layer": 1e-5, "rms": 1e-6}  # with their usual ε
NORM_PLACES, INITIAL = ("pre", "post", "sandwich"), ("normal", "fan_in")


@dataclasses.dataclass(frozen=True)
class Norm:
    """`kind`: "layer" or "rms", with ε; `place`: before each branch ("pre"), behind each sum ("post"), or before and
    behind each branch ("sandwich")."""

    kind: str
    place: str
    epsilon: float


@dataclasses.dataclass(frozen=True)
class Attention:
    """H heads of E, K of keys and values; scores are divided by √E if `scaled`; with `qk_norm` queries and keys are
    RMS normed. `kernel`: see `nn.attention.attend`."""

    heads: int
    kv_heads: int
    size: int
    scaled: bool
    qk_norm: bool
    kernel: str

    @property
    def scale(self) -> float | None:
        """Of the scores; None is 1/√E."""
        return None if self.scaled else 1.0

    @property
    def fused(self) -> bool:
        """Queries, keys and values are one product."""
        return self.heads == self.kv_heads


@dataclasses.dataclass(frozen=True)
class Mlp:
    """act(x W) V or, gated, (act(x U) · x W) V."""

    width: int
    act: str
    gated: bool


@dataclasses.dataclass(frozen=True)
class Initial:
    """Kernels start with `std` ("normal") or 1/√(width that goes in) ("fan_in"), those that end a residual branch
    with `residual` of it."""

    how: str
    std: float
    residual: float

    def of(self, fan_in: int, last: bool = False) -> Any:
        """The initialiser of a kernel; `last` of a residual branch."""
        std = self.std if self.how == "normal" else fan_in**-0.5
        return nn.initializers.normal(std * (self.residual if last else 1.0))


@dataclasses.dataclass(frozen=True)
class Form:
    """What all layers of a stack share.

    Attributes:
      width: D. dropout: rate on each branch's result.
      biases: of all kernels. parallel: attention and MLP read the same x, and both are added to it (GPT-J).
      causal: a position sees only those before it. cross: a second attention, to an encoder.
    """

    width: int
    norm: Norm
    attention: Attention
    mlp: Mlp
    initial: Initial
    biases: bool
    parallel: bool
    dropout: float
    causal: bool
    cross: bool

    def branches(self) -> tuple[str, ...]:
        """Names of the branches, which those of their norms end with."""
        return ("1", *(("cross",) if self.cross else ()), "2")


class Shared(NamedTuple):
    """What all layers of a stack read beside x, each None where there is none.

    Attributes:
      segments: int32[B, T]; a position sees only its own.
      bias: float32[B or 1, H or 1, T, S] of the scores. angles: float32[B, T, P], and what to multiply by.
      source: the encoder's h[B, S, D] and valid[B, S].
    """

    segments: jax.Array | None = None
    bias: jax.Array | None = None
    angles: jax.Array | None = None
    sharpness: float = 1.0
    source: tuple[jax.Array, jax.Array] | None = None


def weights(form: Form) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Name → (initialiser, shape) of a layer's parameters, the one layout of all stacks."""
    width, attention, mlp, initial = form.width, form.attention, form.mlp, form.initial
    heads, size, inner = attention.heads, attention.size, attention.heads * attention.size
    zeros = nn.initializers.zeros
    # T5 leaves the scores unscaled and starts with smaller queries instead.
    reads = initial.of(width)
    asks = reads if attention.scaled or initial.how == "normal" else initial.of(width * size)
    found: dict[str, tuple[Any, tuple[int, ...]]] = {}

    def together(key: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
        q_key, kv_key = jax.random.split(key)
        parts = asks(q_key, (width, 1, heads, size), dtype), reads(kv_key, (width, 2, heads, size), dtype)
        return jnp.concatenate(parts, axis=1)

    def attend_with(prefix: str, kv_heads: int, fused: bool) -> None:
        kernels: dict[str, tuple[Any, tuple[int, ...]]] = {
            "q": (asks, (width, heads, size)),
            "kv": (reads, (width, 2, kv_heads, size)),
        }
        if fused:
            kernels = {"qkv": (reads if asks is reads else together, (width, 3, heads, size))}
        for name, (init, shape) in kernels.items():
            found[f"{prefix}{name}_kernel"] = init, shape
            if form.biases:
                found[f"{prefix}{name}_bias"] = zeros, shape[1:]
        dense(f"{prefix}out", inner, width, last=True)

    def dense(name: str, inputs: int, outputs: int, last: bool = False) -> None:
        found[f"{name}_kernel"] = initial.of(inputs, last), (inputs, outputs)
        if form.biases:
            found[f"{name}_bias"] = zeros, (outputs,)

    for branch in form.branches():
        for end in ("", "_behind") if form.norm.place == "sandwich" else ("",):
            found |= norm_weights(f"ln_{branch}{end}", form.norm.kind, width)
    attend_with("", attention.kv_heads, attention.fused)
    if attention.qk_norm:
        found |= {f"{name}_scale": (nn.initializers.ones, (size,)) for name in ("q", "k")}
    if form.cross:
        attend_with("cross_", heads, fused=False)
    dense("up", width, mlp.width)
    if mlp.gated:
        dense("gate", width, mlp.width)
    dense("down", mlp.width, width, last=True)
    return found


def norm_weights(name: str, kind: str, width: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """A norm's parameters, as `weights`."""
    scale = {f"{name}_scale": (nn.initializers.ones, (width,))}
    return scale | ({f"{name}_bias": (nn.initializers.zeros, (width,))} if kind == "layer" else {})


def normed(x: jax.Array, w: Mapping[str, jax.Array], name: str, kind: str, epsilon: float) -> jax.Array:
    """`rms_norm` or `layer_norm` with parameters of these names."""
    if kind == "rms":
        return rms_norm(x, w[f"{name}_scale"], epsilon)
    return layer_norm(x, w[f"{name}_scale"], w[f"{name}_bias"], epsilon)


@functools.partial(jax.checkpoint, static_argnums=0)
def _activate_project(name, up_BTF, gate_BTF, down_kernel_FD):
    # Cheap and wider than the layer: computed anew for the backward pass.
    found = ACTIVATIONS[name](up_BTF if gate_BTF is None else gate_BTF)
    return (found if gate_BTF is None else found * up_BTF) @ down_kernel_FD


class Block(nn.Module):
    """One layer: attention to itself, in some stacks to an encoder, then the MLP, each added to what went in."""

    form: Form
    layer: int = 0

    def setup(self):
        self.w = {
            name: self.param(name, init, shape, jnp.float32) for name, (init, shape) in weights(self.form).items()
        }

    def __call__(self, x_BTD: jax.Array, shared: Shared, cache: Cache | None, deterministic: bool):
        """(x[B, T, D], the layer's keys and values or None)."""
        form, kept = self.form, None

        def norm(x, name):
            return normed(x, self.w, name, form.norm.kind, form.norm.epsilon)

        def branch(x, name, run):
            """What a branch adds to x."""
            out = run(x if form.norm.place == "post" else norm(x, f"ln_{name}"))
            out = norm(out, f"ln_{name}_behind") if form.norm.place == "sandwich" else out
            return out if deterministic else dropout(out, form.dropout, self.make_rng("dropout"))

        def join(x, name, run):
            found = x + branch(x, name, run)
            return norm(found, f"ln_{name}") if form.norm.place == "post" else found

        def itself(x):
            nonlocal kept
            seen, kept = self._itself(x, shared, cache)
            return self._dense("out", seen)

        if form.parallel:
            x_BTD = x_BTD + branch(x_BTD, "1", itself) + branch(x_BTD, "2", self._mlp)
        else:
            x_BTD = join(x_BTD, "1", itself)
            if form.cross:
                x_BTD = join(x_BTD, "cross", lambda x: self._encoder(x, shared, cache))
            x_BTD = join(x_BTD, "2", self._mlp)
        return constrain(x_BTD, ROWS), kept

    def remember(self, h_BSD: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Keys [B, H, E, S] and values [B, H, S, E] of the encoder's output."""
        k_BSHE, v_BSHE = self._several("cross_kv", h_BSD)
        k, v = k_BSHE.transpose(0, 2, 3, 1), v_BSHE.transpose(0, 2, 1, 3)
        return constrain(k, ROWS, TENSOR), constrain(v, ROWS, TENSOR)

    def _itself(self, x: jax.Array, shared: Shared, cache: Cache | None):
        form = self.form.attention
        if form.fused:
            q, k, v = self._several("qkv", x)
        else:
            q, (k, v) = self._queries("q", x), self._several("kv", x)
        if form.qk_norm:
            q, k = (rms_norm(y, self.w[f"{name}_scale"], self.form.norm.epsilon) for y, name in ((q, "q"), (k, "k")))
        if shared.angles is not None:
            q, k = (turn(y, shared.angles, shared.sharpness) for y in (q, k))
        if cache is None:
            known: dict[str, Any] = dict(causal=self.form.causal, implementation=form.kernel)
            return attend(q, k, v, shared.segments, bias_BHTS=shared.bias, scale=form.scale, **known), None
        seen, *kept = attend_cached(q, k, v, cache, self.layer, shared.bias, form.scale)
        return seen, kept

    def _encoder(self, x: jax.Array, shared: Shared, cache: Cache | None) -> jax.Array:
        form, q = self.form.attention, self._queries("cross_q", x)
        if shared.source is None:
            seen = attend_memory(q, cache.memory, self.layer, form.scale)  # type: ignore[union-attr]
        else:
            h, valid = shared.source
            k, v = self._several("cross_kv", h)
            seen = attend(q, k, v, valid_BS=valid, scale=form.scale, implementation=form.kernel)
        return self._dense("cross_out", seen)

    def _mlp(self, x: jax.Array) -> jax.Array:
        mlp = self.form.mlp
        up, gate = self._dense("up", x), self._dense("gate", x) if mlp.gated else None
        found = _activate_project(mlp.act, up, gate, self.w["down_kernel"].astype(x.dtype))
        return self._biased("down", found)

    def _several(self, name: str, x_BTD: jax.Array) -> jax.Array:
        """[2 or 3, B, T, heads, E]: one product against [D, n · heads · E]; the reshape is free and keeps the
        kernel's axes apart for sharding."""
        found = jnp.einsum("btd,dkhe->btkhe", x_BTD, self.w[f"{name}_kernel"].astype(x_BTD.dtype))
        return jnp.moveaxis(self._biased(name, found), 2, 0)

    def _queries(self, name: str, x_BTD: jax.Array) -> jax.Array:
        """[B, T, H, E]."""
        return self._biased(name, jnp.einsum("btd,dhe->bthe", x_BTD, self.w[f"{name}_kernel"].astype(x_BTD.dtype)))

    def _dense(self, name: str, x: jax.Array) -> jax.Array:
        """[B, T, …] flattened, times a kernel."""
        return self._biased(name, x.reshape(*x.shape[:2], -1) @ self.w[f"{name}_kernel"].astype(x.dtype))

    def _biased(self, name: str, found: jax.Array) -> jax.Array:
        return found + self.w[f"{name}_bias"].astype(found.dtype) if self.form.biases else found


def check(name: str, value: Any, known: Any) -> None:
    """Raises UsageError unless an option of a backbone is one of `known`."""
    if value not in known:
        raise UsageError(f"backbone.{name} must be one of {', '.join(known)}, not {value!r}")
