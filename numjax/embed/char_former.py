"""The characters of a numeral through a transformer, then a bidirectional LSTM: LUNA's CharFormer.

A character is the sum of two vectors: which it is, and for a digit its decimal place. The layers are post-norm with
ReLU; the mean of the LSTM's final states is projected. What a numeral is padded to changes nothing; `padded=True` is
the released code, whose LSTM and mean run over the padding: there to the longest neighbour's length, here always to
`length`, so that a vector depends on that.

Legend: N numerals, C characters, H width, A heads, E = H / A, F width of the MLP.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed import sizes
from numjax.errors import UsageError
from numjax.nn import attention, characters, lstm
from numjax.nn.by_length import by_length
from numjax.nn.dropout import dropout
from numjax.nn.norm import layer_norm
from numjax.protocols import OrTold
from numjax.types import Numeral

POOLS = ("lstm", "average")
EPSILON = 1e-5
PLACES = 10  # that are told apart on either side of the point
Drop = Callable[[jax.Array], jax.Array]


class Layer(NamedTuple):
    """One transformer layer: kernels [H, 3, A, E], [H, H], [H, F] and [F, H] with their biases, two norms."""

    qkv_kernel: jax.Array
    qkv_bias: jax.Array
    out_kernel: jax.Array
    out_bias: jax.Array
    up_kernel: jax.Array
    up_bias: jax.Array
    down_kernel: jax.Array
    down_bias: jax.Array
    ln_1_scale: jax.Array
    ln_1_bias: jax.Array
    ln_2_scale: jax.Array
    ln_2_bias: jax.Array


def places(ids_NC: jax.Array) -> jax.Array:
    """int32[N, C]: 0 for what is no digit, 1 … 10 from the ones upwards, 11 … 20 from the tenths downwards.

    Places beyond count as the last. The digits of an exponent are an integer of their own.
    """
    digit = (ids_NC < 10).astype(jnp.int32)
    power = jnp.cumsum(ids_NC == characters.EXPONENT, axis=1) > 0
    fraction = (jnp.cumsum(ids_NC == characters.POINT, axis=1) > 0) & ~power

    def upwards(part):
        counted = jnp.where(part, digit, 0)
        return jnp.cumsum(counted[:, ::-1], axis=1)[:, ::-1]

    whole = jnp.where(power, upwards(power), upwards(~power & ~fraction))
    below = jnp.cumsum(jnp.where(fraction, digit, 0), axis=1)
    place = jnp.where(fraction, PLACES + jnp.minimum(below, PLACES), jnp.minimum(whole, PLACES))
    return jnp.where(digit > 0, place, 0)


def encode(
    x_NCH: jax.Array, there_NC: jax.Array, layers: Sequence[Layer], drop: Drop, implementation: str = "auto"
) -> jax.Array:
    """[N, C, H]: y = norm(x + attention(x)), norm(y + mlp(y)) a layer; nobody sees padding."""
    shape = x_NCH.shape
    for of in layers:
        q, k, v = jnp.moveaxis(jnp.einsum("nch,hkae->nckae", x_NCH, of.qkv_kernel) + of.qkv_bias, 2, 0)
        seen = attention.attend(q, k, v, valid_BS=there_NC, implementation=implementation)
        out = drop(seen.reshape(shape) @ of.out_kernel + of.out_bias)
        x_NCH = layer_norm(x_NCH + out, of.ln_1_scale, of.ln_1_bias, EPSILON)
        up = drop(jax.nn.relu(x_NCH @ of.up_kernel + of.up_bias))
        down = drop(up @ of.down_kernel + of.down_bias)
        x_NCH = layer_norm(x_NCH + down, of.ln_2_scale, of.ln_2_bias, EPSILON)
    return x_NCH


class Embed(protocols.Embed, nn.Module):
    """A numeral read character by character and place by place.

    Attributes:
      dim: of the vector.
      hidden: H, also of the LSTM's states each way. layers: of the transformer and as many of the LSTM.
      heads: A. mlp_width: F.
      pool: "lstm", or the "average" over positions instead of it.
      padded: read the padding up to `length` too, as released.
      dropout: while training, on both branches, inside the MLP and between layers of the LSTM.
      length: characters that are read at most. short: those that most strings have at most; where it is given, most
        are read no further (`nn.by_length`), unless padding is read.
      parameters: about how many, a name in `embed/sizes.py`, which then decides on `hidden` and `layers`.
      attention: see `nn.attention.attend`.
    """

    dim: OrTold[int] = 64
    hidden: int = 32
    layers: int = 1
    heads: int = 4
    mlp_width: int = 2048
    pool: str = "lstm"
    padded: bool = False
    dropout: float = 0.1
    length: int = 32
    short: int = 0
    parameters: str = ""
    attention: str = "auto"
    kind = "numeral"
    reads_surfaces = True

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """{"characters": int8[N, length]}: see `characters.features`."""
        return characters.features(numerals, surfaces, self.length)

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        found = characters.ids_of(numerals, features, self.length)
        hidden, count = sizes.of("char_former", self.parameters, self.dim, (self.hidden, self.layers))
        if self.pool not in POOLS:
            raise UsageError(f"char_former: pool must be one of {', '.join(POOLS)}, not {self.pool!r}")
        if hidden % self.heads:
            raise UsageError(f"char_former: hidden={hidden} does not divide over heads={self.heads}")
        normal = nn.initializers.normal(1.0)
        which = self.param("characters", normal, (characters.COUNT, hidden), jnp.float32)
        where = self.param("places", normal, (1 + 2 * PLACES, hidden), jnp.float32)
        blocks = [self._layer(layer, hidden) for layer in range(count)]
        weights = lstm.declare(self.param, count, hidden, hidden) if self.pool == "lstm" else []

        key = self.make_rng("dropout") if self.has_rng("dropout") else None
        drawn = itertools.count()  # of flax there may be no draws within the branches of `by_length`

        def drop(x):
            return x if key is None else dropout(x, self.dropout, jax.random.fold_in(key, next(drawn)))

        def former(ids):
            there = ids != characters.PAD
            x = jnp.take(which, ids, axis=0) + jnp.take(where, places(ids), axis=0)
            x = encode(x, there, blocks, drop, self.attention)
            read = jnp.ones_like(there) if self.padded else there
            if self.pool == "average":
                many = jnp.maximum(read.sum(axis=1), 1)[:, None]
                return jnp.where(read[..., None], x, 0).sum(axis=1) / many
            return jnp.stack(lstm.stack(x, weights, read.astype(jnp.int32), drop)).mean(axis=0)

        ids = jnp.asarray(found).astype(jnp.int32)
        x = by_length(former, ids, characters.PAD, 0 if self.padded else self.short)
        reach = lstm.uniform(hidden)
        kernel = self.param("kernel", reach, (hidden, self.dim), jnp.float32)
        return x @ kernel + self.param("bias", reach, (self.dim,), jnp.float32)

    def _layer(self, layer: int, hidden: int) -> Layer:
        size, width = hidden // self.heads, self.mlp_width
        ones, zeros = nn.initializers.ones, nn.initializers.zeros
        shapes = {
            "qkv_kernel": (lstm.uniform(-(-2 * hidden // 3)), (hidden, 3, self.heads, size)),
            "qkv_bias": (zeros, (3, self.heads, size)),
            "out_kernel": (lstm.uniform(hidden), (hidden, hidden)),
            "out_bias": (zeros, (hidden,)),
            "up_kernel": (lstm.uniform(hidden), (hidden, width)),
            "up_bias": (lstm.uniform(hidden), (width,)),
            "down_kernel": (lstm.uniform(width), (width, hidden)),
            "down_bias": (lstm.uniform(width), (hidden,)),
        }
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"{norm}_scale": (ones, (hidden,)), f"{norm}_bias": (zeros, (hidden,))}
        return Layer(**{part: self.param(f"block_{layer}_{part}", *of, jnp.float32) for part, of in shapes.items()})
