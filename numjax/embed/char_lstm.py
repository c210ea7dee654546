"""The characters of a numeral through a bidirectional LSTM (Wallace et al. 2019; LUNA's CharLSTM).

Wallace et al. concatenate the two final states of one layer of 100 over characters of 64 dimensions:
char_dim=64, hidden=100, layers=1, pool=last, project=False, dim=200. LUNA takes the mean of the final states of all
layers and projects it: hidden=32, layers=3 with 0.1M parameters, 128 and 3 with 1M, 208 and 9 with 9M.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax.errors import UsageError
from numjax.nn import characters, lstm
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
    x = jnp.take(table, ids_NC.astype(jnp.int32), axis=0)
    segments = (ids_NC != characters.PAD).astype(jnp.int32)
    states = []
    for there, back in layers:
        (forward, last_forward), (backward, last_backward) = lstm.bidirectional(x, there, back, segments)
        x = jnp.concatenate([forward, backward], axis=-1)
        states += [last_forward.hidden, last_backward.hidden]
    if pool == "mean":
        return jnp.stack(states).mean(axis=0)
    return jnp.concatenate(states[-2:], axis=-1)


class Embed(nn.Module):
    """A numeral read character by character, as it is written.

    Attributes:
      dim: of the vector; with project=False it must be what the LSTM gives: `hidden` for mean, 2 · `hidden` for last.
      hidden: H of each direction; layers: how many. char_dim: of a character, H by default.
      pool: "mean" of all layers' final states, or the "last" layer's two.
      project: whether a linear layer makes `dim` of them.
      length: characters that are read at most.
    """

    dim: int = 64
    hidden: int = 32
    layers: int = 1
    char_dim: int | None = None
    pool: str = "mean"
    project: bool = True
    length: int = 32
    kind = "numeral"
    reads_surfaces = True

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """{"characters": int8[N, length]}: see `characters.features`."""
        return characters.features(numerals, surfaces, self.length)

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        ids = characters.ids_of(numerals, features, self.length)
        width = 2 * self.hidden if self.pool == "last" else self.hidden
        if self.pool not in POOLS:
            raise UsageError(f"char_lstm: pool must be one of {', '.join(POOLS)}, not {self.pool!r}")
        if not self.project and width != self.dim:
            raise UsageError(f"char_lstm: without project, dim must be {width}, not {self.dim}")
        char_dim = self.char_dim or self.hidden
        table = self.param("characters", nn.initializers.normal(1.0), (characters.COUNT, char_dim), jnp.float32)
        layers = []
        for layer in range(self.layers):
            reads = char_dim if layer == 0 else 2 * self.hidden
            layers.append(
                (self._weights(f"layer_{layer}_forward", reads), self._weights(f"layer_{layer}_backward", reads))
            )
        found = char_lstm(ids.reshape(-1, ids.shape[-1]), table, layers, self.pool)
        if self.project:
            uniform = lstm.uniform(width)
            kernel = self.param("kernel", uniform, (width, self.dim), jnp.float32)
            found = found @ kernel + self.param("bias", uniform, (self.dim,), jnp.float32)
        return found.reshape(*ids.shape[:-1], self.dim)

    def _weights(self, name: str, width: int) -> lstm.Weights:
        parts = lstm.shapes(width, self.hidden).items()
        return lstm.Weights(
            *(self.param(f"{name}_{part}", lstm.uniform(self.hidden), shape, jnp.float32) for part, shape in parts)
        )
