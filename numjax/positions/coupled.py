"""One position for all digits of the same power of ten (position coupling; Cho et al. 2024, arXiv 2405.20671).

Legend: B rows, T positions, D width.
"""

from __future__ import annotations

import dataclasses
import functools
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
from numjax.types import Channel, Tokens, WrittenPlaces


@dataclasses.dataclass(frozen=True)
class Significance(number_runs.UntilMark, protocols.Producer):
    """The channel "significance", int32[T, 2]: (the coupled position, the digit's number in the row, from 1).

    The position of a digit for 10^k is k + 2; that of any other token is 1, with the number 0; padding has zeros.

    The sequence gives the parse. Numbers before the first mark `until` are given: the host knows their ends, and
    counts from the last digit, also for a prompt. Numbers behind it are written: they count from the first digit,
    so that no position says how long a number will be. This is right for numbers with their last digit first. The
    decoder only steps over what is written. Each run of digits counts for itself, so a decimal point begins anew,
    unless `points` are known: then the digit of a given number for 10^k has position k + 2 − `lowest`, also behind
    the point.

    Attributes:
      digits: ids of the tokens that are one digit, or are written for `size` places.
      until: the mark behind what is given; −1: nothing is given.
      reversed_from, reversed_to: the marks around a number with its last digit first; −1 for none.
      opening: the marks before a number; without any, each run of digits is a number.
      points: the token that is a decimal point. lowest: the lowest place that is written, the first of its number.
      ahead: 1: what is written has the position of the digit that comes next, and `reversed_from` that of the first.
      limb: the token that is written for `size` places, at the position of the lowest; −1: there is none.
    """

    digits: tuple[int, ...]
    until: int = -1
    reversed_from: int = -1
    reversed_to: int = -1
    opening: tuple[int, ...] = ()
    points: tuple[int, ...] = ()
    lowest: int = 0
    ahead: int = 0
    limb: int = -1
    size: int = 1
    channel = Channel("significance", of_ids=True)

    @functools.cached_property
    def _sets(self) -> tuple[np.ndarray, ...]:
        """Whether an id is a digit, a decimal point, and a mark before a number."""
        return tuple(map(id_table.make_set, (self.digits, self.points, self.opening)))

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T, 2]."""
        (inside, is_point, opens), at = (id_table.look_up(table, ids) for table in self._sets), np.arange(len(ids))
        from_first, from_last = _count_runs(inside), _count_runs(inside[::-1])[::-1]
        is_given = at < number_runs.count_given(ids, self.until)
        latest = [
            np.maximum.accumulate(np.where(ids == mark, at, -1)) for mark in (self.reversed_from, self.reversed_to)
        ]
        if self.points:
            from_last = _count_from_point(inside, is_point, self.lowest)
        size = np.where(ids == self.limb, self.size, 1)
        written = self._place(from_first, size, ids == self.reversed_from)
        place = np.where(is_given, np.where(latest[0] <= latest[1], from_last, from_first), written)
        count = np.cumsum(opens if self.opening else from_first == 1)
        return np.stack([place + 1, np.where(inside, count, 0)], axis=-1).astype(np.int32)

    def begin(self, rows: int) -> jax.Array:
        """(digits in the run so far, numbers so far), int32[rows, 2]."""
        return jnp.zeros((rows, 2), jnp.int32)

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(the state with this token, the channel's value at it if it is written)."""
        del automaton_state
        inside = (token[:, None] == jnp.asarray(self.digits, jnp.int32)).any(-1)
        run = jnp.where(inside, state[:, 0] + 1, 0)
        opening = jnp.asarray(self.opening, jnp.int32)
        begins = (token[:, None] == opening).any(-1) if self.opening else run == 1
        count = state[:, 1] + begins
        size = jnp.where(token == self.limb, self.size, 1)
        place = self._place(run, size, token == self.reversed_from) + 1
        return jnp.stack([run, count], -1), jnp.stack([place, jnp.where(inside, count, 0)], -1)

    def _place(self, index: Any, size: Any, is_before: Any) -> Any:
        """The place of the written token `index` of its number, of which each is for `size` places: from 1, and 0 of
        other tokens; with `ahead` that of the next one."""
        inside = index > 0
        return inside * (1 + size * (index - 1 + self.ahead)) + self.ahead * is_before


def _count_runs(inside: np.ndarray) -> np.ndarray:
    """The number of each position within its run of True values, from 1; 0 outside."""
    at = np.arange(1, len(inside) + 1)
    return np.where(inside, at - np.maximum.accumulate(np.where(inside, 0, at)), 0)


def _count_from_point(inside: np.ndarray, is_point: np.ndarray, lowest: int) -> np.ndarray:
    """Of each digit k − `lowest` + 1, if it stands for 10^k, and at least 1; 0 outside numbers. A number is a run of
    digits with at most one point inside."""
    places, run, point = [0] * len(inside), [], -1
    for at, (is_digit, is_dot) in enumerate(zip([*inside.tolist(), False], [*is_point.tolist(), False], strict=True)):
        if is_digit:
            run.append(at)
        elif is_dot and run and point < 0:
            point = at
        else:
            top = sum(i < point for i in run) if point >= 0 else len(run)
            for rank, i in enumerate(run):
                places[i] = max(1, top - rank - lowest)
            run, point = [], -1
    return np.asarray(places, np.int64)


class Coupling(NumberedPositions):
    """The base of positions that the digits of the same power of ten share.

    Attributes, besides those of `NumberedPositions`:
      until: the mark behind the numbers that are given.
      ahead: each written digit, and the mark before it, has the position of the digit that is predicted there, not
        its own, so that like positions meet in attention. The authors use its own.
    """

    digit_symbols: FromContext[tuple[tuple[int, int], ...] | None] = None
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    point_ids: FromContext[tuple[int, ...] | None] = None
    num_id: FromContext[int | None] = None
    written_places: FromContext[WrittenPlaces | None] = None
    until: str = "[SEP]"
    ahead: bool = False
    reads_channels = ("significance",)
    needs_parse = True

    def producers(self) -> tuple[protocols.Producer, ...]:
        if not self.digit_symbols:
            raise UsageError(
                f"positions {self.part_name()}: no token of this vocabulary is a digit: split its digits"
            )
        marks = dict(self.marks or ())
        if marks and self.until not in marks:
            raise UsageError(
                f"positions {self.part_name()}: the vocabulary has no mark {self.until!r}: set until to one it has"
            )
        digits, in_places = tuple(token for token, _ in self.digit_symbols), {}
        if self.written_places is not None and self.num_id is not None:
            digits = *digits, self.num_id
            in_places = {"points": self.point_ids or (), "lowest": self.written_places.lowest}
            in_places |= {"limb": self.num_id, "size": self.written_places.size}
        return (
            Significance(
                digits,
                until=marks.get(self.until, -1),
                reversed_from=marks.get("[R]", -1),
                reversed_to=marks.get("[/R]", -1),
                opening=tuple(marks[name] for name in ("[F]", "[R]") if name in marks),
                ahead=int(self.ahead),
                **in_places,
            ),
        )


class Positions(Coupling):
    """A learned vector for each power of ten, which operands and answer share; one more for all other tokens.

    With r = 1, `653 + 049 =` has 4 3 2 | 1 | 4 3 2 | 1, and its answer 0702, written [R]2070[/R], has 2 3 4 5. The
    authors give r to "+" and "="; here every token that is no digit has it, since questions also have blanks and
    marks. They pad operands and answer with zeros to equal length; tasks here have no padding, which changes no
    position of a digit, since it depends only on the power of ten. Use scheme reversed, which writes answers with
    their last digit first: an answer in the usual order counts from its first digit, as in `abacus`. With a scheme
    that writes numbers place by place (carry_save), each [NUM] is a digit, or the lowest of a limb, and given numbers
    count from their point.

    Attributes, besides those of `Coupling`, whose vectors of numbers are not shifted:
      most: number of powers of ten with a vector of their own; further ones use the last one.
      offset: in training r is 1 plus a random number up to this, one per row; in evaluation and generation r is 1.
        The authors draw r up to what the longest example leaves of the table.
    """

    most: int = 128
    offset: int = 99

    def setup(self):
        super().setup()
        if self.most < 1 or self.offset < 0:
            raise UsageError("positions coupled: most must be at least 1, and offset not negative")
        shape, init = (1 + self.most + self.offset, self.require_stack().width), nn.initializers.normal(self.init_std)
        self.places = self.param("places", init, shape, jnp.float32)

    def added(self, tokens: Tokens, deterministic: bool = True) -> jax.Array:
        """x[B, T, D]."""
        place = tokens.channel("significance")[..., 0]
        index = jnp.minimum(place, 1 + self.most) - 1
        if not deterministic:
            rows = (place.shape[0], 1)
            index = index + jax.random.randint(self.make_rng("dropout"), rows, 0, self.offset + 1)
        x_BTD = jnp.where((place > 0)[..., None], jnp.take(self.places, jnp.maximum(index, 0), axis=0), 0.0)
        return x_BTD + super().added(tokens) if self.numbers else x_BTD
