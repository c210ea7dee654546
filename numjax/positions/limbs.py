"""The power of a limb, which all numbers of a row share (for the scheme `limbs`; of our own).

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
from numjax.protocols import FromContext
from numjax.types import Channel, Tokens

_HEADER = re.compile(r"\[[#=][+-]?([0-9]*),?\]")
_NOWHERE = -(2**30)  # before any header, at any length of the text
_LIMB = re.compile(r"\[[:.][0-9]{1,3}\]")


@dataclasses.dataclass(frozen=True)
class Power(protocols.Producer):
    """The channel "limb_power": 1 + k of a limb worth 1000^(k − parts), with `parts` the most limbs behind the point;
    0 for all other tokens.

    A number's header says how many limbs stand behind the point, so that its first limb's power is known, also while
    it is written.

    Attributes:
      headers: (id, count of limbs behind the point) of headers. limbs: ids of limbs.
    """

    headers: tuple[tuple[int, int], ...]
    limbs: tuple[int, ...]
    channel = Channel("limb_power", of_ids=True)

    @property
    def parts(self) -> int:
        """The most limbs behind the point."""
        return max(count for _, count in self.headers)

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T]."""
        counts = np.zeros(len(ids), np.int32)
        is_header = np.zeros(len(ids), bool)
        for token, count in self.headers:
            counts[ids == token] = count
            is_header |= ids == token
        at = np.arange(len(ids))
        header_at = np.maximum.accumulate(np.where(is_header, at, -1))
        power = at - header_at + self.parts - counts[np.maximum(header_at, 0)]
        return np.where(np.isin(ids, self.limbs) & (header_at >= 0), power, 0).astype(np.int32)

    def begin(self, rows: int) -> jax.Array:
        """What the position before would have if it were a limb, int32[rows]; below 0 before any header."""
        return jnp.full(rows, _NOWHERE, jnp.int32)

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(what this position would have if it were a limb, the channel's value)."""
        del automaton_state
        tokens, counts = (jnp.asarray(column, jnp.int32) for column in zip(*self.headers, strict=True))
        matches = token[:, None] == tokens
        before = self.parts - (matches * counts).sum(-1)
        is_limb = (token[:, None] == jnp.asarray(self.limbs, jnp.int32)).any(-1)
        state = jnp.where(matches.any(-1), before, state + 1)
        return state, jnp.where(is_limb & (state > 0), state, 0)


class Positions(protocols.Positions, nn.Module):
    """A learned vector for each power of 1000, added to the stack's input; nothing is added to other tokens.

    Limbs of the same power have the same vector in all numbers of a row, so that operands and answer are aligned
    without knowing which is which, and also behind the point.

    Attributes:
      most: number of powers with a vector of their own; further ones use the last one.
      offset: in training powers are shifted by a random number up to this, one per row.
      init_std: as in `learned`.
    """

    stack: FromContext[protocols.Stack | None] = None
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    most: int = 48
    offset: int = 24
    init_std: float = 0.02
    reads_channels = ("limb_power",)
    made_for = "limbs"

    def setup(self):
        if self.most < 1 or self.offset < 0:
            raise UsageError("positions limbs: most must be at least 1, and offset not negative")
        width, init = self.require_stack().width, nn.initializers.normal(self.init_std)
        self.table = self.param("table", init, (self.most + self.offset, width), jnp.float32)

    def producers(self) -> tuple[protocols.Producer, ...]:
        marks = self.marks or ()
        headers = [(token, int(match[1] or 0)) for name, token in marks if (match := _HEADER.fullmatch(name))]
        limbs = [token for name, token in marks if _LIMB.fullmatch(name)]
        if not headers or not limbs:
            raise UsageError("positions limbs: the vocabulary has no limbs: choose scheme limbs")
        return (Power(tuple(headers), tuple(limbs)),)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        power = tokens.channel("limb_power")
        index = jnp.minimum(power, self.most) - 1
        if not deterministic:
            rows = (power.shape[0], 1)
            index = index + jax.random.randint(self.make_rng("dropout"), rows, 0, self.offset + 1)
        return jnp.where((power > 0)[..., None], jnp.take(self.table, jnp.maximum(index, 0), axis=0), 0.0)
