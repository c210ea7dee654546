"""The characters of a numeral through a transformer, then a bidirectional LSTM: LUNA's CharFormer.

A character is the sum of two vectors: one for the character and one for a digit's decimal place. The layers are
post-norm with ReLU; the mean of the LSTM's final states is projected. Padding changes nothing. `padded=True` follows
the released code, whose LSTM and mean include the padding: there up to the batch's longest numeral, here always up to
`length`, so the vector then depends on `length`.

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
from numjax.errors import UsageError, check_least
from numjax.nn import attention, characters, lstm, sizes
from numjax.nn.by_length import encode_by_length
from numjax.nn.dense import project, separate
from numjax.nn.dropout import dropout
from numjax.nn.norm import layer_norm
from numjax.protocols import OptionOrContext
from numjax.types import Numeral

POOLS = ("lstm", "average")
EPSILON = 1e-5
PLACES = 10  # decimal places with a vector of their own on either side of the point
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
    """int32[N, C]: 0 if the character is no digit, 1 … 10 from the ones upwards, 11 … 20 from the tenths downwards.

    Places beyond count as the last. The digits of an exponent count as an integer of their own.
    """
    digit = (ids_NC < 10).astype(jnp.int32)
    in_exponent = jnp.cumsum(ids_NC == characters.EXPONENT, axis=1) > 0
    in_fraction = (jnp.cumsum(ids_NC == characters.POINT, axis=1) > 0) & ~in_exponent

    def upwards(part):
        counted = jnp.where(part, digit, 0)
        return jnp.cumsum(counted[:, ::-1], axis=1)[:, ::-1]

    before_point = jnp.where(in_exponent, upwards(in_exponent), upwards(~in_exponent & ~in_fraction))
    behind_point = jnp.cumsum(jnp.where(in_fraction, digit, 0), axis=1)
    place = jnp.where(in_fraction, PLACES + jnp.minimum(behind_point, PLACES), jnp.minimum(before_point, PLACES))
    return jnp.where(digit > 0, place, 0)


def encode(
    x_NCH: jax.Array, is_character_NC: jax.Array, layers: Sequence[Layer], drop: Drop, implementation: str = "auto"
) -> jax.Array:
    """[N, C, H]: each layer is y = norm(x + attention(x)), norm(y + mlp(y)); padding is masked."""
    shape = x_NCH.shape
    for layer in layers:
        q, k, v = separate(project(x_NCH, layer.qkv_kernel) + layer.qkv_bias, axis=2)
        attended = attention.attend(q, k, v, valid_BS=is_character_NC, implementation=implementation)
        out = drop(project(attended.reshape(shape), layer.out_kernel) + layer.out_bias)
        x_NCH = layer_norm(x_NCH + out, layer.ln_1_scale, layer.ln_1_bias, EPSILON)
        up = drop(jax.nn.relu(project(x_NCH, layer.up_kernel) + layer.up_bias))
        down = drop(project(up, layer.down_kernel) + layer.down_bias)
        x_NCH = layer_norm(x_NCH + down, layer.ln_2_scale, layer.ln_2_bias, EPSILON)
    return x_NCH


class Embed(protocols.Embed, nn.Module):
    """A numeral's vector from its characters and their decimal places.

    Attributes:
      dim: width of the vector.
      hidden: H, also the width of the LSTM's states in each direction. layers: of the transformer, and of the LSTM.
      heads: A. mlp_width: F.
      pool: "lstm", or "average": the mean over positions instead.
      padded: also read the padding up to `length`, as in the released code.
      dropout: rate in training, on both branches, inside the MLP and between layers of the LSTM.
      length: most characters that are read. short: a length that most strings do not exceed; if it is set, most
        strings are encoded only up to it (`nn.by_length`), unless padding is read.
      parameters: approximate number of parameters, a name in `nn/sizes.py`; it then sets `hidden` and `layers`.
      attention: see `nn.attention.attend`.
    """

    dim: OptionOrContext[int] = 64
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

    def __post_init__(self):
        super().__post_init__()
        check_least(
            "char_former",
            1,
            dim=self.dim,
            hidden=self.hidden,
            layers=self.layers,
            heads=self.heads,
            mlp_width=self.mlp_width,
            length=self.length,
        )

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """{"characters": int8[N, length]}: see `characters.make_features`."""
        return characters.make_features(numerals, surfaces, self.length)

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        ids = characters.character_ids(numerals, features, self.length)
        hidden, count = sizes.encoder_size("char_former", self.parameters, self.dim, (self.hidden, self.layers))
        if self.pool not in POOLS:
            raise UsageError(f"char_former: pool must be one of {', '.join(POOLS)}, not {self.pool!r}")
        if hidden % self.heads:
            raise UsageError(f"char_former: hidden={hidden} does not divide over heads={self.heads}")
        normal = nn.initializers.normal(1.0)
        character_table = self.param("characters", normal, (characters.COUNT, hidden), jnp.float32)
        place_table = self.param("places", normal, (1 + 2 * PLACES, hidden), jnp.float32)
        blocks = [self._layer(layer, hidden) for layer in range(count)]
        weights = lstm.declare_stack(self.param, count, hidden, hidden) if self.pool == "lstm" else []

        key = self.make_rng("dropout") if self.has_rng("dropout") else None
        draw_counter = itertools.count()  # Flax allows no draws within the branches of `encode_by_length`

        def drop(x):
            return x if key is None else dropout(x, self.dropout, jax.random.fold_in(key, next(draw_counter)))

        def former(ids):
            is_character = ids != characters.PAD
            x = jnp.take(character_table, ids, axis=0) + jnp.take(place_table, places(ids), axis=0)
            x = encode(x, is_character, blocks, drop, self.attention)
            is_counted = jnp.ones_like(is_character) if self.padded else is_character
            if self.pool == "average":
                n_counted = jnp.maximum(is_counted.sum(axis=1), 1)[:, None]
                return jnp.where(is_counted[..., None], x, 0).sum(axis=1) / n_counted
            return jnp.stack(lstm.final_states(x, weights, is_counted.astype(jnp.int32), drop)).mean(axis=0)

        ids = jnp.asarray(ids).astype(jnp.int32)
        x = encode_by_length(former, ids, characters.PAD, 0 if self.padded else self.short)
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
        return Layer(
            **{part: self.param(f"block_{layer}_{part}", *spec, jnp.float32) for part, spec in shapes.items()}
        )
