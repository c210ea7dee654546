"""The digits before a digit in its number (of our own): an n-gram embedding for digits alone.

Legend: B rows, T positions, D width, J digits before.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from numjax import protocols
from numjax.errors import UsageError
from numjax.nn import id_table, number_runs
from numjax.nn.dense import project
from numjax.protocols import FromContext
from numjax.types import Channel, Tokens

MOST = 8
# A limb of one digit.
_LIMB = re.compile(r"\[:([0-9])\]")
_POINT = "[.]"  # counts as a digit: the eleventh


@dataclasses.dataclass(frozen=True)
class Before(protocols.Producer):
    """The channel "digits_before", int32[T, count]: 1 + the digit j + 1 positions before a digit in the same run of
    digits; 0 where there is none, and for all other tokens.

    Attributes:
      digits: (id, digit) of the tokens that are one digit. count: how many before.
    """

    digits: tuple[tuple[int, int], ...]
    count: int

    @property
    def channel(self) -> Channel:
        """The channel."""
        return Channel("digits_before", of_ids=True, reach=self.count)

    @functools.cached_property
    def _digits(self) -> np.ndarray:
        """1 + the digit of an id, 0 if it is none."""
        return id_table.make((token, digit + 1) for token, digit in self.digits)

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T, count]."""
        values = np.zeros((len(ids), self.count), np.int32)
        own = id_table.look_up(self._digits, ids)
        before, inside = own, own > 0
        for j in range(self.count):
            before = np.concatenate([[0], before[:-1]])
            inside = inside & (before > 0)
            values[:, j] = np.where(inside, before, 0)
        return values

    def begin(self, rows: int) -> jax.Array:
        """1 + the latest digits of the run, the last one first; 0 before it: int32[rows, count]."""
        return jnp.zeros((rows, self.count), jnp.int32)

    def step(self, state: jax.Array, token: jax.Array, automaton_state: Any) -> tuple[jax.Array, jax.Array]:
        """(the state with this token, the channel's value at it)."""
        del automaton_state
        tokens, digits = (jnp.asarray(column, jnp.int32) for column in zip(*self.digits, strict=True))
        own = ((token[:, None] == tokens) * (digits + 1)).sum(-1)[:, None]
        return (own > 0) * jnp.concatenate([own, state[:, :-1]], axis=-1), (own > 0) * state


@dataclasses.dataclass(frozen=True)
class Behind(number_runs.UntilMark, protocols.Producer):
    """The channel "digits_behind", int32[T, count]: as `Before`, of the digits behind a digit, and only where numbers
    are given: before the first mark `until`. What is written has zeros.

    Attributes:
      digits, count: as in `Before`. until: id of the mark; −1: nothing is given.
    """

    digits: tuple[tuple[int, int], ...]
    count: int
    until: int = -1

    @property
    def channel(self) -> Channel:
        """The channel."""
        return Channel("digits_behind", of_ids=True, ahead=self.count)

    @functools.cached_property
    def _before(self) -> Before:
        return Before(self.digits, self.count)

    def compute(self, ids: np.ndarray) -> np.ndarray:
        """The channel of a document's ids, int32[T, count]."""
        n_given, values = number_runs.count_given(ids, self.until), np.zeros((len(ids), self.count), np.int32)
        values[:n_given] = self._before.compute(ids[:n_given][::-1])[::-1]
        return values

    def step(self, state: Any, token: jax.Array, automaton_state: Any) -> tuple[Any, jax.Array]:
        """(the state, zeros)."""
        del automaton_state
        return state, jnp.zeros((len(token), self.count), jnp.int32)


class Embed(protocols.Embed, nn.Module):
    """Σ_j v_j(d_j), added to the vector of a digit: d_j is the digit j + 1 positions before it in the same number.
    Nothing is added to other tokens.

    With `behind` the digits of given numbers have those behind them too, Σ_j w_j(d_j). Where numbers stand from the
    highest digit, these are the digits from which a carry comes.

    So a position can be found by the digits that led to it: two numbers that share a digit seldom share four. That is
    what copying either of two numbers takes, and choosing the larger one. Attention alone needs a layer to learn what
    stands before a token. With the lowest digit first, the last position of a number has its leading digits.

    N-gram embeddings of all tokens have a vector for each n-gram; here it is a sum, so that 10,000 n-grams of digits
    share 40 vectors.

    Attributes:
      dim: D. before: J, 1 to 8. behind: how many behind, 0 to 8. init_std: of the vectors.
      until: the mark behind the numbers that are given.

    Raises:
      UsageError: `before` is not from 1 to 8, `behind` not from 0 to 8, or no token of the vocabulary is a digit.
    """

    dim: FromContext[int]
    digit_symbols: FromContext[tuple[tuple[int, int], ...] | None] = None
    marks: FromContext[tuple[tuple[str, int], ...] | None] = None
    before: int = 3
    behind: int = 0
    until: str = "[SEP]"
    init_std: float = 0.02
    kind = "type"
    reads_channels = ("digits_before",)

    @classmethod
    def wants_channels(cls, options: Mapping[str, Any]) -> tuple[str, ...]:
        return (*cls.reads_channels, *(("digits_behind",) if options.get("behind") else ()))

    def producers(self) -> tuple[protocols.Producer, ...]:
        for option, least in (("before", 1), ("behind", 0)):
            if not least <= getattr(self, option) <= MOST:
                raise UsageError(
                    f"embed digit_ngram: {option} must be from {least} to {MOST}, not {getattr(self, option)}"
                )
        before = Before(self._list_digits(), self.before)
        until = dict(self.marks or ()).get(self.until, -1)
        return (before, Behind(before.digits, self.behind, until)) if self.behind else (before,)

    def _list_digits(self) -> tuple[tuple[int, int], ...]:
        """(id, digit) of the tokens that are one digit; of the point of known numbers 10."""
        limbs = tuple((token, int(m[1])) for name, token in self.marks or () if (m := _LIMB.fullmatch(name)))
        if not (digits := (*(self.digit_symbols or ()), *limbs)):
            raise UsageError("embed digit_ngram: no token of this vocabulary is a digit: split its digits")
        return (*digits, *((token, 10) for name, token in self.marks or () if name == _POINT))

    @nn.compact
    def __call__(self, tokens: Tokens) -> jax.Array:
        count = 1 + max(digit for _, digit in self._list_digits())
        x_BTD = self._add("vectors", tokens.channel("digits_before"), count)
        return x_BTD + self._add("behind_vectors", tokens.channel("digits_behind"), count) if self.behind else x_BTD

    def _add(self, name: str, digits: jax.Array, count: int) -> jax.Array:
        init = nn.initializers.normal(self.init_std)
        vectors = self.param(name, init, (digits.shape[-1], count, self.dim), jnp.float32)
        # No digit is −1, which has no 1 at all.
        is_digit = jax.nn.one_hot(digits - 1, count, dtype=jnp.float32).reshape(*digits.shape[:-1], -1)
        return project(is_digit, vectors.reshape(-1, self.dim))
