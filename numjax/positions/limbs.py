"""The power of a limb, which all numbers of a row share (for the scheme `limbs`; of our own).

Powers are those of 1000, or of 10 where a limb is one digit.

Legend: B rows, T positions, D width.
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
from numjax.positions.base import NumberedPositions
from numjax.protocols import FromContext
from numjax.types import Channel, Tokens

_HEADER = re.compile(r"\[[#=][+-]?([0-9]*),?\]")
_NOWHERE = -(2**30)  # before any header, at any length of the text
_LIMB = re.compile(r"\[[:.][0-9]{1,3}\]")
_KNOWN = re.compile(r"\[\^[+-]?[0-9]*,?\]")


@dataclasses.dataclass(frozen=True)
class Power(number_runs.UntilMark, protocols.Producer):
    """The channel "limb_power", int32[T, 2]: (1 + k of a limb worth 1000^(k − parts), with `parts` the most limbs
    behind the point; which number of the row it is, from 1). Both are 0 for all other tokens.

    A number's header says how many limbs stand behind the point, so that its first limb's power is known, also while
    it is written. Known numbers stand from the highest digit: only the host knows their powers, if they are given,
    before the first mark `until`. There the header has the power of the first digit too.

    Attributes:
      headers: (id, count of limbs behind the point) of headers. limbs: ids of limbs.
      ahead: ids of headers which have the power of the limb that comes next, and so have the limbs behind them.
      known: ids of headers of known numbers. points: ids of the decimal point in them. until: see above.
    """

    headers: tuple[tuple[int, int], ...]
    limbs: tuple[int, ...]
    ahead: tuple[int, ...] = ()
    known: tuple[int, ...] = ()
    points: tuple[int, ...] = ()
    until: int = -1
    channel = Channel("limb_power", of_ids=True)

    @property
    def parts(self) -> int:
        """The most limbs behind the point."""
        return max(count for _, count in self.headers)

    @functools.cached_property
    def _sets(self) -> tuple[np.ndarray, ...]:
        """Whether an id is a header, a limb, a known number's header, and its point."""
        headers = [token for token, _ in self.headers]
        return tuple(map(id_table.make_set, (headers, self.limbs, self.known, self.points)))

    @functools.cached_property
    def _counts(self) -> np.ndarray:
        return id_table.make(self.headers)

    @functools.cached_property
    def _is_ahead(self) -> np.ndarray:
        return id_table.make_set(self.ahead)

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T, 2]."""
        parts = self.parts
        is_header, is_limb, is_known, is_point = (id_table.look_up(table, ids) for table in self._sets)
        at = np.arange(len(ids))
        header_at = np.maximum.accumulate(np.where(is_header, at, -1))
        header = ids[np.maximum(header_at, 0)]
        power = at - header_at + parts - id_table.look_up(self._counts, header)
        is_ahead = id_table.look_up(self._is_ahead, header)
        known_at = np.maximum.accumulate(np.where(is_known, at, -1))
        has_power = (is_limb | (is_header & is_ahead)) & (header_at > known_at)
        number = np.cumsum(is_header | is_known)
        values = np.where(has_power[:, None], np.stack([power + is_ahead, number], axis=-1), 0).astype(np.int32)
        n_given = number_runs.count_given(ids, self.until)
        for start, end in number_runs.find_runs(is_known[:n_given], (is_limb | is_point)[:n_given]):
            points = is_point[start:end]
            n_whole = int(np.argmax(points)) - 1 if points.any() else end - start - 1
            power = parts + n_whole + 1 - np.maximum(np.cumsum(~points) - 1, 1)
            powers = np.stack([power, np.full_like(power, number[start])], axis=-1)
            values[start:end] = np.where((points | (power < 1))[:, None], 0, powers)
        return values

    def begin(self, rows: int) -> jax.Array:
        """(the power that the position before would have if it were a limb, below 0 before any header; how far its
        number is ahead, 0 or 1; numbers so far), int32[rows, 3]."""
        return jnp.tile(jnp.asarray([_NOWHERE, 0, 0], jnp.int32), (rows, 1))

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(the state with this token, the channel's value)."""
        del automaton_state
        tokens, counts = (jnp.asarray(column, jnp.int32) for column in zip(*self.headers, strict=True))
        matches = token[:, None] == tokens
        is_header, before = matches.any(-1), self.parts - (matches * counts).sum(-1)
        is_limb = (token[:, None] == jnp.asarray(self.limbs, jnp.int32)).any(-1)
        is_ahead = (token[:, None] == jnp.asarray(self.ahead, jnp.int32)).any(-1)
        is_known = (token[:, None] == jnp.asarray(self.known, jnp.int32)).any(-1)
        power = jnp.where(is_header, before, jnp.where(is_known, _NOWHERE, state[:, 0] + 1))
        ahead = jnp.where(is_header, is_ahead.astype(jnp.int32), state[:, 1])
        count = state[:, 2] + (is_header | is_known)
        has_power = (is_limb & (power > 0)) | (is_header & is_ahead)
        value = jnp.where(has_power[:, None], jnp.stack([power + ahead, count], axis=-1), 0)
        return jnp.stack([power, ahead, count], axis=-1), value


class Alignment(NumberedPositions):
    """The base of positions that limbs of the same power of 1000 share.

    Operands and answer are so aligned without knowing which is which, and also behind the point.

    Attributes, besides those of `NumberedPositions`:
      ahead: of a number that may be written, each limb and the header have the power of the limb that is predicted
        there, so that like powers meet in attention.
      until: the mark behind the known numbers that are given.
    """

    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    ahead: bool = False
    until: str = "[SEP]"
    reads_channels = ("limb_power",)
    made_for = "limbs"

    def producers(self) -> tuple[protocols.Producer, ...]:
        marks = self.marks or ()
        headers = [(name, token, match[1]) for name, token in marks if (match := _HEADER.fullmatch(name))]
        limbs = [token for name, token in marks if _LIMB.fullmatch(name)]
        if not headers or not limbs:
            raise UsageError(f"positions {self.part_name()}: the vocabulary has no limbs: choose scheme limbs")
        written = [token for name, token, _ in headers if self.ahead and name.startswith("[#")]
        counts = tuple((token, int(count or 0)) for _, token, count in headers)
        known = tuple(token for name, token in marks if _KNOWN.fullmatch(name))
        points = tuple(token for name, token in marks if name == "[.]")
        until = dict(marks).get(self.until, -1) if known else -1
        return (Power(counts, tuple(limbs), tuple(written), known, points, until),)


class Positions(Alignment):
    """A learned vector for each power of 1000, added to the stack's input; nothing is added to other tokens.

    Attributes, besides those of `Alignment`:
      most: number of powers with a vector of their own; further ones use the last one.
      offset: in training powers are shifted by a random number up to this, one per row.
    """

    most: int = 48
    offset: int = 24

    def setup(self):
        super().setup()
        if self.most < 1 or self.offset < 0:
            raise UsageError("positions limbs: most must be at least 1, and offset not negative")
        width, init = self.require_stack().width, nn.initializers.normal(self.init_std)
        self.table = self.param("table", init, (self.most + self.offset, width), jnp.float32)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        power = tokens.channel("limb_power")[..., 0]
        index = jnp.minimum(power, self.most) - 1
        if not deterministic:
            rows = (power.shape[0], 1)
            index = index + jax.random.randint(self.make_rng("dropout"), rows, 0, self.offset + 1)
        x_BTD = jnp.where((power > 0)[..., None], jnp.take(self.table, jnp.maximum(index, 0), axis=0), 0.0)
        return x_BTD + super().added(tokens) if self.numbers else x_BTD
