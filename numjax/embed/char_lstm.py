"""The characters of a numeral through a bidirectional LSTM (Wallace et al. 2019; LUNA's CharLSTM).

Wallace et al. concatenate the two final states of one layer of 100 over characters of 64 dimensions:
char_dim=64, hidden=100, layers=1, pool=last, project=False, dim=200. LUNA takes the mean of the final states of all
layers and projects it: parameters="0.1M", "1M" or "9M" (`embed/sizes.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.embed import sizes
from numjax.errors import UsageError
from numjax.nn import characters, lstm
from numjax.nn.by_length import by_length
from numjax.protocols import OrTold
from numjax.types import Numeral

POOLS = ("mean", "last")


def char_lstm(
    ids_NC: jax.Array, table: jax.Array, layers: Sequence[tuple[lstm.Weights, lstm.Weights]], pool: str
) -> jax.Array:
    """float32[N, H] ("mean" of all final states) or [N, 2·H] ("last": the top layer's two, forward first).

    Args:
      ids_NC: of `nn.characters`; what is padded changes nothing.
      table: [19, width]. layers: (forward, backward), each reading both directions of the one below.
    """
    # The table goes through the lowest kernels once, not once a character.
    lowest = [weights._replace(input=table @ weights.input) for weights in layers[0]]
    x = jax.nn.one_hot(ids_NC, characters.COUNT, dtype=table.dtype)
    states = lstm.stack(x, [(lowest[0], lowest[1]), *layers[1:]], (ids_NC != characters.PAD).astype(jnp.int32))
    if pool == "mean":
        return jnp.stack(states).mean(axis=0)
    return jnp.concatenate(states[-2:], axis=-1)


class Embed(protocols.Embed, nn.Module):
    """A numeral read character by character, as it is written.

    Attributes:
      dim: of the vector; with project=False it must be what the LSTM gives: `hidden` for mean, 2 · `hidden` for last.
      hidden: H of each direction; layers: how many. char_dim: of a character, H by default.
      pool: "mean" of all layers' final states, or the "last" layer's two.
      project: whether a linear layer makes `dim` of them.
      length: characters that are read at most. short: those that most strings have at most; where it is given, most
        are read no further (`nn.by_length`).
      parameters: about how many, a name in `embed/sizes.py`, which then decides on `hidden` and `layers`.
    """

    dim: OrTold[int] = 64
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

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """{"characters": int8[N, length]}: see `characters.features`."""
        return characters.features(numerals, surfaces, self.length)

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        ids = characters.ids_of(numerals, features, self.length)
        hidden, layers = sizes.of("char_lstm", self.parameters, self.dim, (self.hidden, self.layers))
        width = 2 * hidden if self.pool == "last" else hidden
        if self.pool not in POOLS:
            raise UsageError(f"char_lstm: pool must be one of {', '.join(POOLS)}, not {self.pool!r}")
        if not self.project and width != self.dim:
            raise UsageError(f"char_lstm: without project, dim must be {width}, not {self.dim}")
        char_dim = self.char_dim or hidden
        table = self.param("characters", nn.initializers.normal(1.0), (characters.COUNT, char_dim), jnp.float32)
        weights = lstm.declare(self.param, layers, char_dim, hidden)
        found = by_length(lambda some: char_lstm(some, table, weights, self.pool), ids, characters.PAD, self.short)
        if self.project:
            uniform = lstm.uniform(width)
            kernel = self.param("kernel", uniform, (width, self.dim), jnp.float32)
            found = found @ kernel + self.param("bias", uniform, (self.dim,), jnp.float32)
        return found
