"""A bias of the attention scores for each distance between the ranks of two symbols: the first, second, … of their
numbers (for known numbers of the scheme `limbs`; of our own, after `coupled_bias`).

Legend: B rows, T positions of queries, S of keys, H heads.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import id_table, number_runs
from numjax.positions import base
from numjax.protocols import FromContext
from numjax.types import Channel, Tokens

_HEADER = re.compile(r"\[\^[+-]?[0-9]*,?\]")
_INSIDE = re.compile(r"\[:[0-9]\]|\[\.\]")


@dataclasses.dataclass(frozen=True)
class Rank(number_runs.UntilMark, protocols.Producer):
    """The channel "rank", int32[T]: k at the k-th symbol behind the header of a known number, the point among them,
    if the number is given. What is written has the rank of the symbol that comes next, also at the header. 0
    elsewhere. Of a number that is spelled between [F] and [/F] all tokens are symbols, the last mark too.

    Numbers before the first mark `until` are given; the decoder only steps over what is written.

    Attributes:
      headers: ids of headers. inside: ids of what stands behind them. until: the mark behind what is given.
      opening, closing: the ids of [F] and [/F]; −1 for none.
    """

    headers: tuple[int, ...]
    inside: tuple[int, ...]
    until: int = -1
    opening: int = -1
    closing: int = -1
    channel = Channel("rank", of_ids=True)

    @functools.cached_property
    def _sets(self) -> tuple[np.ndarray, ...]:
        """Whether an id is a header, and whether it stands behind one."""
        return tuple(map(id_table.make_set, (self.headers, self.inside)))

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T]."""
        values, n_given = np.zeros(len(ids), np.int32), number_runs.count_given(ids, self.until)
        is_header, inside = (id_table.look_up(table, ids) for table in self._sets)
        runs = number_runs.find_runs(is_header, inside)
        for start, end in runs + number_runs.find_fenced(ids == self.opening, ids == self.closing, is_header):
            values[start:end] = np.arange(end - start) + (start >= n_given)
        return values

    def begin(self, rows: int) -> jax.Array:
        """(the rank of the next symbol, 0 outside of numbers; 1 behind [F]), int32[rows, 2]."""
        return jnp.zeros((rows, 2), jnp.int32)

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(the state with this token, the channel's value at it if it is written)."""
        del automaton_state
        is_header, is_inside = (
            (token[:, None] == jnp.asarray(ids, jnp.int32)).any(-1) for ids in (self.headers, self.inside)
        )
        is_opening, (rank, is_fenced) = token == self.opening, state.T
        goes_on = (rank > 0) & jnp.where(is_fenced > 0, True, is_inside)
        value = jnp.where(is_header | is_opening, 1, jnp.where(goes_on, rank + 1, 0))
        is_fenced = is_opening | ((is_fenced > 0) & ~is_header)
        is_closed = is_fenced & (token == self.closing)
        return jnp.stack([jnp.where(is_closed, 0, value), (is_fenced & ~is_closed).astype(jnp.int32)], -1), value


class Positions(protocols.Positions, nn.Module):
    """b[h, distance of the ranks of key and query], up to `span` in either direction; further ones share the last.

    So a copy finds the symbol that comes next in each given number, whatever the number's length, and what stands
    before it tells which number it copies. Pairs of which one has no rank have a bias of their own.

    Attributes:
      until: the mark behind the numbers that are given. span, gain, init_std: as in `coupled_bias`.

    Raises:
      UsageError: the scheme has no known numbers.
    """

    stack: FromContext[protocols.Stack | None] = None
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    until: str = "[SEP]"
    span: int = 2
    gain: float = 10.0
    init_std: float = 0.1
    reads_channels = ("rank",)
    made_for = "limbs"

    def producers(self) -> tuple[Rank, ...]:
        headers, inside = (
            tuple(token for name, token in self.marks or () if pattern.fullmatch(name))
            for pattern in (_HEADER, _INSIDE)
        )
        if not headers:
            raise UsageError(
                "positions rank_bias: no number stands as it is read: choose scheme limbs with known=True"
            )
        until, *fence = (dict(self.marks or ()).get(name, -1) for name in (self.until, "[F]", "[/F]"))
        return (Rank(headers, inside, until, *fence),)

    def setup(self):
        self.distances = base.add_distances(self)

    def bias_index(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """The rank of each symbol, from 1, and 0 at other tokens, int32[B, T]."""
        del deterministic
        return tokens.channel("rank")

    def bias(self, query: jax.Array, key: jax.Array) -> jax.Array:
        """float32[B, H, T, S]."""
        return self.gain * base.look_up_distances(self.distances, query, key)
