"""The characters of a numeral through convolutions and a maximum over positions (Kim 2014; Wallace et al. 2019).

Wallace et al. concatenate 100 filters of each width 2, 3, 4 and 5 over characters of 64 dimensions: char_dim=64,
filters=100, project=False, dim=400. Their code takes the maximum over a batch's padding too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError, check_least
from numjax.nn import characters
from numjax.nn.dense import project
from numjax.nn.lstm import uniform
from numjax.protocols import OptionOrContext
from numjax.types import Numeral


def char_cnn(
    ids_NC: jax.Array, table: jax.Array, kernels: Sequence[jax.Array], biases: Sequence[jax.Array]
) -> jax.Array:
    """The maximum over positions of ReLU(convolution), float32[N, Σ filters]; padding changes nothing.

    Windows lie within the characters; a numeral shorter than the window has one window, padded with zeros.

    Args:
      ids_NC: ids of `nn.characters`.
      table: [19, width]. kernels: [size, width, filters] each. biases: [filters] each.
    """
    is_character_NC = ids_NC != characters.PAD
    x = jnp.where(is_character_NC[..., None], jnp.take(table, ids_NC.astype(jnp.int32), axis=0), 0)
    length, maxima = ids_NC.shape[1], []
    for kernel, bias in zip(kernels, biases, strict=True):
        size = kernel.shape[0]
        padded = jnp.pad(x, ((0, 0), (0, size - 1), (0, 0)))
        y_NCF = sum(project(padded[:, j : j + length], kernel[j]) for j in range(size)) + bias
        ends = jnp.pad(is_character_NC, ((0, 0), (0, size - 1)))[:, size - 1 :]
        fits = ends | (jnp.arange(length) == 0)
        maxima.append(jnp.where(fits[..., None], jax.nn.relu(y_NCF), 0).max(axis=1))
    return jnp.concatenate(maxima, axis=-1)


class Embed(protocols.Embed, nn.Module):
    """A numeral's vector from filters over its characters.

    Attributes:
      dim: width of the vector; with project=False it must be `filters` · the number of `sizes`.
      filters: number of filters of each size. sizes: of the windows, in characters. char_dim: width of a character.
      project: whether a linear layer maps the filters to `dim`.
      length: most characters that are read.
    """

    dim: OptionOrContext[int] = 64
    filters: int = 32
    sizes: tuple[int, ...] = (2, 3, 4, 5)
    char_dim: int = 32
    project: bool = True
    length: int = 32
    kind = "numeral"
    reads_surfaces = True

    def __post_init__(self):
        super().__post_init__()
        check_least("char_cnn", 1, dim=self.dim, filters=self.filters, char_dim=self.char_dim, length=self.length)
        if not self.sizes or min(self.sizes) < 1 or len({*self.sizes}) < len(self.sizes):
            raise UsageError(f"char_cnn: sizes must be different numbers from 1, not {tuple(self.sizes)}")

    def host_features(self, numerals: Numeral, surfaces: Sequence[str] | None = None) -> dict[str, np.ndarray]:
        """{"characters": int8[N, length]}: see `characters.make_features`."""
        return characters.make_features(numerals, surfaces, self.length)

    @nn.compact
    def __call__(self, numerals: Numeral, features: Mapping[str, jax.Array] | None = None) -> jax.Array:
        ids = characters.character_ids(numerals, features, self.length)
        width = self.filters * len(self.sizes)
        if not self.project and width != self.dim:
            raise UsageError(f"char_cnn: without project, dim must be {width}, not {self.dim}")
        table = self.param("characters", nn.initializers.normal(1.0), (characters.COUNT, self.char_dim), jnp.float32)
        kernels, biases = [], []
        for size in self.sizes:
            reach, shape = uniform(size * self.char_dim), (size, self.char_dim, self.filters)
            kernels.append(self.param(f"size_{size}_kernel", reach, shape, jnp.float32))
            biases.append(self.param(f"size_{size}_bias", reach, (self.filters,), jnp.float32))
        vectors = char_cnn(ids.reshape(-1, ids.shape[-1]), table, kernels, biases)
        if self.project:
            kernel = self.param("kernel", uniform(width), (width, self.dim), jnp.float32)
            vectors = vectors @ kernel + self.param("bias", uniform(width), (self.dim,), jnp.float32)
        return vectors.reshape(*ids.shape[:-1], self.dim)
