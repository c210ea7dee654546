"""The transformer layer of all stacks; its norms, attention, MLP and biases are options.

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
from numjax.nn.dense import project, separate
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
    """`kind`: "layer" or "rms", with ε; `arrangement`: before each branch ("pre"), after each sum ("post"), or before
    and after each branch ("sandwich")."""

    kind: str
    arrangement: str
    epsilon: float


@dataclasses.dataclass(frozen=True)
class Attention:
    """H heads of E, K heads of keys and values; scores are divided by √E if `scaled`; with `qk_norm` queries and keys
    pass an RMS norm. `kernel`: see `nn.attention.attend`."""

    heads: int
    kv_heads: int
    size: int
    scaled: bool
    qk_norm: bool
    kernel: str

    @property
    def scale(self) -> float | None:
        """The factor of the scores; None is 1/√E."""
        return None if self.scaled else 1.0

    @property
    def fused(self) -> bool:
        """Whether queries, keys and values are one product."""
        return self.heads == self.kv_heads


@dataclasses.dataclass(frozen=True)
class Mlp:
    """act(x W) V or, gated, (act(x U) · x W) V."""

    width: int
    act: str
    gated: bool


@dataclasses.dataclass(frozen=True)
class Initial:
    """Kernels are initialized with standard deviation `std` ("normal") or 1/√(width of the input) ("fan_in"), the
    last kernel of a residual branch with `residual` times that."""

    kind: str
    std: float
    residual: float

    def make_initializer(self, fan_in: int, last: bool = False) -> Any:
        """The initializer of a kernel; `last`: of a residual branch."""
        std = self.std if self.kind == "normal" else fan_in**-0.5
        return nn.initializers.normal(std * (self.residual if last else 1.0))


@dataclasses.dataclass(frozen=True)
class LayerOptions:
    """Options that all layers of a stack share.

    Attributes:
      width: D. dropout: rate on each branch's result.
      biases: all kernels have biases. parallel: attention and MLP share the input x; both are added to it (GPT-J).
      causal: a position sees only itself and earlier ones. cross: a second attention, to an encoder.
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
        """Names of the branches; the names of their norms end with them."""
        return ("1", *(("cross",) if self.cross else ()), "2")


class Shared(NamedTuple):
    """Inputs that all layers of a stack share besides x; each may be None.

    Attributes:
      segments: int32[B, T]; a position sees only its own segment.
      bias: float32[B or 1, H or 1, T, S], added to the scores.
      angles: float32[B, T, P] of queries and keys. sharpness: factor of rotated queries and keys.
      source: the encoder's h[B, S, D] and valid[B, S].
    """

    segments: jax.Array | None = None
    bias: jax.Array | None = None
    angles: jax.Array | None = None
    sharpness: float = 1.0
    source: tuple[jax.Array, jax.Array] | None = None


def weights(options: LayerOptions) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Name → (initialiser, shape) of a layer's parameters, the one layout of all stacks."""
    width, attention, mlp, initial = options.width, options.attention, options.mlp, options.initial
    heads, size, inner = attention.heads, attention.size, attention.heads * attention.size
    zeros = nn.initializers.zeros
    # T5 does not scale the scores and initializes smaller queries instead.
    default_init = initial.make_initializer(width)
    query_init = (
        default_init if attention.scaled or initial.kind == "normal" else initial.make_initializer(width * size)
    )
    specs: dict[str, tuple[Any, tuple[int, ...]]] = {}

    def init_qkv(key: Any, shape: tuple[int, ...], dtype: Any) -> jax.Array:
        q_key, kv_key = jax.random.split(key)
        parts = (
            query_init(q_key, (width, 1, heads, size), dtype),
            default_init(kv_key, (width, 2, heads, size), dtype),
        )
        return jnp.concatenate(parts, axis=1)

    def attend_with(prefix: str, kv_heads: int, fused: bool) -> None:
        kernels: dict[str, tuple[Any, tuple[int, ...]]] = {
            "q": (query_init, (width, heads, size)),
            "kv": (default_init, (width, 2, kv_heads, size)),
        }
        if fused:
            kernels = {"qkv": (default_init if query_init is default_init else init_qkv, (width, 3, heads, size))}
        for name, (init, shape) in kernels.items():
            specs[f"{prefix}{name}_kernel"] = init, shape
            if options.biases:
                specs[f"{prefix}{name}_bias"] = zeros, shape[1:]
        dense(f"{prefix}out", inner, width, last=True)

    def dense(name: str, inputs: int, outputs: int, last: bool = False) -> None:
        specs[f"{name}_kernel"] = initial.make_initializer(inputs, last), (inputs, outputs)
        if options.biases:
            specs[f"{name}_bias"] = zeros, (outputs,)

    for branch in options.branches():
        for suffix in ("", "_behind") if options.norm.arrangement == "sandwich" else ("",):
            specs |= norm_weights(f"ln_{branch}{suffix}", options.norm.kind, width)
    attend_with("", attention.kv_heads, attention.fused)
    if attention.qk_norm:
        specs |= {f"{name}_scale": (nn.initializers.ones, (size,)) for name in ("q", "k")}
    if options.cross:
        attend_with("cross_", heads, fused=False)
    dense("up", width, mlp.width)
    if mlp.gated:
        dense("gate", width, mlp.width)
    dense("down", mlp.width, width, last=True)
    return specs


def norm_weights(name: str, kind: str, width: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """A norm's parameters, in the form of `weights`."""
    scale = {f"{name}_scale": (nn.initializers.ones, (width,))}
    return scale | ({f"{name}_bias": (nn.initializers.zeros, (width,))} if kind == "layer" else {})


def normalize(x: jax.Array, w: Mapping[str, jax.Array], name: str, kind: str, epsilon: float) -> jax.Array:
    """`rms_norm` or `layer_norm` of x with the parameters `name`_scale and `name`_bias."""
    if kind == "rms":
        return rms_norm(x, w[f"{name}_scale"], epsilon)
    return layer_norm(x, w[f"{name}_scale"], w[f"{name}_bias"], epsilon)


@functools.partial(jax.checkpoint, static_argnums=0)
def _activate_project(name, up_BTF, gate_BTF, down_kernel_FD):
    # Cheap, and wider than the layer: recomputed in the backward pass.
    activated = ACTIVATIONS[name](up_BTF if gate_BTF is None else gate_BTF)
    return project(activated if gate_BTF is None else activated * up_BTF, down_kernel_FD)


class Block(nn.Module):
    """One layer: self-attention, in some stacks attention to an encoder, then the MLP, each added to its input."""

    options: LayerOptions
    layer: int = 0

    def setup(self):
        self.w = {
            name: self.param(name, init, shape, jnp.float32) for name, (init, shape) in weights(self.options).items()
        }

    def __call__(self, x_BTD: jax.Array, shared: Shared, cache: Cache | None, deterministic: bool):
        """(x[B, T, D], the layer's keys and values or None)."""
        options, new_cache = self.options, None

        def norm(x, name):
            return normalize(x, self.w, name, options.norm.kind, options.norm.epsilon)

        def branch(x, name, run):
            """What a branch adds to x."""
            out = run(x if options.norm.arrangement == "post" else norm(x, f"ln_{name}"))
            out = norm(out, f"ln_{name}_behind") if options.norm.arrangement == "sandwich" else out
            return out if deterministic else dropout(out, options.dropout, self.make_rng("dropout"))

        def join(x, name, run):
            total = x + branch(x, name, run)
            return norm(total, f"ln_{name}") if options.norm.arrangement == "post" else total

        def attend_self(x):
            nonlocal new_cache
            attended, new_cache = self._attend_self(x, shared, cache)
            return self._project("out", attended)

        if options.parallel:
            x_BTD = x_BTD + branch(x_BTD, "1", attend_self) + branch(x_BTD, "2", self._mlp)
        else:
            x_BTD = join(x_BTD, "1", attend_self)
            if options.cross:
                x_BTD = join(x_BTD, "cross", lambda x: self._attend_encoder(x, shared, cache))
            x_BTD = join(x_BTD, "2", self._mlp)
        return constrain(x_BTD, ROWS), new_cache

    def remember(self, h_BSD: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Computes the keys [B, H, E, S] and values [B, H, S, E] of the encoder's output."""
        k_BSHE, v_BSHE = self._project_several("cross_kv", h_BSD)
        k, v = k_BSHE.transpose(0, 2, 3, 1), v_BSHE.transpose(0, 2, 1, 3)
        return constrain(k, ROWS, TENSOR), constrain(v, ROWS, TENSOR)

    def _attend_self(self, x: jax.Array, shared: Shared, cache: Cache | None):
        attention = self.options.attention
        if attention.fused:
            q, k, v = self._project_several("qkv", x)
        else:
            q, (k, v) = self._project_queries("q", x), self._project_several("kv", x)
        if attention.qk_norm:
            q, k = (
                rms_norm(y, self.w[f"{name}_scale"], self.options.norm.epsilon) for y, name in ((q, "q"), (k, "k"))
            )
        if shared.angles is not None:
            q, k = (turn(y, shared.angles, shared.sharpness) for y in (q, k))
        if cache is None:
            options: dict[str, Any] = dict(causal=self.options.causal, implementation=attention.kernel)
            return attend(q, k, v, shared.segments, bias_BHTS=shared.bias, scale=attention.scale, **options), None
        attended, *new_cache = attend_cached(q, k, v, cache, self.layer, shared.bias, attention.scale)
        return attended, new_cache

    def _attend_encoder(self, x: jax.Array, shared: Shared, cache: Cache | None) -> jax.Array:
        attention, q = self.options.attention, self._project_queries("cross_q", x)
        if shared.source is None:
            attended = attend_memory(q, cache.memory, self.layer, attention.scale)  # type: ignore[union-attr]
        else:
            h, valid = shared.source
            k, v = self._project_several("cross_kv", h)
            attended = attend(q, k, v, valid_BS=valid, scale=attention.scale, implementation=attention.kernel)
        return self._project("cross_out", attended)

    def _mlp(self, x: jax.Array) -> jax.Array:
        mlp = self.options.mlp
        up, gate = self._project("up", x), self._project("gate", x) if mlp.gated else None
        projected = _activate_project(mlp.act, up, gate, self.w["down_kernel"].astype(x.dtype))
        return self._add_bias("down", projected)

    def _project_several(self, name: str, x_BTD: jax.Array) -> list[jax.Array]:
        """2 or 3 × [B, T, heads, E]: one product with a kernel [D, n, heads, E]; its axes allow sharding."""
        projections = project(x_BTD, self.w[f"{name}_kernel"].astype(x_BTD.dtype))
        return separate(self._add_bias(name, projections), axis=2)

    def _project_queries(self, name: str, x_BTD: jax.Array) -> jax.Array:
        """[B, T, H, E]."""
        return self._add_bias(name, project(x_BTD, self.w[f"{name}_kernel"].astype(x_BTD.dtype)))

    def _project(self, name: str, x: jax.Array) -> jax.Array:
        """Flattens x[B, T, …] to [B, T, features] and multiplies it with a kernel."""
        return self._add_bias(name, project(x.reshape(*x.shape[:2], -1), self.w[f"{name}_kernel"].astype(x.dtype)))

    def _add_bias(self, name: str, x: jax.Array) -> jax.Array:
        return x + self.w[f"{name}_bias"].astype(x.dtype) if self.options.biases else x


def check_option(name: str, value: Any, choices: Any) -> None:
    """Raises UsageError unless the value of a backbone's option is one of `choices`."""
    if value not in choices:
        raise UsageError(f"backbone.{name} must be one of {', '.join(choices)}, not {value!r}")
