"""The characters of a numeral through a bidirectional LSTM (Wallace et al. 2019; LUNA's CharLSTM).

Wallace et al. concatenate the two final states of one layer of 100 over characters of 64 dimensions:
char_dim=64, hidden=100, layers=1, pool=last, project=False, dim=200. LUNA takes the mean of the final states of all
layers and projects it: parameters="0.1M", "1M" or "9M" (`nn/sizes.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError, check_least
from numjax.nn import characters, lstm, sizes
from numjax.nn.by_length import encode_by_length
from numjax.protocols import OptionOrContext
from numjax.types import Numeral

POOLS = ("mean", "last")


def char_lstm(
    ids_NC: jax.Array, table: jax.Array, layers: Sequence[tuple[lstm.LstmWeights, lstm.LstmWeights]], pool: str
) -> jax.Array:
    """float32[N, H] ("mean" of all final states) or [N, 2·H] ("last": the top layer's two, forward first).

    Args:
      ids_NC: ids of `nn.characters`; padding changes nothing.
      table: [19, width]. layers: (forward, backward); the input of each is both directions of the one below.
    """
    # The lowest kernels are applied to the table once, not to every character.
    lowest = [weights._replace(input=table @ weights.input) for weights in layers[0]]
    x = jax.nn.one_hot(ids_NC, characters.COUNT, dtype=table.dtype)
    states = lstm.final_states(x, [(lowest[0], lowest[1]), *layers[1:]], (ids_NC != characters.PAD).astype(jnp.int32))
    if pool == "mean":
        return jnp.stack(states).mean(axis=0)
    return jnp.concatenate(states[-2:], axis=-1)


class Embed(protocols.Embed, nn.Module):
    """A numeral's vector from the characters of its surface.

    Attributes:
      dim: width of the vector; with project=False it must be the LSTM's: `hidden` for mean, 2 · `hidden` for last.
      hidden: H of each direction; layers: number of layers. char_dim: width of a character, H by default.
      pool: "mean" of all layers' final states, or the "last" layer's two.
      project: whether a linear layer maps the states to `dim`.
      length: most characters that are read. short: a length that most strings do not exceed; if it is set, most
        strings are encoded only up to it (`nn.by_length`).
      parameters: approximate number of parameters, a name in `nn/sizes.py`; it then sets `hidden` and `layers`.
    """

    dim: OptionOrContext[int] = 64
    hidden: int = 32
    layers: int = 1
    char_dim: int | None = None
    pool: str = "mean"
    project: bool = True
    length: int = 32
    short: int = 0
    parameters: str = ""
    kind = "numeral"
    reads_surfaces = True

    def __post_init__(self):
        super().__post_init__()
        check_least("char_lstm", 1, dim=self.dim, hidden=self.hidden, layers=self.layers, length=self.length)
        if self.char_dim is not None:
            check_least("char_lstm", 1, char_dim=self.char_dim)

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """{"characters": int8[N, length]}: see `characters.make_features`."""
        return characters.make_features(numerals, surfaces, self.length)

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        ids = characters.character_ids(numerals, features, self.length)
        hidden, layers = sizes.encoder_size("char_lstm", self.parameters, self.dim, (self.hidden, self.layers))
        width = 2 * hidden if self.pool == "last" else hidden
        if self.pool not in POOLS:
            raise UsageError(f"char_lstm: pool must be one of {', '.join(POOLS)}, not {self.pool!r}")
        if not self.project and width != self.dim:
            raise UsageError(f"char_lstm: without project, dim must be {width}, not {self.dim}")
        char_dim = self.char_dim or hidden
        table = self.param("characters", nn.initializers.normal(1.0), (characters.COUNT, char_dim), jnp.float32)
        weights = lstm.declare_stack(self.param, layers, char_dim, hidden)
        vectors = encode_by_length(
            lambda part: char_lstm(part, table, weights, self.pool), ids, characters.PAD, self.short
        )
        if self.project:
            uniform = lstm.uniform(width)
            kernel = self.param("kernel", uniform, (width, self.dim), jnp.float32)
            vectors = vectors @ kernel + self.param("bias", uniform, (self.dim,), jnp.float32)
        return vectors
