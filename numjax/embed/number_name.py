"""Which number of the text a digit belongs to (of our own, for the scheme `limbs` with names).

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn.dense import project
from numjax.protocols import FromContext
from numjax.types import Channel, Tokens

_NAME = re.compile(r"\[@([0-9]+)\]")
_INSIDE = re.compile(r"\[[#=|:.].*\]")  # counts, headers and limbs


@dataclasses.dataclass(frozen=True)
class Names(protocols.Producer):
    """The channel "number_name", int32[T]: k at the mark [@k] and in the number behind it, 0 elsewhere.

    Attributes:
      names: (id, k) of the marks. inside: ids of the tokens that a number with a name has.
    """

    names: tuple[tuple[int, int], ...]
    inside: tuple[int, ...]

    @property
    def channel(self) -> Channel:
        """The channel. It reads marks alone, which masking never hides, so it has no reach."""
        return Channel("number_name", of_ids=True)

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T]."""
        names, inside, values, name = dict(self.names), set(self.inside), np.zeros(len(ids), np.int32), 0
        for i, token in enumerate(ids.tolist()):
            values[i] = name = names.get(token, name if token in inside else 0)
        return values

    def begin(self, rows: int) -> jax.Array:
        """The name of the current number, int32[rows]."""
        return jnp.zeros(rows, jnp.int32)

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(the state with this token, the channel's value at it)."""
        del automaton_state
        tokens, names = (jnp.asarray(column, jnp.int32) for column in zip(*self.names, strict=True))
        own = ((token[:, None] == tokens) * names).sum(-1)
        is_inside = (token[:, None] == jnp.asarray(self.inside, jnp.int32)).any(-1)
        state = jnp.where(own > 0, own, state * is_inside)
        return state, state


class Embed(protocols.Embed, nn.Module):
    """v_k, added at all positions of a number with the name k; nothing is added elsewhere.

    So a number that is written behind the name of a given one finds that number's digits by the name alone, whatever
    they are.

    Attributes:
      dim: D. marks: (name, id) of the vocabulary's marks. init_std: of the vectors.

    Raises:
      UsageError: the vocabulary has no names.
    """

    dim: FromContext[int]
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    init_std: float = 0.02
    kind = "type"
    made_for = "limbs"
    reads_channels = ("number_name",)

    def producers(self) -> tuple[Names, ...]:
        names = tuple((token, int(m[1])) for name, token in self.marks or () if (m := _NAME.fullmatch(name)))
        if not names:
            raise UsageError("embed number_name: numbers have no names here: choose scheme limbs with names=8")
        inside = tuple(token for name, token in self.marks or () if _INSIDE.fullmatch(name))
        return (Names(names, inside),)

    @nn.compact
    def __call__(self, tokens: Tokens) -> jax.Array:
        init = nn.initializers.normal(self.init_std)
        count = len(self.producers()[0].names)
        vectors = self.param("vectors", init, (count, self.dim), jnp.float32)
        names = tokens.channel("number_name")
        return project(jax.nn.one_hot(names - 1, count, dtype=jnp.float32), vectors)
